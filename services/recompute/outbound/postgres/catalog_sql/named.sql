-- What numbers of a tree stand for: types (a domain counts as the type below it), collations, and values of enums.
with recursive base(oid, typid, typmod) as (
    select t.oid, t.oid, -1 from pg_type t where t.oid = any (%(types)s)
    union all
    select b.oid, t.typbasetype, t.typtypmod from base b join pg_type t on t.oid = b.typid where t.typtype = 'd'
)
select 'type', b.oid, t.oid, case when n.nspname = 'pg_catalog' then t.typname else n.nspname || '.' || t.typname end,
       b.typmod, t.typtype::text
from base b
join pg_type t on t.oid = b.typid and t.typtype <> 'd'
join pg_namespace n on n.oid = t.typnamespace
union all
select 'collation', l.oid, 0::oid,
       case
           when not l.collisdeterministic then 'loose'
           when l.collprovider = 'd' then %(default)s
           when l.collprovider = 'c' and l.collcollate in ('C', 'POSIX') and l.collctype in ('C', 'POSIX') then 'bytes'
           when l.collprovider = 'b' and to_jsonb(l) ->> 'colllocale' = 'C' then 'bytes'
           else 'language'
       end, 0, ''
from pg_collation l where l.oid = any (%(collations)s)
union all
select 'label', e.oid, 0::oid, e.enumlabel::text, 0, '' from pg_enum e where e.oid = any (%(labels)s)
