-- Everything that psql shows of a session: run with -a, so that the echo says which answer belongs to which line.
\set VERBOSITY verbose
\set SHOW_CONTEXT always
\encoding
\echo :SERVER_VERSION_NUM
SHOW application_name;
SHOW extra_float_digits;

-- notices, warnings, log levels and where they came from
CREATE FUNCTION speak(level text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  RAISE DEBUG 'debug %', level;
  RAISE NOTICE 'notice %', level USING DETAIL = 'a detail', HINT = 'a hint', ERRCODE = '01P01';
  RAISE WARNING 'warning %', level;
  IF level = 'exception' THEN
    RAISE EXCEPTION 'exception %', level USING DETAIL = 'all', HINT = 'fields', ERRCODE = 'TW001',
      COLUMN = 'a column', CONSTRAINT = 'a constraint', DATATYPE = 'a type', TABLE = 'a table', SCHEMA = 'a schema';
  END IF;
  RETURN 1;
END $$;
SELECT speak('calm');
SET client_min_messages = debug1;
SELECT speak('chatty');
RESET client_min_messages;
SELECT speak('exception');
\errverbose
DO $$ BEGIN FOR i IN 1..2000 LOOP RAISE NOTICE 'number %', i; END LOOP; END $$;

-- errors with position, constraint, type, table
SELECT nothing FROM nowhere;
SELECT 1 +;
SELECT 1/0;
SELECT 'x'::int;
CREATE TABLE item (id int PRIMARY KEY, price numeric CHECK (price > 0), label text NOT NULL DEFAULT 'ohne Namen');
INSERT INTO item VALUES (1, 1.5, 'eins'), (2, 2.5, 'zwei'), (3, 3.5, NULL);
INSERT INTO item VALUES (1, 1.5, 'eins'), (2, 2.5, 'zwei');
INSERT INTO item VALUES (1, 1, 'x');
INSERT INTO item VALUES (9, -1, 'x');
\errverbose
CREATE DOMAIN even AS int CHECK (VALUE % 2 = 0);
SELECT 3::even;

-- several statements in one message, with an error in the middle: the transaction is one
SELECT 1 \; SELECT 2 \; SELECT 1/0 \; SELECT 3;
SELECT count(*) FROM item;
INSERT INTO item VALUES (10, 1, 'a') \; INSERT INTO item VALUES (10, 1, 'b');
SELECT count(*) FROM item;
SELECT 1 AS a \; SELECT 2 AS b, 3 AS c;
;
SELECT;
SELECT FROM item;

-- transactions, and what the prompt would show of them
BEGIN;
INSERT INTO item VALUES (20, 2, 'within');
SAVEPOINT one;
INSERT INTO item VALUES (20, 2, 'again');
SELECT 1;
ROLLBACK TO one;
SELECT count(*) FROM item;
COMMIT;
COMMIT;
BEGIN; SELECT 1/0; COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
INSERT INTO item VALUES (30, 2, 'no');
ROLLBACK;
\set ON_ERROR_ROLLBACK on
BEGIN; SELECT 1/0; SELECT 'still here'; COMMIT;
\set ON_ERROR_ROLLBACK off
BEGIN; INSERT INTO item VALUES (40, 1, 'prepared'); PREPARE TRANSACTION 'clients_two_phase';
COMMIT PREPARED 'clients_two_phase';

-- describe without running; results as columns
SELECT id, price, label, now() AS moment, ARRAY[1.5, 2] AS numbers FROM item \gdesc
SELECT nothing \gdesc
SELECT id, label FROM item ORDER BY id \gx
SELECT id AS row, label AS col, price FROM item ORDER BY 1 \crosstabview row col price
SELECT format('SELECT %s AS made', g) FROM generate_series(1, 3) g \gexec
SELECT 'kept' AS value \gset
\echo :value

-- the extended protocol
SELECT $1 AS a, $2::int + 1 AS b \bind text 41 \g
SELECT $1::int \bind nonsense \g
SELECT $1 \bind \g

-- cursors, also beyond a transaction
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT g, repeat('x', g) FROM generate_series(1, 10) g;
FETCH 3 FROM c;
FETCH BACKWARD 1 FROM c;
MOVE LAST IN c;
FETCH RELATIVE -2 FROM c;
FETCH ALL FROM c;
CLOSE c;
DECLARE h CURSOR WITH HOLD FOR SELECT g FROM generate_series(1, 5) g;
COMMIT;
FETCH 2 FROM h;
CLOSE ALL;

-- COPY in both directions
COPY item TO STDOUT;
COPY item TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE *);
COPY item (id, price, label) FROM STDIN;
50	5.5	tab\tin it
51	5.6	back\\slash
52	5.7	\N
\.
COPY item (id, price, label) FROM STDIN;
50	5.5	tab\tin it
51	5.6	back\\slash
52	5.7	line\nfeed, ü, 漢字
\.
COPY item FROM STDIN (FORMAT csv, HEADER match);
id,price,label
60,6.0,"quoted, with comma"
61,-6.0,refused
\.
COPY item FROM STDIN (FORMAT csv);
70,x,y
\.
COPY (SELECT * FROM item ORDER BY id) TO STDOUT (FORMAT json);
\copy (SELECT g, md5(g::text) FROM generate_series(1, 20000) g) to 'numbers.tsv'
CREATE TABLE number (g int, hash text);
\copy number from 'numbers.tsv'
SELECT count(*), sum(g), md5(string_agg(hash, '' ORDER BY g)) FROM number;
\copy number to 'numbers.bin' (format binary)
\copy number from 'numbers.bin' (format binary)
SELECT count(*), sum(g), md5(string_agg(hash, '' ORDER BY g)) FROM number;
\copy number from 'numbers.bin'
\copy nowhere from 'numbers.tsv'

