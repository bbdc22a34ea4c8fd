-- Event triggers. Whatever goes wrong in them is theirs: the user's statement never fails for it, and the sweep tries again.
-- They change a table only under a lock that the user's own statement took: so they neither wait nor make others wait.

-- Of an earlier version.
drop function if exists _tidewire.look_away(boolean), _tidewire.make_way(text);

-- Fires before each of the others and says whose command it is, which they cannot see, as they run with the installer's
-- rights. A login may set the setting too, but not between this trigger and the next.
create or replace function _tidewire.note_caller() returns event_trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform set_config('tidewire.caller', current_user, true);
end $$;

-- Our own commands fire our event triggers too, which then look away: they are the installer's, out of these functions. A
-- login can write the same words into the text of a command, but cannot be the installer.
create or replace function _tidewire.is_our_own(context text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select current_setting('tidewire.caller', true) = current_user
        and context ~ '\n[^\n"]* _tidewire\.(settle|identify|leave)\(oid';
end;

-- The login on which subscribers' queries run (entrance.sql) makes its entrance in transactions that are always rolled back.
create or replace function _tidewire.is_runner() returns boolean
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select session_user = (select 'tidewire_runner_' || d.oid from pg_database d where d.datname = current_database());
end;

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

-- Of GRANT and REVOKE PostgreSQL tells the kind of the objects alone, and whoever may grant anything could put every query in
-- doubt by that. What they changed are the rows of the catalog that were written since the transaction began, as far as it
-- sees them; that some may be others' does no harm. Where that would take long the mark names nothing, which means everything.
create or replace function _tidewire.granted() returns jsonb
language sql set search_path = pg_catalog, pg_temp as $$
    with of_kind as materialized (
        select array_agg(d.object_type) as kinds from pg_event_trigger_ddl_commands() d
        where (select c.reltuples from pg_class c where c.oid = 'pg_attribute'::regclass) < 30000
    ), since as materialized (
        select age(pg_current_xact_id()::xid) as age
    ), changed(type, schema, name, oid) as (
        select 'table', n.nspname, c.relname, c.oid
        from of_kind k cross join since s
        join pg_class c on age(c.xmin) <= s.age
             or c.oid in (select a.attrelid from pg_attribute a where age(a.xmin) <= s.age)
        join pg_namespace n on n.oid = c.relnamespace
        where k.kinds && '{TABLE,SEQUENCE}' and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
        union all
        select 'schema', n.nspname, n.nspname, n.oid
        from of_kind k cross join since s join pg_namespace n on age(n.xmin) <= s.age
        where k.kinds && '{SCHEMA}'
        union all
        select 'function', n.nspname, p.proname, p.oid
        from of_kind k cross join since s join pg_proc p on age(p.xmin) <= s.age join pg_namespace n on n.oid = p.pronamespace
        where k.kinds && '{FUNCTION,PROCEDURE,ROUTINE}'
        union all
        select 'type', n.nspname, t.typname, t.oid
        from of_kind k cross join since s join pg_type t on age(t.xmin) <= s.age join pg_namespace n on n.oid = t.typnamespace
        where k.kinds && '{TYPE,DOMAIN}' and t.typtype in ('e', 'd', 'c', 'r', 'm', 'b')
    ), named as (
        select jsonb_agg(jsonb_build_object('type', type, 'schema', schema, 'name', name, 'oid', oid::bigint)) as objects
        from changed where not starts_with(schema, 'pg_temp') and schema <> '_tidewire'
    )
    -- Of each kind something was found, or nothing is said of what.
    select case when named.objects is not null and not exists (
        select from unnest(k.kinds) kind
        where kind not in ('TABLE', 'SEQUENCE', 'SCHEMA', 'FUNCTION', 'PROCEDURE', 'ROUTINE', 'TYPE', 'DOMAIN'))
    then named.objects else _tidewire.touched() end
    from named cross join of_kind k
$$;

-- A command at the end of a deep recursion leaves too little of the stack to say what it touched, and a login can choose how
-- little. So the limit is raised first, by an expression, which takes less of the stack than note_caller just did. A server
-- that has no more to give leaves it as it is.
create or replace function _tidewire.command_ended() returns event_trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' as $$
declare
    before text := current_setting('max_stack_depth');
    raised text;
begin
    begin
        raised := set_config('max_stack_depth', (pg_size_bytes(before) / 1024 + 1024)::text, true);
    exception when others then
        raise log 'tidewire: max_stack_depth cannot be raised over %: %', before, sqlerrm;
    end;
    perform _tidewire.after_command(tg_tag);
    if raised is not null then
        raised := set_config('max_stack_depth', before, true);
    end if;
end $$;

create or replace function _tidewire.objects_dropped() returns event_trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' as $$
declare
    before text := current_setting('max_stack_depth');
    raised text;
begin
    begin
        raised := set_config('max_stack_depth', (pg_size_bytes(before) / 1024 + 1024)::text, true);
    exception when others then
        raise log 'tidewire: max_stack_depth cannot be raised over %: %', before, sqlerrm;
    end;
    perform _tidewire.after_drop(tg_tag);
    if raised is not null then
        raised := set_config('max_stack_depth', before, true);
    end if;
end $$;

create or replace function _tidewire.after_command(tag text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    context text;
    named oid[];
    created oid[];
    aside oid[];
    affected oid[];
    objects jsonb;
begin
    get diagnostics context = pg_context;
    if _tidewire.is_our_own(context) or _tidewire.is_runner() then
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
        if current_setting('tidewire.aside', true) <> '' then
            aside := _tidewire.come_back();
        end if;
        if named is not null or aside is not null then
            affected := array(select _tidewire.descendants(named) union select unnest(aside));
            perform _tidewire.settle_here(affected, coalesce(created, '{}') || coalesce(aside, '{}'));
        end if;
    exception when others then
        raise log 'tidewire: % is left to the sweep: %', tag, sqlerrm;
    end;
    begin
        objects := case when tag in ('GRANT', 'REVOKE') then _tidewire.granted() else _tidewire.touched() end;
        if objects is not null then
            affected := array(
                select d from _tidewire.descendants(named) d join pg_class c on c.oid = d
                where c.relkind = 'r' and c.relpersistence <> 't');
            -- What a table becomes a part of means something else too.
            objects := objects || coalesce((
                select jsonb_agg(jsonb_build_object('type', 'parent', 'schema', n.nspname, 'name', c.relname,
                                                    'identity', format('%I.%I', n.nspname, c.relname), 'oid', c.oid::bigint))
                from _tidewire.ancestors(named) a join pg_class c on c.oid = a join pg_namespace n on n.oid = c.relnamespace
                where c.relkind in ('r', 'p') and c.relpersistence <> 't'), '[]');
            perform _tidewire.mark(tag, _tidewire.merged(objects, _tidewire.tables_of(affected)));
        end if;
    exception when others then
        raise log 'tidewire: % is marked without its objects: %', tag, sqlerrm;
        perform _tidewire.mark_blank(tag);
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

create or replace function _tidewire.after_drop(tag text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    context text;
    bereft oid[];
    objects jsonb;
begin
    get diagnostics context = pg_context;
    if _tidewire.is_our_own(context) then
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
        raise log 'tidewire: % is left to the sweep: %', tag, sqlerrm;
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
            perform _tidewire.mark(tag, objects);
        end if;
    exception when others then
        raise log 'tidewire: % is marked without its objects: %', tag, sqlerrm;
        perform _tidewire.mark_blank(tag);
    end;
end $$;

-- PostgreSQL refuses SET UNLOGGED, and SET EXPRESSION of a virtual column, on a table that a publication lists, and DROP NOT
-- NULL on a column of an identity index. Nothing but the text says that this is coming: members whose names stand in it, and
-- that the caller owns, step aside, and come back when the command has ended.
create or replace function _tidewire.command_starts() returns event_trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' as $$
declare
    caller name := current_setting('tidewire.caller', true);
    context text;
begin
    get diagnostics context = pg_context;
    if _tidewire.is_our_own(context) then
        return;
    end if;
    context := lower(concat_ws(E'\n', current_query(), context, _tidewire.called_in(context)));
    -- Cheaper than the pattern by far, and a script of a thousand commands is read a thousand times.
    if strpos(context, 'unlogged') > 0 or strpos(context, 'expression') > 0 or strpos(context, 'null') > 0 then
        perform _tidewire.make_way(context, caller);
    end if;
exception when others then
    raise log 'tidewire: no way made for %: %', tg_tag, sqlerrm;
end $$;

create or replace function _tidewire.make_way(command text, caller name) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    rel oid;
    place tid;
    places tid[] := '{}';
begin
    if command !~ '\m(unlogged|expression)\M' then
        return;
    end if;
    if length(command) > 20000 then
        -- A script of many commands is read again at each of them, so only those that matter are looked into for names.
        select string_agg(part, ';') into command from string_to_table(command, ';') part
        where part ~ '\m(unlogged|expression)\M';
    end if;
    for rel in
        select d from _tidewire.descendants(_tidewire.named_in(command)) d
        join _tidewire.coverage v on v.relid = d and v.pools <> '{}'
        join pg_class c on c.oid = d and pg_has_role(caller, c.relowner, 'usage')
    loop
        begin
            perform _tidewire.leave(rel);
            insert into _tidewire.aside values (pg_current_xact_id(), rel) returning ctid into place;
            places := places || place;
        exception when others then
            raise log 'tidewire: table % does not step aside: %', rel, sqlerrm;
        end;
    end loop;
    if places <> '{}' then
        perform set_config('tidewire.aside', places::text, true);
    end if;
end $$;

-- The tables that stepped aside for this command. The setting only says where their rows are: a login may change it, and
-- then its own tables wait for the sweep. It is not looked for by key, since under SERIALIZABLE that would count as a read
-- of what others write beside it.
create or replace function _tidewire.come_back() returns oid[]
language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_indexscan = off
set enable_bitmapscan = off as $$
declare
    places text := current_setting('tidewire.aside', true);
    aside oid[];
begin
    perform set_config('tidewire.aside', '', true);
    with back as (delete from _tidewire.aside a where a.ctid = any (places::tid[]) and a.xid = pg_current_xact_id() returning a.relid)
    select array_agg(back.relid) into aside from back;
    return aside;
exception when others then
    raise log 'tidewire: what stepped aside is left to the sweep: %', sqlerrm;
    return null;
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
