-- What is not right yet among _tidewire.coverage, whose query is tables.sql. A table that was given FULL for want of a key
-- is relieved of it when it has one; a FULL that the user chose stays.
create view _tidewire.pending as
select p.* from (
    select c.*, c.identity = 'f' and c.primary_key and c.settled and exists (
               select from _tidewire.identities i where i.relid = c.relid and i.given = 'f' and i.former = 'd')
           and not exists (select from _tidewire.imaged m where m.relid = c.relid) as relieved
    from _tidewire.coverage c
    where c.owned
) p
where p.relieved or not p.settled or (p.coverable and p.pools <> array[p.home::name]);

create view _tidewire.untracked as
select c.relid, c.schema, c.name from _tidewire.coverage c where c.identity = 'n' or c.shunned;
