do $$
declare name text;
begin
    foreach name in array array['clerk', 'auditor', 'keeper', 'mallory'] loop
        if not exists (select from pg_roles where rolname = name) then
            execute format('create role %I', name);
        end if;
    end loop;
end $$;
grant all on schema public to clerk, keeper, mallory;
create schema archive;
grant usage on schema archive to clerk;

create type mood as enum ('sad', 'glad');
create domain price as numeric(10, 2) check (value >= 0);
create table item (
    id int primary key, name text not null, cost price, tag varchar(20) collate "C", feeling mood, at timestamptz,
    seen text);
alter table item drop column seen;
create table line (item_id int, "Order" int, amount int, twice int generated always as (amount * 2) stored,
    primary key ("Order", item_id));
create table loose (word text, n bigint);
create table "Quoted Table" ("Weird ""Name" int primary key);
create table archive.item (id int primary key, old text);
create unlogged table scratch (id int primary key);
create table hidden (id int primary key, secret text, shown text);
create sequence counter;

create table event (at date, id int, what text, primary key (at, id)) partition by range (at);
create table event_2024 partition of event for values from ('2024-01-01') to ('2025-01-01');
create table event_later (what text, id int not null, at date not null);
alter table event attach partition event_later for values from ('2025-01-01') to ('2035-01-01');
create table animal (id int primary key, name text);
create table dog (bark text) inherits (animal);

create view cheap as select i.id, i.name, lower(i.name) as small from item i where i.cost < 10;
create view cheap_lines as select c.name, l.amount from cheap c join line l on l.item_id = c.id;
create materialized view stale as select count(*) from item;
create view tables as select relname from pg_class;

create table note (id int primary key, owner name, room text, body text);
alter table note enable row level security;
create policy own on note using (owner = current_user);
create policy shared on note for select to clerk using (room = current_setting('app.room', true));
create policy never on note as restrictive using (body <> 'it''s CURRENT_USER');
create policy others on note for select to auditor using (true);
create policy writing on note for insert with check (true);
create table memo (id int primary key, note_id int);
alter table memo enable row level security;
create policy by_note on memo using (exists (select from note n where n.id = note_id));
create table closed (id int primary key);
alter table closed enable row level security;
alter table note owner to keeper;
create view notes_of_keeper as select * from note;
alter view notes_of_keeper owner to keeper;
create view notes_of_reader with (security_invoker = true) as select * from note;
create table mine (id int primary key);
alter table mine enable row level security;
alter table mine owner to clerk;
create table forced (id int primary key);
alter table forced enable row level security;
alter table forced force row level security;
alter table forced owner to clerk;

create function discount(numeric) returns numeric immutable language sql set search_path = pg_catalog as 'select $1 * 0.9';
create function stock() returns bigint stable language sql set search_path = public as 'select count(*) from item';
create function public.length(text) returns int immutable language sql set search_path = pg_catalog as 'select 42';
create function same(int, text) returns boolean immutable language sql set search_path = pg_catalog as 'select true';
create operator = (leftarg = int, rightarg = text, function = same);

grant select on all tables in schema public to clerk, auditor, keeper, mallory;
grant select on archive.item to clerk;
revoke select on hidden from clerk;
grant select (id, shown) on hidden to clerk;
create publication tidewire_00 for table item, line, loose, "Quoted Table", archive.item, hidden, event_2024, event_later,
    animal, dog, note, memo, closed, mine, forced;
