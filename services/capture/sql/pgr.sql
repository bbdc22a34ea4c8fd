-- The NOTIFY door's functions, under the names that pg_reactive gave them; revoked from PUBLIC.

create or replace function pgr._register(
    query_id text, query text, mode text, audience jsonb, search_path text[], settings jsonb) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
    select _tidewire.register(query_id, query, mode, audience, search_path, settings);
end;

-- With the caller's rights and search path: PostgreSQL reads the query as the caller's own, before it is registered. A
-- cursor takes one statement, a subquery only a SELECT without effects on tables; nothing is fetched.
create or replace function pgr.subscribe(
    p_query_id text, p_query text, p_mode text default 'delta', p_audience jsonb default null) returns jsonb
language plpgsql as $$
declare
    checked refcursor;
    drawn   pg_catalog.int8;
begin
    if p_query is null or p_query operator(pg_catalog.~) '^\s*$' then
        raise exception using errcode = '22023', message = 'there is no query to register';
    end if;
    open checked for execute pg_catalog.concat('SELECT * FROM (', p_query, E'\n) AS result LIMIT 0');
    close checked;
    drawn := pgr._register(p_query_id, p_query, p_mode, p_audience, pg_catalog.current_schemas(false)::pg_catalog.text[],
        pg_catalog.jsonb_build_object(
            'TimeZone', pg_catalog.current_setting('TimeZone'),
            'IntervalStyle', pg_catalog.current_setting('IntervalStyle'),
            'bytea_output', pg_catalog.current_setting('bytea_output'),
            'extra_float_digits', pg_catalog.current_setting('extra_float_digits')));
    return pg_catalog.jsonb_build_object('query_id', p_query_id, 'mode', p_mode, 'gen', drawn);
end $$;

-- The same by the names that the documents use too. PostgreSQL tells functions apart by the types of their arguments,
-- so that each combination of named ones is a function; calls without names find the one above.
create or replace function pgr.subscribe(query_id text, query text, mode name) returns jsonb
language sql begin atomic select pgr.subscribe(p_query_id => query_id, p_query => query, p_mode => mode::text, p_audience => null); end;
create or replace function pgr.subscribe(query_id text, query text, audience jsonb) returns jsonb
language sql begin atomic select pgr.subscribe(p_query_id => query_id, p_query => query, p_mode => 'delta', p_audience => audience); end;
create or replace function pgr.subscribe(query_id text, query text, mode text, audience text) returns jsonb
language sql begin atomic select pgr.subscribe(p_query_id => query_id, p_query => query, p_mode => mode, p_audience => audience::jsonb); end;
create or replace function pgr.subscribe(query_id text, query text, audience jsonb, mode text) returns jsonb
language sql begin atomic select pgr.subscribe(p_query_id => query_id, p_query => query, p_mode => mode, p_audience => audience); end;

create or replace function pgr.unsubscribe(p_query_id text) returns boolean
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
    select _tidewire.unregister(p_query_id);
end;

create or replace view pgr.persisted_subscriptions as
    select query_id, query, mode, audience, gen, role, registered_at from _tidewire.registrations;
create or replace view pgr.subscriptions as
    select query_id, query, mode, audience, gen, role, registered_at from _tidewire.registrations;

create or replace function pgr.get_subscriptions() returns setof pgr.subscriptions
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    select s.* from pgr.subscriptions s order by s.query_id;
end;

create or replace function pgr.subscription_meta(query_id text)
returns table (mode text, audience jsonb, gen bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    select r.mode, r.audience, r.gen from _tidewire.registrations r where r.query_id = subscription_meta.query_id;
end;

-- Registrations are rows, and survive every restart by themselves: it tells how many stand.
create or replace function pgr.restore_subscriptions() returns int
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    select count(*)::int from _tidewire.registrations;
end;

create or replace function pgr.stats() returns table (metric text, value text)
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    select 'subscriptions', count(*)::text from _tidewire.registrations
    union all select 'subscriptions_delta', count(*)::text from _tidewire.registrations r where r.mode = 'delta'
    union all select 'subscriptions_notify', count(*)::text from _tidewire.registrations r where r.mode = 'notify'
    union all select 'max_subscriptions', _tidewire.reactive_setting('max_subscriptions', '1024')
    union all select 'notify_channel', _tidewire.reactive_setting('notify_channel', 'pgr');
end;

revoke all on schema pgr from public;
revoke all on all functions in schema pgr from public;
revoke all on all tables in schema pgr from public;
