-- A number that is another one when rights, policies, roles or owners are: while it is the same, nobody's rights changed.
select md5(concat_ws(' ', (
    select sum(hashtextextended(concat_ws(' ', c.oid, c.relname, c.relnamespace, c.relowner, c.relacl, c.relrowsecurity,
                                          c.relforcerowsecurity, c.reloptions), 0))
    from pg_class c where c.relkind in ('r', 'v', 'm', 'f', 'p', 'S') and c.relpersistence <> 't'
), (
    select sum(hashtextextended(concat_ws(' ', a.attrelid, a.attnum, a.attacl), 0))
    from pg_attribute a where a.attacl is not null
), (
    select sum(hashtextextended(concat_ws(' ', p.oid, p.polrelid, p.polcmd, p.polpermissive, p.polroles,
                                          p.polqual, p.polwithcheck), 0))
    from pg_policy p
), (
    select sum(hashtextextended(m::text, 0)) from pg_auth_members m
), (
    select sum(hashtextextended(concat_ws(' ', r.oid, r.rolname, r.rolsuper, r.rolinherit, r.rolbypassrls), 0)) from pg_roles r
), (
    select sum(hashtextextended(concat_ws(' ', n.oid, n.nspname, n.nspowner, n.nspacl), 0))
    from pg_namespace n where not starts_with(n.nspname, 'pg_t')
), (
    select sum(hashtextextended(concat_ws(' ', f.oid, f.proowner, f.proacl, f.xmin), 0)) from pg_proc f where f.oid >= 16384
)))
