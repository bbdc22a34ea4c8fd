select t.oid, case when n.nspname = 'pg_catalog' then t.typname else n.nspname || '.' || t.typname end, t.typtype,
       case when t.typcollation = 0 then 'none' when t.typname = 'name' then 'bytes' else %(default)s end
from pg_type t join pg_namespace n on n.oid = t.typnamespace
where t.oid = any (%(types)s)
