-- Where subscribers' SQL runs. A login without rights (the runner) enters the role of one subscriber through a function
-- that the role owns: inside a SECURITY DEFINER function PostgreSQL itself refuses to change the role. The function is made
-- in the transaction that uses it, which is always rolled back, so that DROP ROLE of a subscriber finds nothing of ours.
-- Code that comes to run as the runner gains nothing: its backend may enter that one role and no other.
create schema if not exists _tidewire;
revoke all on schema _tidewire from public;

-- Which role the backend of a runner may enter. Unlogged: it must not be replicated, and outlives no backend.
create unlogged table if not exists _tidewire.runners (
    pid     int primary key,
    started timestamptz not null,
    role    oid not null
);
-- How the services log the runner in. Unlogged: it must not be replicated; after a crash a new password is made.
create unlogged table if not exists _tidewire.runner_password (
    singleton boolean primary key default true check (singleton),
    password  text not null
);
revoke all on _tidewire.runners, _tidewire.runner_password from public;

create or replace function _tidewire.runner_name() returns text
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select 'tidewire_runner_' || d.oid from pg_database d where d.datname = current_database();
end;

-- The runner's name and password; the given ones are taken if it has none yet. `verifier` is what PostgreSQL stores of
-- the password, so that the password itself stands in no statement that could be logged.
create or replace function _tidewire.runner_login(new_password text, verifier text, out login text, out password text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    -- Not an advisory lock, which any user could hold.
    lock table _tidewire.runner_password in share row exclusive mode;
    login := _tidewire.runner_name();
    select p.password into password from _tidewire.runner_password p;
    if found and exists (select from pg_roles r where r.rolname = login) then
        return;
    end if;
    if not exists (select from pg_roles r where r.rolname = login) then
        execute format('create role %I', login);
    end if;
    execute format('alter role %I login noinherit nosuperuser nocreatedb nocreaterole noreplication nobypassrls '
                   'connection limit -1 valid until ''infinity'' password %L', login, verifier);
    execute format('grant connect on database %I to %I', current_database(), login);
    execute format('grant usage on schema _tidewire to %I', login);
    execute format('grant execute on function _tidewire.enter() to %I', login);
    execute format('grant set on parameter log_min_messages to %I', login);
    -- As role settings, so that DISCARD ALL comes back to them. Trees are told to us, not to the server's log.
    execute format('alter role %I set log_min_messages = fatal', login);
    execute format('alter role %I set search_path = pg_catalog', login);
    execute format('alter role %I set idle_in_transaction_session_timeout = ''60s''', login);
    execute format('alter role %I set client_connection_check_interval = ''5s''', login);
    insert into _tidewire.runner_password (password) values (new_password)
    on conflict (singleton) do update set password = excluded.password;
    password := new_password;
end $$;

-- Bind the backend of a runner to a role, after verifying that `member` may be that role at all.
create or replace function _tidewire.admit(runner_pid int, member text, wanted text, superusers boolean) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    backend record;
    target pg_roles;
    privilege text := case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end;
begin
    select * into target from pg_roles r where r.rolname = wanted;
    if not found or not exists (select from pg_roles r where r.rolname = member) then
        raise exception 'role "%" does not exist', case when target.oid is null then wanted else member end
            using errcode = 'undefined_object';
    end if;
    if member <> wanted and not pg_has_role(member, wanted, privilege) then
        raise exception 'permission denied to set role "%"', wanted using errcode = 'insufficient_privilege';
    end if;
    if target.rolsuper and not superusers then
        raise exception 'role "%" is a superuser, who may not subscribe here', wanted
            using errcode = 'insufficient_privilege',
                  hint = 'Subscribe as a role with only the rights it needs.';
    end if;
    select s.pid, s.backend_start into backend
    from pg_stat_get_activity(runner_pid) s join pg_roles r on r.oid = s.usesysid
    where r.rolname = _tidewire.runner_name()
      and s.datid = (select d.oid from pg_database d where d.datname = current_database());
    if not found then
        raise exception 'backend % is not a runner of this database', runner_pid using errcode = 'insufficient_privilege';
    end if;
    if exists (select from _tidewire.runners r
               where r.pid = backend.pid and r.started = backend.backend_start and r.role = target.oid) then
        return;
    end if;
    delete from _tidewire.runners r where not exists (
        select from pg_stat_get_activity(null) s where s.pid = r.pid and s.backend_start = r.started);
    insert into _tidewire.runners values (backend.pid, backend.backend_start, target.oid)
    on conflict (pid) do update set started = excluded.started, role = excluded.role;
end $$;

-- Make the entrance of this backend's role and return its name; to be called in a transaction that is rolled back.
-- Event triggers of others must neither see nor prevent it, so it acts as a replica does.
create or replace function _tidewire.enter() returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp set session_replication_role = replica as $$
declare
    entrance text := 'entrance_' || pg_backend_pid();
    wanted text;
begin
    select r.rolname into wanted
    from _tidewire.runners a join pg_roles r on r.oid = a.role
    where a.pid = pg_backend_pid()
      and a.started = (select s.backend_start from pg_stat_get_activity(pg_backend_pid()) s);
    if not found then
        raise exception 'this backend may enter no role' using errcode = 'insufficient_privilege';
    end if;
    execute format($make$
        create function _tidewire.%I(statement text, gives_rows boolean) returns setof record
        language plpgsql security definer as $body$
        begin
            if gives_rows then
                return query execute statement;
            else
                execute statement;
            end if;
        end $body$ $make$, entrance);
    execute format('revoke all on function _tidewire.%I(text, boolean) from public', entrance);
    execute format('alter function _tidewire.%I(text, boolean) owner to %I', entrance, wanted);
    execute format('grant execute on function _tidewire.%I(text, boolean) to %I', entrance, session_user);
    return entrance;
end $$;

revoke all on function _tidewire.runner_name(), _tidewire.runner_login(text, text), _tidewire.enter(),
    _tidewire.admit(int, text, text, boolean) from public;
