-- What Tidewire keeps in the watched database. Every table has a key, so that no publication can make a write to it fail.
create schema if not exists tidewire;
revoke all on schema tidewire from public;

create table if not exists tidewire.capture (
    singleton boolean primary key default true check (singleton),
    epoch     bigint not null default 0,
    seq       bigint not null default 0,
    history   bigint not null default 0,
    slot      text,
    updated   timestamptz
);
insert into tidewire.capture default values on conflict do nothing;

-- Replica identities that Tidewire changed: what stood there before the first change, and what it set last.
create table if not exists tidewire.identities (
    relid        oid primary key,
    former       "char" not null,
    former_index oid,
    given        "char" not null,
    given_index  oid
);
