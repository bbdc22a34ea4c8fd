-- Definitions of the durable topics, and what the gateway mirrors of its groups. Nobody but our functions writes
-- definitions; they are changed in the transaction of the statement, and each change is also a mark in the WAL
-- (kind `topics`), which arrives at the commit among the rows.
create table if not exists _tidewire.topics (
    topic_id            text primary key,
    name                text not null unique,
    alias               text unique,
    partitions          int not null default 1 check (partitions between 1 and 128),
    retention_seconds   bigint,
    retention_max_bytes bigint,
    owner               name not null,
    created_at          timestamptz not null default now(),
    -- Counted up by CLEAR TOPIC: what was written before it is gone, and groups begin anew.
    cleared_generation  int not null default 0
);

create table if not exists _tidewire.topic_routes (
    topic_id      text not null references _tidewire.topics on delete cascade,
    route         int not null,
    table_oid     oid not null,
    source_schema text not null,
    source_table  text not null,
    op            text not null check (op in ('Insert', 'Update', 'Delete')),
    payload_mode  text not null check (payload_mode in ('Key', 'Full', 'Diff')),
    -- An expression of PostgreSQL over the table's columns, without subqueries.
    filter_expr   text,
    -- The name of a column.
    partition_key text,
    -- Who made the route, and whose rights it has.
    role          name not null,
    primary key (topic_id, route)
);

-- Ids that were given: one is never given twice, so that a topic that is made again has no messages of the old one.
create table if not exists _tidewire.topic_ids (topic_id text primary key, given_at timestamptz not null default now());

-- A mirror of what groups have acked; the topic `cursors` is where it is kept. Rows of topics that are gone are not shown.
create table if not exists _tidewire.topic_offsets (
    topic_id          text not null,
    group_id          text not null,
    partition_id      int not null,
    last_acked_offset bigint,
    -- By these a late write of a gateway that stalled changes nothing.
    generation        bigint not null,
    version           bigint not null,
    updated_at        timestamptz not null,
    primary key (topic_id, group_id, partition_id)
);

-- Messages that could not be handled. group_id '' is a route whose evaluation failed, else a consumer refused it.
create table if not exists _tidewire.topic_dead (
    topic_id     text not null,
    group_id     text not null,
    partition_id int not null,
    message      bigint not null,
    refusals     int not null,
    reason       text not null,
    -- Its offset in the topic `<topic>.dead`; null: it was refused, and will be tried again.
    dead_offset  bigint,
    redriven     int not null default 0,
    -- The message itself (TopicMessage), since the topic's retention may end it.
    record       bytea,
    updated_at   timestamptz not null default now(),
    primary key (topic_id, group_id, partition_id, message)
);
create unique index if not exists topic_dead_offset on _tidewire.topic_dead (topic_id, dead_offset);

-- The database roles whose members may define topics (dba, system) or read them (service).
create table if not exists _tidewire.topic_groups (service_role text primary key, role name not null);
insert into _tidewire.topic_groups values
    ('system', 'tidewire_system'), ('dba', 'tidewire_dba'), ('service', 'tidewire_service')
on conflict do nothing;

-- A schema that everybody may use, with the views and the procedures that topic SQL becomes; and `system`, with views of
-- the names that clients expect, unless that is a schema of somebody else.
do $$
declare
    ours oid := (select nspowner from pg_namespace where nspname = '_tidewire');
    theirs oid := (select nspowner from pg_namespace where nspname = '_tidewire_topics');
begin
    if theirs is not null and theirs <> ours then
        raise exception 'the schema _tidewire_topics belongs to another role: drop it, then install again'
            using errcode = 'insufficient_privilege';
    end if;
    create schema if not exists _tidewire_topics;
    if to_regnamespace('system') is null then
        create schema system;
        comment on schema system is 'Tidewire: views of topics';
    end if;
end $$;
revoke create on schema _tidewire_topics from public;
grant usage on schema _tidewire_topics to public;

create or replace view _tidewire_topics.topics as
select t.topic_id, t.name, t.alias, t.partitions, t.retention_seconds, t.retention_max_bytes,
       coalesce((
           select pg_catalog.json_agg(pg_catalog.json_build_object(
                      'table_id', r.source_schema || '.' || r.source_table, 'op', r.op, 'payload_mode', r.payload_mode,
                      'filter_expr', r.filter_expr, 'partition_key_expr', r.partition_key) order by r.route)
           from _tidewire.topic_routes r where r.topic_id = t.topic_id), '[]')::text as routes,
       t.owner, t.created_at
from _tidewire.topics t;

create or replace view _tidewire_topics.topic_offsets as
select o.topic_id, o.group_id, o.partition_id, o.last_acked_offset, o.updated_at
from _tidewire.topic_offsets o join _tidewire.topics t using (topic_id)
where o.last_acked_offset is not null and (o.generation >> 32) = t.cleared_generation;

-- Not the messages themselves: who may read the topic reads `<topic>.dead`.
create or replace view _tidewire_topics.topic_dead as
select d.topic_id, d.group_id, d.partition_id, d.message as "offset", d.refusals, d.reason, d.dead_offset, d.redriven, d.updated_at
from _tidewire.topic_dead d join _tidewire.topics t using (topic_id)
where d.dead_offset is not null;

grant select on _tidewire_topics.topics, _tidewire_topics.topic_offsets, _tidewire_topics.topic_dead to public;

do $$
begin
    if exists (select from pg_namespace n join pg_namespace o on o.nspowner = n.nspowner and o.nspname = '_tidewire'
               where n.nspname = 'system' and obj_description(n.oid, 'pg_namespace') = 'Tidewire: views of topics') then
        create or replace view system.topics as select * from _tidewire_topics.topics;
        create or replace view system.topic_offsets as select * from _tidewire_topics.topic_offsets;
        create or replace view system.topic_dead as select * from _tidewire_topics.topic_dead;
        grant usage on schema system to public;
        grant select on system.topics, system.topic_offsets, system.topic_dead to public;
    end if;
end $$;
