-- What Tidewire keeps in the watched database. Every table has a key, so that no publication can make a write to it fail.
create schema if not exists _tidewire;
revoke all on schema _tidewire from public;

-- What capture notes of its takeovers: an epoch is reserved here before it is used, and noted as fenced once its fence
-- stands in the log. A log that is ahead of this row tells a database that was set back.
create table if not exists _tidewire.capture (
    singleton    boolean primary key default true check (singleton),
    epoch        bigint not null default 0,
    fenced       bigint not null default 0,
    fence_offset bigint not null default 0,
    history      bigint not null default 0
);
insert into _tidewire.capture default values on conflict do nothing;

-- Replica identities that Tidewire changed: what stood there before the first change, and what it set last.
create table if not exists _tidewire.identities (
    relid        oid primary key,
    former       "char" not null,
    former_index oid,
    given        "char" not null,
    given_index  oid
);

-- Marks on their way into the WAL: a row is inserted and deleted in one transaction, so the table is always empty. Only our
-- functions can write here, and that is what makes a mark ours: pg_logical_emit_message is open to every login.
create table if not exists _tidewire.marks (
    id      bigint generated always as identity primary key,
    kind    text not null,
    content text not null
);

-- One row for each publication of changed rows. A transaction that adds tables to one holds the lock of its row; not an
-- advisory lock, which any login could hold.
create table if not exists _tidewire.pools (number int primary key);
insert into _tidewire.pools select generate_series(0, 31) on conflict do nothing;

-- Tables that left their publication for the length of a command; always empty, too.
create table if not exists _tidewire.aside (xid xid8, relid oid, primary key (xid, relid));

-- Tables whose routes to durable topics need whole old rows in the WAL: they keep the identity FULL that they were given.
create table if not exists _tidewire.imaged (relid oid primary key);
-- Queries registered by pgr.subscribe (schema pgr has only functions and views of it). A gen is drawn under a lock of its
-- query id, so that the order of gens is the order of commits.
create table if not exists _tidewire.registrations (
    query_id      text primary key,
    query         text not null,
    mode          text not null,
    audience      jsonb,
    gen           bigint not null,
    role          text not null,
    login         text not null,
    search_path   text[] not null,
    settings      jsonb not null,
    registered_at timestamptz not null default now()
);
create sequence if not exists _tidewire.registration_gen;
