-- Makes one table right: its replica identity first, then its place in the publications.

create or replace function _tidewire.remember(rel oid, given "char", given_index oid) returns void
language sql set search_path = pg_catalog, pg_temp
begin atomic
    insert into _tidewire.identities as i (relid, former, former_index, given, given_index)
    select c.oid, c.relreplident, (select x.indexrelid from pg_index x where x.indrelid = c.oid and x.indisreplident),
           remember.given, remember.given_index
    from pg_class c where c.oid = remember.rel
    on conflict (relid) do update set
        -- Somebody chose another one since: that is the one to give back.
        former = case when excluded.former = i.given then i.former else excluded.former end,
        former_index = case when excluded.former = i.given then i.former_index else excluded.former_index end,
        given = excluded.given, given_index = excluded.given_index;
end;

create or replace function _tidewire.identify(rel oid, given "char", given_index oid default null) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    target text;
begin
    select format('%I.%I', n.nspname, c.relname) into strict target
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = rel;
    perform _tidewire.remember(rel, given, given_index);
    execute format('alter table only %s replica identity %s', target, case given
        when 'd' then 'default' when 'f' then 'full' when 'n' then 'nothing'
        else format('using index %I', (select relname from pg_class where oid = given_index)) end);
end $$;

-- Whether the transaction that wrote a row, of which its xmin tells, is still under way: a row that is seen is then our own.
create or replace function _tidewire.under_way(row_xmin xid) returns boolean
language sql set search_path = pg_catalog, pg_temp
begin atomic
    select coalesce(bool_or(pg_xact_status((f.top + f.ahead)::text::xid8) = 'in progress'), false)
    from (
        -- The epoch is that of our own transaction; its subtransactions have somewhat higher numbers.
        select n.top, ((row_xmin::text::bigint - n.top + 2147483648) & 4294967295) - 2147483648 as ahead
        from (select pg_current_xact_id()::text::bigint as top) n
    ) f
    where f.ahead < 10000000 and f.top + f.ahead > 2;
end;

-- ALTER PUBLICATION locks the publication until the transaction ends, and a user's transaction may be long. So triggers
-- add to the nurseries (08 to 31), each taken by one transaction at a time, and the sweep moves tables on to the homes (00
-- to 07). The nursery that this transaction has taken comes first, then an empty one: a table that has to leave a
-- publication must not wait for a stranger.
create or replace function _tidewire.nursery() returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    pool record;
begin
    for pool in
        select p.pubname, right(p.pubname, 2)::int as number
        from pg_publication p
        left join lateral (
            -- The last one tells: whoever adds to a nursery has it for himself.
            select _tidewire.under_way(r.xmin) as ours from pg_publication_rel r
            where r.oid = (select max(m.oid) from pg_publication_rel m where m.prpubid = p.oid)
        ) taken on true
        where p.pubname ~ '^tidewire_[0-9]{2}$' and p.pubname >= 'tidewire_08'
        order by coalesce(taken.ours, false) desc, taken.ours is not null,
                 (pg_backend_pid() + right(p.pubname, 2)::int) % 24
    loop
        perform from _tidewire.pools l where l.number = pool.number for update skip locked;
        if found then
            return pool.pubname;
        end if;
    end loop;
    return null;
end $$;

create or replace function _tidewire.leave(rel oid) returns void
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
    target text;
    place name;
begin
    select format('%I.%I', n.nspname, c.relname) into strict target
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = rel;
    if (select relkind from pg_class where oid = rel) = 'r' then
        -- A sweep may be moving the table: its place is known once the sweep has let go of it.
        execute format('lock table only %s in share update exclusive mode', target);
    end if;
    for place in
        select p.pubname from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
        where r.prrelid = rel and p.pubname ~ '^tidewire(_[0-9]{2})?$'
    loop
        execute format('alter publication %I drop table only %s', place, target);
    end loop;
end $$;

