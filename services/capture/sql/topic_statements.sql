-- Topic SQL: the gateway turns a client's statement into a call of one procedure here, on the client's own connection and in
-- its own transaction. An error names, as its "column", the place in the client's text; a notice carries the command tag;
-- the gateway makes of both what PostgreSQL would say of statements of its own.

create or replace function _tidewire.topic_error(code text, words text, place text, hint text default null) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception '%', words using errcode = code, schema = '_tidewire_topics', column = coalesce(place, ''),
        hint = coalesce(hint, '');
end $$;

-- Whose statement it is. Inside SECURITY DEFINER current_user is the installer, but the session's role is still told.
create or replace function _tidewire.topic_caller() returns name
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case current_setting('role') when 'none' then session_user else current_setting('role')::name end
$$;

create or replace function _tidewire.topic_service_role(who name) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case when (select r.rolsuper from pg_roles r where r.rolname = who) then 'system'
                else coalesce((select g.service_role from _tidewire.topic_groups g join pg_roles r on r.rolname = g.role
                               where pg_has_role(who, r.oid, 'usage')
                               order by array_position(array['system', 'dba', 'service'], g.service_role) limit 1), 'user')
           end
$$;

-- The topic of this name, alias or id, locked.
create or replace function _tidewire.topic_named(asked text, place text) returns _tidewire.topics
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    found_topic _tidewire.topics;
begin
    select * into found_topic from _tidewire.topics t where asked in (t.name, t.alias, t.topic_id)
    order by t.name = asked desc, t.alias = asked desc nulls last limit 1 for update;
    if not found then
        perform _tidewire.topic_error('42704', format('Topic ''%s'' does not exist', asked), place);
    end if;
    return found_topic;
end $$;

create or replace function _tidewire.topic_create(asked jsonb, who name) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    topic text := asked ->> 'topic';
    place text := asked -> 'at' ->> 'topic';
    id text := topic;
    base text;
    suffix int := 1;
begin
    if not exists (select from pg_namespace n where n.nspname = asked ->> 'schema') then
        perform _tidewire.topic_error('3F000', format('Namespace ''%s'' does not exist', asked ->> 'schema'), place);
    end if;
    if exists (select from _tidewire.topics t where topic in (t.name, t.alias)) then
        if (asked -> 'if_not_exists')::boolean then
            return null;
        end if;
        perform _tidewire.topic_error('42710', format('Topic ''%s'' already exists', topic), place);
    end if;
    -- What Kafka takes as a name, with room for a prefix.
    if topic !~ '^[A-Za-z0-9._-]{1,180}$' then
        id := 't-' || substr(encode(sha256(convert_to(topic, 'UTF8')), 'hex'), 1, 24);
    end if;
    base := id;
    while exists (select from _tidewire.topic_ids i where i.topic_id = id)
       or exists (select from _tidewire.topics t where id in (t.topic_id, t.name, t.alias) and t.name <> topic) loop
        suffix := suffix + 1;
        id := base || '-' || suffix;
    end loop;
    insert into _tidewire.topic_ids (topic_id) values (id);
    insert into _tidewire.topics (topic_id, name, partitions, retention_seconds, retention_max_bytes, owner)
    values (id, topic, (asked ->> 'partitions')::int,
            (asked ->> 'retention_seconds')::bigint, (asked ->> 'retention_max_bytes')::bigint, who);
    return id;
exception when unique_violation then
    -- Another transaction made it at the same time.
    perform _tidewire.topic_error('42710', format('Topic ''%s'' already exists', topic), place);
end $$;

-- The table that a route names, if the caller may have its raw rows (decision 19).
create or replace function _tidewire.topic_source(asked jsonb, who name) returns oid
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    shown text := format('%s.%s', asked ->> 'source_schema', asked ->> 'source_table');
    place text := asked -> 'at' ->> 'source';
    source record;
