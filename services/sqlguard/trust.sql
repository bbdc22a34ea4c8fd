-- Every function that PostgreSQL may come to run for a query that names these objects: called in it, by operators, casts
-- and aggregates, in the views it reads, in checks of domains, and in what planning evaluates: expressions of indexes,
-- checks, statistics and partitions. Objects that came with PostgreSQL are not followed.
with recursive used(classid, objid) as (
    select named.* from (
        select 'pg_catalog.pg_proc'::regclass::oid, p.oid from pg_catalog.pg_proc p where p.oid = any (%(named)s)
        union all select 'pg_catalog.pg_operator'::regclass, o.oid from pg_catalog.pg_operator o where o.oid = any (%(named)s)
        union all select 'pg_catalog.pg_type'::regclass, t.oid from pg_catalog.pg_type t where t.oid = any (%(named)s)
        union all select 'pg_catalog.pg_class'::regclass, c.oid from pg_catalog.pg_class c where c.oid = any (%(named)s)
    ) named
    union
    select edge.* from used u cross join lateral (
        select d.refclassid, d.refobjid from pg_catalog.pg_depend d
        where d.classid = u.classid and d.objid = u.objid and d.refclassid in (
            'pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass, 'pg_catalog.pg_type'::regclass,
            'pg_catalog.pg_class'::regclass, 'pg_catalog.pg_opclass'::regclass)
        -- The planner may put an operator's negator or commutator in its place.
        union all select 'pg_catalog.pg_operator'::regclass, o.other from pg_catalog.pg_operator p
        cross join lateral unnest(array[p.oprcom, p.oprnegate]) as o(other)
        where u.classid = 'pg_catalog.pg_operator'::regclass and p.oid = u.objid
        -- Functions that make json of any value use a type's own cast.
        union all select 'pg_catalog.pg_proc'::regclass, k.castfunc from pg_catalog.pg_cast k
        where u.classid = 'pg_catalog.pg_type'::regclass and u.objid in (k.castsource, k.casttarget)
        union all select 'pg_catalog.pg_rewrite'::regclass, r.oid from pg_catalog.pg_rewrite r
        where u.classid = 'pg_catalog.pg_class'::regclass and r.ev_class = u.objid
        union all select 'pg_catalog.pg_class'::regclass, i.indexrelid from pg_catalog.pg_index i
        where u.classid = 'pg_catalog.pg_class'::regclass and i.indrelid = u.objid
          and (i.indexprs is not null or i.indpred is not null)
        union all select 'pg_catalog.pg_class'::regclass, h.inhrelid from pg_catalog.pg_inherits h
        where u.classid = 'pg_catalog.pg_class'::regclass and h.inhparent = u.objid
        union all select 'pg_catalog.pg_constraint'::regclass, k.oid from pg_catalog.pg_constraint k
        where u.classid = 'pg_catalog.pg_class'::regclass and k.conrelid = u.objid and k.contype = 'c'
        union all select 'pg_catalog.pg_constraint'::regclass, k.oid from pg_catalog.pg_constraint k
        where u.classid = 'pg_catalog.pg_type'::regclass and k.contypid = u.objid
        union all select 'pg_catalog.pg_class'::regclass, t.typrelid from pg_catalog.pg_type t
        where u.classid = 'pg_catalog.pg_type'::regclass and t.oid = u.objid
        union all select 'pg_catalog.pg_statistic_ext'::regclass, s.oid from pg_catalog.pg_statistic_ext s
        where u.classid = 'pg_catalog.pg_class'::regclass and s.stxrelid = u.objid
        union all select 'pg_catalog.pg_policy'::regclass, y.oid from pg_catalog.pg_policy y
        where u.classid = 'pg_catalog.pg_class'::regclass and y.polrelid = u.objid
        union all select 'pg_catalog.pg_attrdef'::regclass, a.oid from pg_catalog.pg_attrdef a
        join pg_catalog.pg_attribute g on g.attrelid = a.adrelid and g.attnum = a.adnum and g.attgenerated <> ''
        where u.classid = 'pg_catalog.pg_class'::regclass and a.adrelid = u.objid
    ) edge(classid, objid)
    where edge.objid >= 16384
), owners as (
    select r.oid, r.rolname from pg_catalog.pg_roles r
    where not (r.rolsuper or r.rolname = session_user or r.rolname = any (%(trusted)s))
)
select p.oid::pg_catalog.regprocedure::text, o.rolname,
       -- What its body means is decided by the search_path of the moment.
       l.lanname not in ('c', 'internal') and p.prosqlbody is null
       and not coalesce(p.proconfig::text like '%%search_path=%%', false)
from used u
join pg_catalog.pg_proc p on u.classid = 'pg_catalog.pg_proc'::regclass and p.oid = u.objid
join pg_catalog.pg_language l on l.oid = p.prolang
left join owners o on o.oid = p.proowner
order by o.rolname nulls last, 1
