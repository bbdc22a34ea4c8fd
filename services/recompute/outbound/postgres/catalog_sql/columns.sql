-- The columns of these relations in their order; a domain counts as the type below it, as it does on the wire.
with recursive base(attrelid, attnum, typid, typmod) as (
    select a.attrelid, a.attnum, a.atttypid, a.atttypmod
    from pg_attribute a where a.attrelid = any (%(relations)s) and a.attnum > 0 and not a.attisdropped
    union all
    select b.attrelid, b.attnum, t.typbasetype, t.typtypmod
    from base b join pg_type t on t.oid = b.typid where t.typtype = 'd'
)
select a.attrelid, a.attnum, a.attname, t.oid,
       case when n.nspname = 'pg_catalog' then t.typname else n.nspname || '.' || t.typname end, b.typmod, t.typtype,
       case
           when l.oid is null then 'none'
           when not l.collisdeterministic then 'loose'
           when l.collprovider = 'd' then %(default)s
           when l.collprovider = 'c' and l.collcollate in ('C', 'POSIX') and l.collctype in ('C', 'POSIX') then 'bytes'
           when l.collprovider = 'b' and to_jsonb(l) ->> 'colllocale' = 'C' then 'bytes'
           else 'language'
       end,
       a.attnotnull, a.attgenerated
from base b
join pg_attribute a on a.attrelid = b.attrelid and a.attnum = b.attnum
join pg_type t on t.oid = b.typid and t.typtype <> 'd'
join pg_namespace n on n.oid = t.typnamespace
left join pg_collation l on l.oid = a.attcollation
order by a.attrelid, a.attnum
