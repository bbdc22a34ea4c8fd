-- A number that is another one when rights, policies, roles or owners are: while it is the same, nobody's rights changed.
-- Temporary objects are left out: any login makes them, and no subscription reads them.
with passing as materialized (
    select c.oid from pg_class c where c.relpersistence = 't'
), passing_schemas as materialized (
    select n.oid from pg_namespace n where starts_with(n.nspname, 'pg_temp_')
)
select md5(concat_ws(' ', (
    select sum(hashtextextended(concat_ws(' ', c.oid, c.relname, c.relnamespace, c.relowner, c.relacl, c.relrowsecurity,
                                          c.relforcerowsecurity, c.reloptions), 0))
    from pg_class c where c.relkind in ('r', 'v', 'm', 'f', 'p', 'S') and c.relpersistence <> 't'
), (
    select sum(hashtextextended(concat_ws(' ', a.attrelid, a.attnum, a.attacl), 0))
    from pg_attribute a where a.attacl is not null and a.attrelid not in (select t.oid from passing t)
), (
    select sum(hashtextextended(concat_ws(' ', p.oid, p.polrelid, p.polcmd, p.polpermissive, p.polroles,
                                          p.polqual, p.polwithcheck), 0))
    from pg_policy p where p.polrelid not in (select t.oid from passing t)
), (
    select sum(hashtextextended(concat_ws(' ', w.oid, w.ev_class, w.xmin), 0))
    from pg_rewrite w where w.oid >= 16384 and w.ev_class not in (select t.oid from passing t)
), (
    select sum(hashtextextended(m::text, 0)) from pg_auth_members m
), (
    select sum(hashtextextended(concat_ws(' ', r.oid, r.rolname, r.rolsuper, r.rolinherit, r.rolbypassrls), 0)) from pg_roles r
), (
    select sum(hashtextextended(concat_ws(' ', n.oid, n.nspname, n.nspowner, n.nspacl), 0))
    from pg_namespace n where not starts_with(n.nspname, 'pg_t')
), (
    select sum(hashtextextended(concat_ws(' ', f.oid, f.proowner, f.proacl, f.xmin), 0))
    from pg_proc f where f.oid >= 16384 and f.pronamespace not in (select t.oid from passing_schemas t)
)))