begin
    select c.oid, c.relkind, c.relpersistence, n.nspname,
           has_schema_privilege(who, n.oid, 'usage') and has_table_privilege(who, c.oid, 'select')
           and (not c.relrowsecurity or r.rolsuper or r.rolbypassrls
                or (not c.relforcerowsecurity and pg_has_role(who, c.relowner, 'usage'))) as readable
    into source
    from pg_class c join pg_namespace n on n.oid = c.relnamespace, pg_roles r
    where n.nspname = asked ->> 'source_schema' and c.relname = asked ->> 'source_table' and r.rolname = who;
    if not found then
        perform _tidewire.topic_error('42P01', format('Table ''%s'' does not exist', shown), place);
    elsif source.relkind not in ('r', 'p') or source.relpersistence <> 'p'
          or source.nspname in ('_tidewire', 'pg_catalog', 'information_schema') then
        perform _tidewire.topic_error('42809', format('''%s'' is not an ordinary table, whose changes are in the log', shown), place);
    elsif not source.readable then
        perform _tidewire.topic_error('42501', format('permission denied for table %s', shown), place,
            'A route carries raw rows: its maker must be able to read the whole table, bound by no policy.');
    end if;
    return source.oid;
end $$;

create or replace function _tidewire.topic_add_source(topic _tidewire.topics, asked jsonb, who name) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    source oid := _tidewire.topic_source(asked, who);
    held _tidewire.topic_routes;
begin
    if asked ->> 'partition_key' is not null and not exists (
        select from pg_attribute a where a.attrelid = source and a.attname = asked ->> 'partition_key'
                                     and a.attnum > 0 and not a.attisdropped) then
        perform _tidewire.topic_error('42703', format('column "%s" does not exist', asked ->> 'partition_key'),
                                      asked -> 'at' ->> 'partition_key');
    end if;
    if asked ->> 'payload_mode' = 'Key' and not exists (select from pg_index i where i.indrelid = source and i.indisprimary) then
        perform _tidewire.topic_error('42P16', format('table %s.%s has no primary key', asked ->> 'source_schema', asked ->> 'source_table'),
            asked -> 'at' ->> 'source', 'The payload ''key'' is the primary key: add one, or say WITH (payload = ''full'').');
    end if;
    select * into held from _tidewire.topic_routes r
    where r.topic_id = topic.topic_id and r.table_oid = source and r.op = asked ->> 'op';
    if found then
        if held.payload_mode = asked ->> 'payload_mode' and held.filter_expr is not distinct from asked ->> 'filter_expr'
           and held.partition_key is not distinct from asked ->> 'partition_key' then
            return false;
        end if;
        perform _tidewire.topic_error('42710', format('Route for %s.%s ON %s already exists in topic ''%s''',
            asked ->> 'source_schema', asked ->> 'source_table', upper(asked ->> 'op'), topic.name), asked -> 'at' ->> 'source');
    end if;
    insert into _tidewire.topic_routes
    select topic.topic_id, coalesce(max(r.route) + 1, 0), source, asked ->> 'source_schema', asked ->> 'source_table',
           asked ->> 'op', asked ->> 'payload_mode', asked ->> 'filter_expr', asked ->> 'partition_key', who
    from _tidewire.topic_routes r where r.topic_id = topic.topic_id;
    return true;
end $$;

create or replace function _tidewire.topic_alter(topic _tidewire.topics, asked jsonb, who name) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    case asked ->> 'action'
        when 'add source' then
            return _tidewire.topic_add_source(topic, asked, who);
        when 'drop source' then
            delete from _tidewire.topic_routes r
            where r.topic_id = topic.topic_id and r.source_schema = asked ->> 'source_schema'
              and r.source_table = asked ->> 'source_table' and r.op = coalesce(asked ->> 'op', r.op);
            if not found then
                perform _tidewire.topic_error('42704', format('Topic ''%s'' has no source %s.%s%s', topic.name,
                    asked ->> 'source_schema', asked ->> 'source_table', coalesce(' ON ' || upper(asked ->> 'op'), '')),
                    asked -> 'at' ->> 'source');
            end if;
        when 'set alias' then
            if exists (select from _tidewire.topics t where asked ->> 'alias' in (t.name, t.alias, t.topic_id)
                                                        and t.topic_id <> topic.topic_id) then
                perform _tidewire.topic_error('42710', format('Topic ''%s'' already exists', asked ->> 'alias'), asked -> 'at' ->> 'alias');
            end if;
            update _tidewire.topics t set alias = asked ->> 'alias' where t.topic_id = topic.topic_id;
        when 'set retention' then
            update _tidewire.topics t
            set retention_seconds = case when asked ? 'retention_seconds' then (asked ->> 'retention_seconds')::bigint else t.retention_seconds end,
                retention_max_bytes = case when asked ? 'retention_max_bytes' then (asked ->> 'retention_max_bytes')::bigint else t.retention_max_bytes end
            where t.topic_id = topic.topic_id;
        when 'clear retention' then
            update _tidewire.topics t set retention_seconds = null, retention_max_bytes = null where t.topic_id = topic.topic_id;
    end case;
    return true;
