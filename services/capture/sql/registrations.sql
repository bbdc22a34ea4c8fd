-- What the NOTIFY door keeps of its registrations; the functions of schema pgr call these.

-- A setting pg_reactive.* as the administrator set it for the database: what a session sets for itself counts for nothing.
create or replace function _tidewire.reactive_setting(name text, fallback text) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    select coalesce((
        select split_part(given, '=', 2)
        from pg_db_role_setting s cross join unnest(s.setconfig) given
        where s.setrole = 0 and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
          and split_part(given, '=', 1) = 'pg_reactive.' || reactive_setting.name
        order by s.setdatabase desc limit 1), fallback);
end;

-- Two transactions about one query id follow each other: the later one draws the higher gen and commits later.
create or replace function _tidewire.next_gen(query_id text) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('_tidewire.registration ' || query_id, 0));
    return nextval('_tidewire.registration_gen');
end $$;

create or replace function _tidewire.register(
    query_id text, query text, mode text, audience jsonb, search_path text[], settings jsonb) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    -- Facts of the session: nobody passes them.
    acting text := case current_setting('role') when 'none' then session_user::text else current_setting('role') end;
    drawn  bigint;
    known  boolean;
begin
    if query_id is null or query_id !~ '^[A-Za-z0-9_.:-]{1,128}$' then
        raise exception using errcode = '22023',
            message = 'a query_id has 1 to 128 letters, digits and the characters _ . : -';
    end if;
    if mode is null or mode not in ('delta', 'notify') then
        raise exception using errcode = '22023', message = format('mode is ''delta'' or ''notify'', not %L', mode);
    end if;
    if octet_length(query) > 100000 or octet_length(audience::text) > 8000 then
        raise exception using errcode = '54000', message = 'the query or its audience is too long to be registered';
    end if;
    if audience is not null and jsonb_typeof(audience) <> 'object' then
        raise exception using errcode = '22023', message = 'an audience is a JSON object of claims';
    end if;
    drawn := _tidewire.next_gen(query_id);
    known := exists (select from _tidewire.registrations r where r.query_id = register.query_id);
    if not known and (select count(*) from _tidewire.registrations)
                     >= _tidewire.reactive_setting('max_subscriptions', '1024')::int then
        raise exception using errcode = '53400',
            message = 'pg_reactive.max_subscriptions is reached: unsubscribe others, or raise it by ALTER DATABASE';
    end if;
    insert into _tidewire.registrations as r
        (query_id, query, mode, audience, gen, role, login, search_path, settings, registered_at)
    values (register.query_id, register.query, register.mode, register.audience, drawn, acting, session_user,
            register.search_path, register.settings, clock_timestamp())
    on conflict on constraint registrations_pkey do update set
        query = excluded.query, mode = excluded.mode, audience = excluded.audience, gen = excluded.gen,
        role = excluded.role, login = excluded.login, search_path = excluded.search_path,
        settings = excluded.settings, registered_at = excluded.registered_at;
    perform _tidewire.write_mark('registration', (select to_jsonb(r)::text from _tidewire.registrations r
                                                  where r.query_id = register.query_id));
    return drawn;
end $$;

-- A registration ends, and its gen with it; where a gen is given, only if it still has that one.
create or replace function _tidewire.unregister(query_id text, gen bigint default null) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    drawn bigint := _tidewire.next_gen(query_id);
    acted text;
begin
    delete from _tidewire.registrations r
    where r.query_id = unregister.query_id and (unregister.gen is null or r.gen = unregister.gen)
    returning r.role into acted;
    if not found then
        return false;
    end if;
    perform _tidewire.write_mark('registration', jsonb_build_object(
        'query_id', query_id, 'gen', drawn, 'role', acted)::text);
    return true;
end $$;

-- For the services.
create or replace function _tidewire.registered(id text default null) returns setof _tidewire.registrations
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    select r.* from _tidewire.registrations r where id is null or r.query_id = id;
end;
