-- Every relation whose rows a scan of this one shows, itself included.
with recursive tree(oid) as (
    select %s::oid
    union
    select i.inhrelid from tree join pg_inherits i on i.inhparent = tree.oid where not i.inhdetachpending
)
select c.oid from tree join pg_class c on c.oid = tree.oid where c.relkind <> 'p' order by c.oid
