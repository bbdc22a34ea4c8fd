-- Event triggers. Whatever goes wrong in them is theirs: the user's statement never fails for it, and the sweep tries again.
-- They change a table only under a lock that the user's own statement took: so they neither wait nor make others wait.

create or replace function _tidewire.commands_lock(rel oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select exists (
        select from pg_locks l
        where l.pid = pg_backend_pid() and l.locktype = 'relation' and l.relation = rel and l.granted
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
          and l.mode = 'AccessExclusiveLock');
end;

create or replace function _tidewire.settle_here(rels oid[], unlocked oid[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' as $$
declare
    rel oid;
begin
    perform _tidewire.look_away(true);
    for rel in
        select c.relid from _tidewire.coverage c where c.relid = any (rels) and c.owned and not c.settled
    loop
        begin
            if rel = any (unlocked) or _tidewire.commands_lock(rel) then
                perform _tidewire.settle(rel, _tidewire.nursery());
            end if;
        exception when others then
            raise log 'tidewire: table % is left to the sweep: %', rel, sqlerrm;
        end;
    end loop;
    perform _tidewire.look_away(false);
end $$;

create or replace function _tidewire.touched() returns jsonb
language sql set search_path = pg_catalog, pg_temp as $$
    select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
               'type', d.object_type,
               'schema', coalesce(n.nspname, d.schema_name),
               'name', coalesce(c.relname, y.typname, case when d.objid <> 0 then address.object_names[cardinality(address.object_names)] end),
               'column', a.attname,
               'identity', d.object_identity,
               'oid', nullif(d.objid, 0)::bigint)))
    from pg_event_trigger_ddl_commands() d
    left join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
    left join pg_namespace n on n.oid = c.relnamespace
    left join pg_attribute a on a.attrelid = c.oid and a.attnum = d.objsubid and d.objsubid > 0
    left join pg_type y on d.classid = 'pg_type'::regclass and y.oid = d.objid
    left join lateral pg_identify_object_as_address(d.classid, d.objid, 0) address on d.objid <> 0 and c.oid is null and y.oid is null
    where not starts_with(coalesce(d.schema_name, ''), 'pg_temp') and coalesce(d.schema_name, '') <> '_tidewire'
$$;

create or replace function _tidewire.command_ended() returns event_trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' as $$
declare
    named oid[];
    created oid[];
    aside oid[];
    affected oid[];
    objects jsonb;
begin
    if current_setting('tidewire.inside', true) = 'on' then
        return;
    end if;
    begin
        select array_agg(d.objid), array_agg(d.objid) filter (where d.command_tag in ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO'))
        into named, created
        from pg_event_trigger_ddl_commands() d
        where d.classid = 'pg_class'::regclass and not starts_with(coalesce(d.schema_name, ''), 'pg_temp');
        if exists (select from pg_class c where c.oid = any (named) and c.relkind = 'c') then
            named := named || array(select t.oid from pg_class t join pg_class c on c.reltype = t.reloftype where c.oid = any (named));
        end if;
        aside := nullif(current_setting('tidewire.aside', true), '')::oid[];
        if aside is not null then
            perform set_config('tidewire.aside', '', true);
        end if;
        if named is not null or aside is not null then
            affected := array(select _tidewire.descendants(named) union select unnest(aside));
            perform _tidewire.settle_here(affected, coalesce(created, '{}') || coalesce(aside, '{}'));
        end if;
    exception when others then
        raise log 'tidewire: % is left to the sweep: %', tg_tag, sqlerrm;
    end;
    begin
        objects := _tidewire.touched();
        if objects is not null then
            affected := array(
                select d from _tidewire.descendants(named) d join pg_class c on c.oid = d
                where c.relkind = 'r' and c.relpersistence <> 't');
            perform _tidewire.mark(tg_tag, _tidewire.merged(objects, _tidewire.tables_of(affected)));
        end if;
    exception when others then
        raise log 'tidewire: % is marked without its objects: %', tg_tag, sqlerrm;
        perform _tidewire.mark_blank(tg_tag);
    end;
end $$;

-- Each object once; the description of a table that says whether it is covered wins.
create or replace function _tidewire.merged(objects jsonb, tables jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp
begin atomic
    select coalesce(jsonb_agg(o.object), '[]') from (
        select o as object from jsonb_array_elements(tables) o
        union all
        select o from jsonb_array_elements(objects) o
        where o ->> 'type' <> 'table' or not exists (select from jsonb_array_elements(tables) t where t -> 'oid' = o -> 'oid')
    ) o;
end;

-- A mark that names nothing stands for everything.
create or replace function _tidewire.mark_blank(tag text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform _tidewire.mark(tag, '[]');
exception when others then
    raise log 'tidewire: % is not marked: %', tag, sqlerrm;
end $$;

create or replace function _tidewire.objects_dropped() returns event_trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' as $$
declare
    bereft oid[];
    objects jsonb;
begin
    if current_setting('tidewire.inside', true) = 'on' then
        return;
    end if;
    begin
        select array_agg(distinct c.oid) into bereft
        from pg_event_trigger_dropped_objects() d
        join pg_namespace n on n.nspname = coalesce(d.schema_name, d.address_names[1])
        join pg_class c on c.relnamespace = n.oid and c.relkind = 'r' and (
            (d.object_type in ('table column', 'table constraint') and c.relname = d.address_names[2])
            or (d.object_type = 'index' and d.original and c.relreplident = 'i'))
        where not d.is_temporary;
        if bereft is not null then
            perform _tidewire.settle_here(bereft, '{}');
        end if;
    exception when others then
        raise log 'tidewire: % is left to the sweep: %', tg_tag, sqlerrm;
    end;
    begin
        select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                   'type', d.object_type,
                   'schema', coalesce(d.schema_name, case when d.classid = 'pg_class'::regclass then d.address_names[1] end),
                   'name', case when d.object_type like '% column' then d.address_names[2]
                                else coalesce(d.object_name, d.address_names[cardinality(d.address_names)]) end,
                   'column', case when d.object_type like '% column' then d.address_names[3] end,
                   'identity', d.object_identity,
                   'oid', d.objid::bigint)))
        into objects
        from pg_event_trigger_dropped_objects() d
        where not d.is_temporary and (d.original or d.classid = 'pg_class'::regclass)
          and coalesce(d.schema_name, '') not in ('pg_toast', '_tidewire');
        if objects is not null then
            perform _tidewire.mark(tg_tag, objects);
        end if;
    exception when others then
        raise log 'tidewire: % is marked without its objects: %', tg_tag, sqlerrm;
        perform _tidewire.mark_blank(tg_tag);
    end;
