-- Marks in the WAL: they arrive at the commit of the transaction that wrote them, in their place among its rows.

create or replace function _tidewire.write_mark(kind text, content text) returns void
language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
    place tid;
begin
    insert into _tidewire.marks (kind, content) values (write_mark.kind, write_mark.content) returning ctid into place;
    -- By its place: under SERIALIZABLE a look into the index, or at the whole table, would count as a read of what others
    -- write there.
    delete from _tidewire.marks where ctid = place;
end $$;

create or replace function _tidewire.mark(tag text, objects jsonb) returns void
language sql set search_path = pg_catalog, pg_temp
begin atomic
    select _tidewire.write_mark('ddl', jsonb_build_object('tag', tag, 'objects', objects)::text);
end;

create or replace function _tidewire.barrier(id text) returns pg_lsn
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
    select _tidewire.write_mark('barrier', id);
    select pg_current_wal_insert_lsn();
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
