-- Transactional messages in the WAL: they arrive at the commit of the transaction that wrote them.

create or replace function _tidewire.mark(tag text, objects jsonb) returns void
language sql set search_path = pg_catalog, pg_temp
begin atomic
    select pg_logical_emit_message(true, 'tidewire.ddl', jsonb_build_object('tag', tag, 'objects', objects)::text);
    -- PostgreSQL orders a message by the end of its record and a row by the beginning of its own: a row of another
    -- subtransaction right behind the message would tie with it, and could come first. This keeps them apart.
    select pg_logical_emit_message(false, 'tidewire.apart', '');
end;

create or replace function _tidewire.barrier(id text) returns pg_lsn
language sql set search_path = pg_catalog, pg_temp
begin atomic
    select pg_logical_emit_message(true, 'tidewire.barrier', id);
end;

create or replace function _tidewire.tables_of(rels oid[]) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(jsonb_agg(jsonb_build_object(
               'type', 'table', 'schema', n.nspname, 'name', c.relname,
               'identity', format('%I.%I', n.nspname, c.relname), 'oid', c.oid::bigint,
               'covered', coalesce((select v.pools <> '{}' from _tidewire.coverage v where v.relid = c.oid), false)
           ) order by n.nspname, c.relname), '[]')
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.oid = any (rels)
$$;