create or replace function _tidewire.settle(rel oid, pool text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    t record;
    stale name;
begin
    select * into t from _tidewire.coverage c where c.relid = rel;
    if not t.coverable and (t.pools <> '{}') then
        perform _tidewire.leave(rel);
    end if;
    if t.identity <> t.desired then
        perform _tidewire.identify(rel, t.desired);
    end if;
    if t.persistence = 'p' and not t.listed then
        execute format('alter publication tidewire add table only %I.%I', t.schema, t.name);
    end if;
    if not t.coverable or pool = any (t.pools) then
        return not t.coverable or cardinality(t.pools) = 1;
    end if;
    if pool is null then
        return false;
    end if;
    execute format('alter publication %I add table only %I.%I', pool, t.schema, t.name);
    foreach stale in array t.pools loop
        execute format('alter publication %I drop table only %I.%I', stale, t.schema, t.name);
    end loop;
    return true;
end $$;

-- Waiting for a lock makes others wait behind us, so there is no waiting for a transaction that is not about to end.
create or replace function _tidewire.hopeless(rel oid, alone boolean) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select exists (
        select from pg_locks l join pg_stat_activity a on a.pid = l.pid
        where l.locktype = 'relation' and l.relation = hopeless.rel and l.granted and l.pid <> pg_backend_pid()
          and (alone or l.mode not in ('AccessShareLock', 'RowShareLock'))
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
          and a.xact_start < clock_timestamp() - interval '1 second');
end;

-- Whether no open transaction has added to these nurseries.
create or replace function _tidewire.free_to_move(pools name[]) returns boolean
language sql set search_path = pg_catalog, pg_temp
begin atomic
    select count(*) = cardinality(pools)
    from (
        select from _tidewire.pools l
        where l.number = any (array(select right(p, 2)::int from unnest(pools) p)) for update skip locked
    ) held;
end;

-- What a sweep has to look at. A role that may only run capture asks through this, with the installer's eyes.
create or replace function _tidewire.waiting(out relid oid, out uncovered boolean) returns setof record
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    delete from _tidewire.identities i where not exists (select from pg_class c where c.oid = i.relid);
    return query select p.relid, not p.settled from _tidewire.pending p order by p.settled, p.relid;
end $$;

-- Called for one table and one transaction at a time. Writers are shut out for a moment: a transaction that updated the
-- table before it was published and commits after the mark would otherwise go missing.
create or replace function _tidewire.adopt(rel oid) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' as $$
declare
    t record;
    alone boolean;
begin
    select * into t from _tidewire.pending p where p.relid = rel;
    if not found then
        return true;
    end if;
    if t.settled and not t.relieved and not _tidewire.free_to_move(t.pools) then
        return true;
    end if;
    if not t.settled or t.relieved then
        alone := t.identity <> t.desired or t.relieved;
        if _tidewire.hopeless(rel, alone) then
            return false;
        end if;
        execute format('lock table only %I.%I in %s mode', t.schema, t.name,
            case when alone then 'access exclusive' else 'share row exclusive' end);
        select * into t from _tidewire.pending p where p.relid = rel;
        if not found then
            return true;
        end if;
    end if;
    if t.relieved then
        perform _tidewire.identify(rel, 'd');
    end if;
    perform _tidewire.settle(rel, t.home);
    if not t.settled or t.relieved then
        perform _tidewire.mark('TIDEWIRE ADOPT', _tidewire.tables_of(array[rel]));
    end if;
    return true;
exception when others then
    raise log 'tidewire: table % is left to the next sweep: %', rel, sqlerrm;
    return false;
end $$;

create or replace function _tidewire.descendants(rels oid[]) returns setof oid
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    with recursive family(relid) as (
        select unnest(rels)
        union
        select i.inhrelid from family f join pg_inherits i on i.inhparent = f.relid
    )
    select f.relid from family f;
end;

-- What they are partitions or children of, themselves left out.
create or replace function _tidewire.ancestors(rels oid[]) returns setof oid
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    with recursive family(relid) as (
        select i.inhparent from pg_inherits i where i.inhrelid = any (rels)
        union
        select i.inhparent from family f join pg_inherits i on i.inhrelid = f.relid
    )
    select f.relid from family f;
end;

create or replace function _tidewire.partitions(root oid) returns setof oid
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select d from _tidewire.descendants(array[root]) d join pg_class c on c.oid = d where d = root or c.relispartition;
end;

create or replace function _tidewire.untrack(tracked regclass) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
    rel oid;
begin
    for rel in select f from _tidewire.partitions(tracked) f loop
        perform _tidewire.leave(rel);
        perform _tidewire.identify(rel, 'n');
    end loop;
    perform _tidewire.mark('TIDEWIRE UNTRACK', _tidewire.tables_of(array(select f from _tidewire.partitions(tracked) f)));
end $$;

create or replace function _tidewire.track(untracked regclass) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
    rel oid;
    was record;
begin
    for rel in select f from _tidewire.partitions(untracked) f loop
        select * into was from _tidewire.identities i where i.relid = rel and i.given = 'n';
        if found and was.former <> 'n' and not (was.former = 'i' and not exists (select from pg_class where oid = was.former_index)) then
            perform _tidewire.identify(rel, was.former, was.former_index);
        else
            perform _tidewire.identify(rel, 'd');
        end if;
    end loop;
    for rel in select f from _tidewire.partitions(untracked) f join _tidewire.coverage c on c.relid = f loop
        perform _tidewire.settle(rel, (select c.home from _tidewire.coverage c where c.relid = rel));
    end loop;
    perform _tidewire.mark('TIDEWIRE TRACK', _tidewire.tables_of(array(select f from _tidewire.partitions(untracked) f)));
end $$;
