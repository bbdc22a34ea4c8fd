-- Operators and types of a tree that are called like those of PostgreSQL, or in no other way, and are not PostgreSQL's.
select o.oprname from pg_operator o join pg_namespace n on n.oid = o.oprnamespace
where o.oid = any (%(operators)s) and n.nspname <> 'pg_catalog'
union
select t.typname from pg_type t join pg_namespace n on n.oid = t.typnamespace
where t.oid = any (%(objects)s) and n.nspname <> 'pg_catalog'
  and exists (select from pg_type s where s.typname = t.typname and s.typnamespace = 'pg_catalog'::regnamespace)