-- a large result, whole and in pieces
SELECT g, repeat('z', 100) FROM generate_series(1, 3000) g;
\set FETCH_COUNT 97
SELECT g, md5(g::text) FROM generate_series(1, 1000) g;
SELECT 100 / (500 - g) FROM generate_series(1, 1000) g;
\unset FETCH_COUNT
SELECT length(repeat('large value ', 1000000)), md5(repeat('large value ', 1000000));
SELECT repeat('0123456789abcdef', 16384) AS wide;

-- large objects go by the FunctionCall message
\lo_import 'numbers.tsv'
\lo_export :LASTOID 'numbers.again'
\lo_unlink :LASTOID
\lo_unlink 1

-- notifications of our own
LISTEN news;
NOTIFY news, 'first';
NOTIFY news;
SELECT pg_notify('news', repeat('x', 7999));
SELECT pg_notify('news', repeat('x', 8000));
BEGIN; NOTIFY news, 'rolled back'; ROLLBACK;
UNLISTEN news;
NOTIFY news, 'unheard';

-- settings that the server reports by itself
SET client_encoding = 'LATIN1';
\encoding
SELECT 'ü' AS umlaut;
SELECT chr(28450);
RESET client_encoding;
SET timezone = 'Asia/Kathmandu';
SELECT timestamptz '2026-01-01 00:00:00Z';
SET datestyle = 'German';
SELECT date '2026-11-17';
SET standard_conforming_strings = off;
SELECT 'a\\b';
SET application_name = 'ein Name';
RESET ALL;
SET nothing_known = 1;
SELECT set_config('tidewire_test.setting', 'value', false), current_setting('tidewire_test.setting');

\pset tuples_only on
SELECT 'again' \watch count=3 interval=0.01
\pset tuples_only off

\d item
\dt
\l clients
\df speak
\du postgres
\dconfig max_prepared_transactions

-- who ends a session says so
SELECT pg_terminate_backend(pg_backend_pid());
SELECT 'unreachable';
