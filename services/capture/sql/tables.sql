-- One row for each ordinary table: how PostgreSQL identifies its rows, how it should, and which publications list it.
with facts as (
    select c.oid as relid,
           n.nspname as schema,
           c.relname as name,
           c.relpersistence as persistence,
           c.relreplident as identity,
           pg_has_role(c.relowner, 'usage') as owned,
           keys.primary_key,
           case c.relreplident when 'd' then keys.primary_key when 'i' then keys.chosen else false end as keyed,
           -- Not EXISTS, which PostgreSQL may answer for one table by hashing the columns of all.
           (select count(*) > 0 from (
               select from pg_attribute a
               where a.attrelid = c.oid and a.attgenerated = 'v' and not a.attisdropped limit 1) one) as virtual,
           -- Not pg_partition_ancestors(), which counts as volatile: to ask for one table would then compute all of them.
           c.relispartition and exists (
               with recursive up(relid) as (
                   select c.oid union all select i.inhparent from up join pg_inherits i on i.inhrelid = up.relid)
               select from up join pg_class root on root.oid = up.relid where root.relreplident = 'n') as shunned,
           array(select p.pubname from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
                 where r.prrelid = c.oid and p.pubname ~ '^tidewire_[0-9]{2}$' order by 1) as pools,
           'tidewire_' || lpad((c.oid::bigint % 8)::text, 2, '0') as home,
           exists (select from pg_publication p where p.pubname = 'tidewire'
                   and (p.puballtables or exists (
                       select from pg_publication_rel r where r.prpubid = p.oid and r.prrelid = c.oid))) as listed
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    cross join lateral (
        select coalesce(bool_or(u.usable and u.indisprimary), false) as primary_key,
               coalesce(bool_or(u.usable and u.indisreplident), false) as chosen
        from (
            select i.indisprimary, i.indisreplident,
                   -- Before 18 generated columns are not published, so a key made of them would arrive without its values.
                   i.indislive and i.indisvalid and i.indisunique and i.indimmediate and i.indpred is null
                   and not (current_setting('server_version_num')::int < 180000 and part.generated) as usable
            from pg_index i
            cross join lateral (
                select coalesce(bool_or(a.attgenerated <> ''), false) as generated
                from pg_attribute a
                where a.attrelid = i.indrelid and a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1])
            ) part
            where i.indrelid = c.oid
        ) u
    ) keys
    where c.relkind = 'r' and c.relpersistence <> 't' and c.oid >= 16384
      and n.nspname not in ('_tidewire', 'pg_catalog', 'information_schema', 'pg_toast')
), wishes as (
    select facts.*,
           (case
                when persistence <> 'p' then identity
                when identity = 'n' or shunned then 'n'
                when keyed then identity
                when identity = 'f' and not virtual then 'f'
                when primary_key then 'd'
                when not virtual then 'f'
                else identity
            end)::"char" as desired
    from facts
), verdicts as (
    select wishes.*,
           keyed or (identity = 'f' and not virtual) as safe,
           persistence = 'p' and desired <> 'n' and (
               (desired = identity and keyed) or (desired = 'd' and primary_key)
               or (desired = 'f' and not virtual)) as coverable
    from wishes
)
select verdicts.*,
       identity = desired and (cardinality(pools) > 0) = coverable and (listed or persistence <> 'p') as settled
from verdicts