end $$;

-- PostgreSQL refuses SET UNLOGGED, and SET EXPRESSION of a virtual column, on a table that a publication lists, and DROP NOT
-- NULL on a column of an identity index. Nothing but the text says that this is coming: members whose names stand in it
-- step aside, and come back when the command has ended.
create or replace function _tidewire.command_starts() returns event_trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' as $$
declare
    context text;
begin
    if current_setting('tidewire.inside', true) = 'on' then
        return;
    end if;
    get diagnostics context = pg_context;
    context := lower(concat_ws(E'\n', current_query(), context, _tidewire.called_in(context)));
    -- Cheaper than the pattern by far, and a script of a thousand commands is read a thousand times.
    if strpos(context, 'unlogged') > 0 or strpos(context, 'expression') > 0 or strpos(context, 'null') > 0 then
        perform _tidewire.make_way(context);
    end if;
exception when others then
    raise log 'tidewire: no way made for %: %', tg_tag, sqlerrm;
end $$;

create or replace function _tidewire.make_way(command text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    rel oid;
    aside oid[] := '{}';
begin
    if command !~ '\m(unlogged|expression)\M' then
        return;
    end if;
    if length(command) > 20000 then
        -- A script of many commands is read again at each of them, so only those that matter are looked into for names.
        select string_agg(part, ';') into command from string_to_table(command, ';') part
        where part ~ '\m(unlogged|expression)\M';
    end if;
    perform _tidewire.look_away(true);
    for rel in
        select d from _tidewire.descendants(_tidewire.named_in(command)) d
        join _tidewire.coverage v on v.relid = d and v.pools <> '{}'
    loop
        begin
            perform _tidewire.leave(rel);
            aside := aside || rel;
        exception when others then
            raise log 'tidewire: table % does not step aside: %', rel, sqlerrm;
        end;
    end loop;
    perform _tidewire.look_away(false);
    if aside <> '{}' then
        perform set_config('tidewire.aside', aside::text, true);
    end if;
end $$;

-- The text of SQL functions under way, which the context only names.
create or replace function _tidewire.called_in(context text) returns text
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select string_agg(p.prosrc, E'\n')
    from regexp_matches(context, 'SQL function "([^"]+)"', 'g') called join pg_proc p on p.proname = called[1];
end;

-- Tables whose names are words of the command; all of them if it spells names by their code points.
create or replace function _tidewire.named_in(command text) returns oid[]
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select array(
        select c.oid
        from pg_class c cross join lateral (select lower(replace(c.relname::text, '"', '""')) as name) spelt
        where c.relkind in ('r', 'p') and c.oid >= 16384
          and (command like '%u&"%' or (strpos(command, spelt.name) > 0 and command ~ (
              '(^|[^[:alnum:]_])' || regexp_replace(spelt.name, '([^[:alnum:]_])', '\\\1', 'g') || '($|[^[:alnum:]_])'))));
end;
