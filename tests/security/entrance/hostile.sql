DO $$ BEGIN CREATE ROLE mallory LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE victim; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
CREATE SCHEMA lair AUTHORIZATION mallory;
CREATE TABLE secret (text text);
INSERT INTO secret VALUES ('sentinel-7f3a');
CREATE TABLE item (id int PRIMARY KEY);
INSERT INTO item VALUES (1), (2);
GRANT SELECT ON item TO mallory;
GRANT SELECT ON secret TO victim;

SET ROLE mallory;
-- Reports as whom it runs, then tries every way to become somebody else, and reports again.
CREATE FUNCTION lair.escape() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    way text;
    got text := '';
BEGIN
    RAISE LOG 'I am %', current_user;
    FOREACH way IN ARRAY ARRAY[
        'SET ROLE NONE', 'RESET ROLE', 'SET ROLE victim', 'SET LOCAL ROLE postgres', 'SET SESSION AUTHORIZATION DEFAULT',
        'SET SESSION AUTHORIZATION postgres', 'SELECT set_config(''role'', ''none'', false)',
        'SELECT set_config(''role'', ''none'', true)', 'SELECT set_config(''session_authorization'', ''postgres'', true)',
        'RESET ALL', 'SET TRANSACTION READ WRITE', 'SELECT _tidewire.enter()',
        'SELECT _tidewire.admit(pg_backend_pid(), ''victim'', ''victim'', true)',
        'COPY (SELECT 1) TO PROGRAM ''touch /tmp/tidewire-owned''', 'INSERT INTO item VALUES (99)',
        'CREATE FUNCTION lair.more() RETURNS int LANGUAGE sql AS ''SELECT 1''', 'ALTER FUNCTION lair.escape() SECURITY DEFINER'
    ] LOOP
        BEGIN
            EXECUTE way;
            RAISE LOG 'done: %', way;
        EXCEPTION WHEN OTHERS THEN NULL;
        END;
        RAISE LOG 'I am %', current_user;
    END LOOP;
    BEGIN
        EXECUTE 'SELECT text FROM public.secret' INTO got;
    EXCEPTION WHEN OTHERS THEN got := sqlerrm;
    END;
    RETURN got;
END $$;
CREATE FUNCTION lair.escape(int) RETURNS int LANGUAGE sql AS 'SELECT length(lair.escape())';
CREATE FUNCTION lair.escape_calmly(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM lair.escape(); RETURN $1; END $$;
-- Leaves a cursor behind that would run after the function.
CREATE FUNCTION lair.hold() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'DECLARE held CURSOR WITH HOLD FOR SELECT lair.escape()';
    RETURN 'held';
END $$;
CREATE FUNCTION lair.cursor() RETURNS refcursor LANGUAGE plpgsql AS $$
DECLARE
    open_one refcursor := 'open_one';
BEGIN
    OPEN open_one FOR SELECT lair.escape();
    RETURN open_one;
END $$;
-- Leaves statements behind under the names that ours have, and settings that lead names astray.
CREATE FUNCTION lair.litter() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n int;
BEGIN
    FOR n IN 1..20 LOOP
        BEGIN EXECUTE format('PREPARE tidewire_%s AS SELECT lair.escape()', n); EXCEPTION WHEN OTHERS THEN NULL; END;
    END LOOP;
    PERFORM set_config('search_path', 'lair, pg_catalog', false), set_config('statement_timeout', '0', false),
            set_config('client_encoding', 'LATIN1', false), set_config('standard_conforming_strings', 'off', false),
            set_config('plpgsql.variable_conflict', 'use_column', false), pg_advisory_lock(4711);
    RETURN 'littered';
END $$;
CREATE FUNCTION lair.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT lair.escape()';
CREATE FUNCTION lair.concat(anyelement) RETURNS text LANGUAGE sql AS 'SELECT lair.escape()';
CREATE FUNCTION lair.always(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT lair.escape() IS NOT NULL';
CREATE OPERATOR lair.= (LEFTARG = text, RIGHTARG = text, FUNCTION = lair.always);
-- Code that runs while a statement is read: the check of a domain inside a row literal.
CREATE FUNCTION lair.checked(int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM lair.escape();
    RETURN true;
END $$;
CREATE DOMAIN lair.odd AS int CHECK (lair.checked(VALUE));
CREATE TYPE lair.pair AS (a int, b lair.odd);
CREATE FUNCTION lair.same(lair.pair, lair.pair) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR lair.=== (LEFTARG = lair.pair, RIGHTARG = lair.pair, FUNCTION = lair.same);
CREATE TYPE lair.a_type_whose_name_is_longer_than_the_sixty_three_bytes_that_it_keeps AS (a int, b lair.odd);
-- An operator whose negator and commutator are hostile, and a type with a hostile cast to json.
CREATE FUNCTION lair.calm(int, int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION lair.wild(int, int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM lair.escape(); RETURN true; END $$;
CREATE OPERATOR lair.<=> (LEFTARG = int, RIGHTARG = int, FUNCTION = lair.calm, NEGATOR = OPERATOR(lair.<!>));
CREATE OPERATOR lair.<!> (LEFTARG = int, RIGHTARG = int, FUNCTION = lair.wild, NEGATOR = OPERATOR(lair.<=>));
CREATE TYPE lair.mood AS ENUM ('sad', 'ok');
CREATE FUNCTION lair.to_json(lair.mood) RETURNS json IMMUTABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM lair.escape(); RETURN '1'; END $$;
CREATE CAST (lair.mood AS json) WITH FUNCTION lair.to_json(lair.mood);
-- Turns the printing of trees off while the statement is read, after printing one of another statement.
CREATE FUNCTION lair.forge(int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'PREPARE forged_' || floor(random() * 1e9) || ' AS SELECT text FROM public.secret';
    PERFORM pg_catalog.set_config('debug_print_parse', 'off', true), pg_catalog.set_config('debug_print_rewritten', 'off', true);
    RETURN true;
END $$;
CREATE DOMAIN lair.forged AS int CHECK (lair.forge(VALUE));
CREATE TYPE lair.forged_pair AS (a int, b lair.forged);
CREATE FUNCTION lair.shout() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RAISE LOG 'parse tree:' USING DETAIL = '{QUERY :commandType 1 :rtable ({RANGETBLENTRY :relid 4242})}';
    RAISE LOG 'rewritten parse tree:' USING DETAIL = '{QUERY :commandType 1 :rtable ({RANGETBLENTRY :relid 4242})}';
    RETURN 1;
END $$;
CREATE FUNCTION lair.stubborn() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        BEGIN
            LOOP PERFORM 1; END LOOP;
        EXCEPTION WHEN query_canceled THEN NULL;
        END;
    END LOOP;
END $$;
RESET ROLE;