exception when unique_violation then
    perform _tidewire.topic_error('40001', format('Topic ''%s'' was changed by another transaction: try again', topic.name), null);
end $$;

-- Everything that changes definitions. Callable by everybody; what it allows depends on the session's role alone.
create or replace function _tidewire_topics.define(statement text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    asked jsonb := statement::jsonb;
    who name := _tidewire.topic_caller();
    what text := asked ->> 'do';
    topic _tidewire.topics;
    id text;
    words text;
begin
    if _tidewire.topic_service_role(who) not in ('dba', 'system') then
        perform _tidewire.topic_error('42501', format('%s requires DBA or System role', what), asked -> 'at' ->> 'topic');
    end if;
    if what = 'CREATE TOPIC' then
        id := _tidewire.topic_create(asked, who);
        words := format('Created topic ''%s'' with %s partition(s)', asked ->> 'topic', asked ->> 'partitions');
    elsif what = 'DROP TOPIC' and (asked -> 'if_exists')::boolean
          and not exists (select from _tidewire.topics t where asked ->> 'topic' in (t.name, t.alias, t.topic_id)) then
        return format('Topic ''%s'' does not exist, skipping', asked ->> 'topic');
    else
        topic := _tidewire.topic_named(asked ->> 'topic', asked -> 'at' ->> 'topic');
        id := topic.topic_id;
        if what = 'ALTER TOPIC' then
            if not _tidewire.topic_alter(topic, asked, who) then
                id := null;
            end if;
            words := case asked ->> 'action'
                when 'add source' then format('Added source %s.%s ON %s to topic ''%s''', asked ->> 'source_schema',
                                              asked ->> 'source_table', upper(asked ->> 'op'), topic.name)
                else format('Altered topic ''%s''', topic.name) end;
        elsif what = 'DROP TOPIC' then
            delete from _tidewire.topics t where t.topic_id = id;
            delete from _tidewire.topic_offsets o where o.topic_id = id;
            delete from _tidewire.topic_dead d where d.topic_id = id;
            words := format('Dropped topic ''%s''', topic.name);
        elsif what = 'CLEAR TOPIC' then
            update _tidewire.topics t set cleared_generation = t.cleared_generation + 1 where t.topic_id = id;
            delete from _tidewire.topic_offsets o where o.topic_id = id;
            delete from _tidewire.topic_dead d where d.topic_id = id;
            words := format('Cleared topic ''%s''', topic.name);
        else
            perform _tidewire.topic_error('42601', format('%s is not a statement about topics', what), null);
        end if;
    end if;
    if id is not null then
        -- The definition as it is now, or null; it stands at this commit of the log.
        perform _tidewire.write_mark('topics', jsonb_build_object('topic_id', id, 'do', what, 'definition', (
            select to_jsonb(t) || jsonb_build_object('routes', coalesce((
                       select jsonb_agg(to_jsonb(r) order by r.route) from _tidewire.topic_routes r where r.topic_id = t.topic_id), '[]'))
            from _tidewire.topics t where t.topic_id = id))::text);
    end if;
    return words;
end $$;

-- What `CREATE TOPIC …` becomes. A filter is read by PostgreSQL with the caller's own rights, never with the installer's.
create or replace procedure _tidewire_topics.statement(statement text)
language plpgsql set client_min_messages = notice as $$
declare
    asked pg_catalog.jsonb := statement::pg_catalog.jsonb;
    words text;
begin
    if asked operator(pg_catalog.->>) 'filter_expr' is not null then
        begin
            execute pg_catalog.format('select from %I.%I where %s limit 0', asked operator(pg_catalog.->>) 'source_schema',
                                      asked operator(pg_catalog.->>) 'source_table', asked operator(pg_catalog.->>) 'filter_expr');
        exception
            when undefined_table or invalid_schema_name or insufficient_privilege then null;  -- told below, with its place
            when others then
                raise exception '%', sqlerrm using errcode = sqlstate, schema = '_tidewire_topics',
                    column = asked operator(pg_catalog.->) 'at' operator(pg_catalog.->>) 'filter';
        end;
    end if;
    words := _tidewire_topics.define(statement);
    raise notice '%', words using errcode = 'TW001', schema = '_tidewire_topics',
        column = asked operator(pg_catalog.->>) 'do';
end $$;

-- A statement that is refused: in the client's transaction, so that it fails as by any other error.
create or replace procedure _tidewire_topics.refuse(code text, words text, place text, hint text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception '%', words using errcode = code, schema = '_tidewire_topics', column = place, hint = coalesce(hint, '');
end $$;

-- What the gateway answers to CONSUME and the like: the rows that it has read. It sends them instead of the statement, so a
-- statement that is executed again without being sent again would show them again, and nothing would be carried out.
do $$
begin
    if to_regtype('_tidewire_topics.answer') is null then
        create domain _tidewire_topics.answer as text;
    end if;
end $$;

create or replace function _tidewire_topics.told(answer _tidewire_topics.answer) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    said jsonb := answer::text::jsonb;
begin
    if said ->> 'once' = current_setting('tidewire.topic_answer', true) then
        raise exception 'a topic statement is carried out when it is sent, not when it is executed again' using
            errcode = '0A000', schema = '_tidewire_topics', column = '', hint = 'Send it again.';
    end if;
    perform set_config('tidewire.topic_answer', said ->> 'once', false);
    return said -> 'rows';
end $$;

create or replace function _tidewire_topics.consumed(answer _tidewire_topics.answer) returns table (
    topic_id text, partition_id int, "offset" bigint, key text, payload bytea, timestamp_ms bigint, user_id text, op text)
language sql set search_path = pg_catalog, pg_temp as $$
    select r ->> 0, (r ->> 1)::int, (r ->> 2)::bigint, r ->> 3, decode(r ->> 4, 'base64'), (r ->> 5)::bigint, r ->> 6, r ->> 7
    from jsonb_array_elements(_tidewire_topics.told(answer)) r
$$;

create or replace function _tidewire_topics.acked(answer _tidewire_topics.answer) returns table (
    topic text, group_id text, partition int, committed_offset bigint)
language sql set search_path = pg_catalog, pg_temp as $$
    select r ->> 0, r ->> 1, (r ->> 2)::int, (r ->> 3)::bigint from jsonb_array_elements(_tidewire_topics.told(answer)) r
$$;

create or replace function _tidewire_topics.reset(answer _tidewire_topics.answer) returns table (
    topic text, group_id text, partition int, next_offset bigint)
language sql set search_path = pg_catalog, pg_temp as $$
    select r ->> 0, r ->> 1, (r ->> 2)::int, (r ->> 3)::bigint from jsonb_array_elements(_tidewire_topics.told(answer)) r
$$;

-- Mirror what groups have acked. What a newer write has said before stays.
create or replace function _tidewire.topic_mirror(changes jsonb) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
    insert into _tidewire.topic_offsets as held (topic_id, group_id, partition_id, last_acked_offset, generation, version, updated_at)
    select c ->> 0, c ->> 1, (c ->> 2)::int, (c ->> 3)::bigint, (c ->> 4)::bigint, (c ->> 5)::bigint, now()
    from jsonb_array_elements(changes) c
    where exists (select from _tidewire.topics t where t.topic_id = c ->> 0 for key share)
    order by 1, 2, 3
    on conflict (topic_id, group_id, partition_id) do update
    set last_acked_offset = excluded.last_acked_offset, generation = excluded.generation, version = excluded.version,
        updated_at = excluded.updated_at
    where (excluded.generation, excluded.version) > (held.generation, held.version)
$$;

grant execute on all functions in schema _tidewire_topics to public;
grant execute on all procedures in schema _tidewire_topics to public;
