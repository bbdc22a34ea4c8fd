-- The views over tables.sql, whose query stands in tidewire.coverage.
-- A table that has been given FULL for want of a key goes back to its key when it gets one.
create view tidewire.pending as
select c.*, c.identity = 'f' and c.primary_key and c.settled as relieved
from tidewire.coverage c
where c.owned and (
    not c.settled
    or (c.coverable and c.pools <> array[c.home::name])
    or (c.identity = 'f' and c.primary_key
        and exists (select from tidewire.identities i where i.relid = c.relid and i.given = 'f' and i.former = 'd')));

create view tidewire.untracked as
select c.relid, c.schema, c.name from tidewire.coverage c where c.identity = 'n' or c.shunned;
