-- The domains whose checks are code of somebody without trust, and every name by which a literal may come to be one of
-- their values, alone or inside an array, a row or a range: of types, of relations with such columns, of functions and operators.
with recursive owners as (
    select r.oid, r.rolname from pg_catalog.pg_roles r
    where not (r.rolsuper or r.rolname = session_user or r.rolname = any (%(trusted)s))
), called(domain, funcid) as (
    select k.contypid, d.refobjid
    from pg_catalog.pg_constraint k
    join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_constraint'::regclass and d.objid = k.oid
    where k.contypid > 0 and d.refclassid = 'pg_catalog.pg_proc'::regclass
    union
    select k.contypid, o.oprcode::oid
    from pg_catalog.pg_constraint k
    join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_constraint'::regclass and d.objid = k.oid
    join pg_catalog.pg_operator o on o.oid = d.refobjid
    where k.contypid > 0 and d.refclassid = 'pg_catalog.pg_operator'::regclass
), bad(domain, owner) as (
    select c.domain, o.rolname from called c
    join pg_catalog.pg_proc p on p.oid = c.funcid
    join owners o on o.oid = p.proowner
), holding(typid, domain, owner) as (
    select b.domain, b.domain, b.owner from bad b
    union
    select outer_type.oid, h.domain, h.owner from holding h
    cross join lateral (
        select t.oid from pg_catalog.pg_type t where t.typelem = h.typid or t.typbasetype = h.typid
        union all select c.reltype from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
        where a.atttypid = h.typid and c.reltype <> 0
        union all select unnest(array[r.rngtypid, r.rngmultitypid]) from pg_catalog.pg_range r where r.rngsubtype = h.typid
        -- A domain whose check casts to it.
        union all select k.contypid from pg_catalog.pg_constraint k
        join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_constraint'::regclass and d.objid = k.oid
        where k.contypid > 0 and d.refclassid = 'pg_catalog.pg_type'::regclass and d.refobjid = h.typid
    ) outer_type
)
select distinct named.name, h.domain::pg_catalog.regtype::text, h.owner
from holding h
cross join lateral (
    select t.typname::text from pg_catalog.pg_type t where t.oid = h.typid
    union all select e.typname from pg_catalog.pg_type t join pg_catalog.pg_type e on e.oid = t.typelem where t.oid = h.typid
    union all select c.relname from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
    where a.atttypid = h.typid
    union all select p.proname from pg_catalog.pg_proc p
    where h.typid = any (p.proargtypes) or h.typid = any (p.proallargtypes) or h.typid = p.prorettype
    union all select o.oprname from pg_catalog.pg_operator o where h.typid in (o.oprleft, o.oprright)
) named(name)
-- What another session has made for itself alone nobody else can name.
where named.name is not null and not exists (
    select from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
    where t.oid = h.typid and pg_catalog.starts_with(n.nspname, 'pg_temp_'))
