-- The conditions that policies put on what this user reads of a table; no row where none binds him.
select p.polpermissive, pg_get_expr(p.polqual, p.polrelid)
from pg_class c
join pg_roles u on u.oid = %(user)s
left join pg_policy p on p.polrelid = c.oid and p.polcmd in ('r', '*') and p.polqual is not null
     and exists (select from unnest(p.polroles) r where r = 0 or pg_has_role(u.oid, r, 'usage'))
where c.oid = %(table)s and c.relrowsecurity and not u.rolsuper and not u.rolbypassrls
  and (c.relforcerowsecurity or not pg_has_role(u.oid, c.relowner, 'usage'))
order by p.polname
