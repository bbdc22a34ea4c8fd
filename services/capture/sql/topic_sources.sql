-- What a route ON UPDATE or ON DELETE needs of its table: whole old rows in the WAL, and the rows that a TRUNCATE takes away.

-- The rows of the table, as marks before the TRUNCATE, in the text that the log has. A TRUNCATE never fails by it: without
-- the marks its rows are told as unknown.
create or replace function _tidewire.note_truncated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set "DateStyle" = 'ISO, MDY' set "TimeZone" = 'UTC' set "IntervalStyle" = 'postgres'
set bytea_output = 'hex' set extra_float_digits = 1 set row_security = off as $$
declare
    names text;
    printed text;
begin
    select jsonb_agg(a.attname order by a.attnum)::text,
           string_agg(format('case when num_nulls(t.%1$I) = 0 then concat(t.%1$I) end', a.attname), ', ' order by a.attnum)
    into names, printed
    from pg_attribute a where a.attrelid = tg_relid and a.attnum > 0 and not a.attisdropped;
    -- One without rows, so that an empty table is known to be empty.
    perform _tidewire.write_mark('truncated', jsonb_build_object('relid', tg_relid::bigint, 'columns', names::jsonb, 'rows', '[]'::jsonb)::text);
    execute format(
        'select _tidewire.write_mark(''truncated'', jsonb_build_object(''relid'', %s, ''columns'', %L::jsonb, ''rows'', p.part)::text) '
        'from (select jsonb_agg(r.row) as part from (select jsonb_build_array(%s) as row, row_number() over () / 500 as number '
        'from only %I.%I t) r group by r.number order by r.number) p',
        tg_relid, names, printed, tg_table_schema, tg_table_name);
    return null;
exception when others then
    raise log 'tidewire: rows of a TRUNCATE of % are not told: %', tg_relid::regclass, sqlerrm;
    return null;
end $$;

-- In the transaction that makes the route, so that every change after it has its old row.
create or replace function _tidewire.image(source oid) returns void
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
declare
    leaf record;
begin
    for leaf in
        select c.oid, c.relname, n.nspname, c.relreplident,
               exists (select from pg_attribute a where a.attrelid = c.oid and a.attgenerated = 'v' and not a.attisdropped) as virtual
        from _tidewire.partitions(source) f join pg_class c on c.oid = f join pg_namespace n on n.oid = c.relnamespace
        where c.relkind = 'r'
    loop
        insert into _tidewire.imaged values (leaf.oid) on conflict do nothing;
        if leaf.relreplident not in ('f', 'n') and not leaf.virtual then
            perform _tidewire.identify(leaf.oid, 'f');
        end if;
        if not exists (select from pg_trigger t where t.tgrelid = leaf.oid and t.tgname = 'tidewire_truncated') then
            execute format('create trigger tidewire_truncated before truncate on %I.%I execute function _tidewire.note_truncated()',
                           leaf.nspname, leaf.relname);
            execute format('alter table only %I.%I enable always trigger tidewire_truncated', leaf.nspname, leaf.relname);
        end if;
    end loop;
end $$;

-- The sweep gives the table its former identity back.
create or replace function _tidewire.unimage(source oid) returns void
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
declare
    leaf record;
begin
    for leaf in
        select c.oid, c.relname, n.nspname
        from _tidewire.partitions(source) f join pg_class c on c.oid = f join pg_namespace n on n.oid = c.relnamespace
        where c.relkind = 'r'
    loop
        delete from _tidewire.imaged i where i.relid = leaf.oid;
        execute format('drop trigger if exists tidewire_truncated on %I.%I', leaf.nspname, leaf.relname);
    end loop;
end $$;

create or replace function _tidewire.routes_changed() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        if new.op <> 'Insert' then
            perform _tidewire.image(new.table_oid);
        end if;
    elsif not exists (select from _tidewire.topic_routes r where r.table_oid = old.table_oid and r.op <> 'Insert') then
        perform _tidewire.unimage(old.table_oid);
    end if;
    return null;
end $$;
drop trigger if exists routes_changed on _tidewire.topic_routes;
create trigger routes_changed after insert or delete on _tidewire.topic_routes
for each row execute function _tidewire.routes_changed();

-- Keep a change aside on which a route could not be evaluated; told again it changes nothing.
create or replace function _tidewire.bury_change(topic text, route int, seq bigint, reason text, record bytea) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform from _tidewire.topics t where t.topic_id = bury_change.topic for update;
    if not found then
        return;
    end if;
    insert into _tidewire.topic_dead (topic_id, group_id, partition_id, message, refusals, reason, dead_offset, record)
    select bury_change.topic, '', bury_change.route, bury_change.seq, 1, bury_change.reason,
           coalesce(max(d.dead_offset) + 1, 0), bury_change.record
    from _tidewire.topic_dead d where d.topic_id = bury_change.topic
    on conflict (topic_id, group_id, partition_id, message) do nothing;
end $$;
revoke all on function _tidewire.bury_change(text, int, bigint, text, bytea) from public;
