CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE edges (
    id int PRIMARY KEY,
    s int2, i int4, j int4, b int8, smin int2, imin int4, bmin int8,
    n numeric(10,2), m numeric(6,3), z numeric(4,0), w numeric(38,10), num numeric,
    f float8, g float4, fx float8,
    t text COLLATE "C", u text COLLATE "C", v varchar(10) COLLATE "C", c char(5) COLLATE "C", l text COLLATE "pg_c_utf8",
    bo bool, d date, e date, ts timestamp, tt timestamp, tz timestamptz, ty timestamptz, dx date, tx timestamp,
    k uuid, en mood, na name, js jsonb
);

INSERT INTO edges VALUES
(1, 1, 7, 2, 10, 32767, 2147483647, 9223372036854775807, 12.50, 1.005, 10, 1.5, 10.50, 1.5, 1.5, 1e300, 'abc', 'b', 'abc',
 'abc', 'abc', true, '2020-02-29', '2020-01-31', '2020-02-29 12:34:56.789012', '2020-02-28 11:00:00', '2021-03-14 01:59:59+00',
 '2021-03-14 00:00:00+00', 'infinity', 'infinity', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ok', 'abc'),
(2, -3, -7, 3, -10, -32768, -2147483648, -9223372036854775808, -12.55, -1.005, -10, -1.5, -0.005, -2.5, -2.5, -1e-300, '', '', '',
 '', '', false, '1999-12-31', '2000-01-01', '1999-12-31 23:59:59.999999', '2000-01-01 00:00:00', '1999-12-31 23:59:59.5+00',
 '2000-01-01 00:00:00+00', '-infinity', '-infinity', '00000000-0000-0000-0000-000000000000', 'sad', ''),
(3, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, '-0', '-0', 0, 'Äß€😀x', '😀', 'Äß€😀x', 'é', 'É', NULL, '0044-03-15 BC', '0001-01-01',
 '0044-03-15 10:00:00 BC', '0001-01-01 00:00:00', '0044-03-15 10:00:00+00 BC', '0001-01-01 00:00:00+00', '4714-11-24 BC',
 '4714-11-24 00:00:00 BC', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'happy', 'é'),
(4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
 NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
(5, 2, 1000000, -7, 123456789012, 1, 1, 1, 99999999.99, 999.999, 9999, 1234567890123456789012345678.0123456789, 1234.5678, 'NaN',
 'NaN', 'Infinity', '  a b,c,,d ', ',', 'a_b%c\d', 'a b', 'Straße', true, '2024-12-31', '2024-12-30', '2024-12-31 00:00:00',
 '10000-01-01 00:00:00', '2026-11-16 15:55:33.1+00', '2026-11-09 15:55:33.1+00', '5874897-12-31', '294276-12-31 23:59:59.999999',
 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', 'ok', 'abc'),
(6, 5, -1, 5, 5, -1, -1, -1, 0.05, 0.500, 5, 0.0000000001, 100, 2.5, 2.5, '-Infinity', E'line\nTwo', 'line', 'xyxabcyx', 'ABC',
 'ABC', false, '2023-01-01', '2022-12-31', '2023-01-01 23:00:00.000001', '2022-12-26 00:00:00', '2023-01-01 00:00:00+00',
 '2022-12-31 00:00:00+00', '2000-01-01', '2000-01-01 00:00:00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'happy', 'é'),
(7, 10, 15, 15, 15, 10, 10, 10, -0.05, 2.500, -5, -0.0000000005, 0.5, 3.5, 3.5, 0.1, 'ABC', 'abc', 'ABC', 'x', 'abd', true,
 '2021-08-01', '2021-07-31', '2021-08-01 00:00:00', '2021-07-31 23:59:59', '2021-08-01 12:00:00+00', '2021-05-31 12:00:00+00',
 '1970-01-01', '1970-01-01 00:00:00', '10000000-0000-0000-0000-000000000000', 'sad', 'x');
-- Some columns NULL, others not: a function must not pass over one of its arguments.
DO $$
DECLARE one text; other text;
BEGIN
    SELECT string_agg(CASE WHEN attnum % 2 = 0 THEN attname ELSE 'NULL' END, ', ' ORDER BY attnum),
           string_agg(CASE WHEN attnum % 3 = 0 THEN attname ELSE 'NULL' END, ', ' ORDER BY attnum)
    INTO one, other FROM pg_attribute WHERE attrelid = 'edges'::regclass AND attnum > 1;
    EXECUTE format('INSERT INTO edges SELECT 8, %s FROM edges WHERE id = 1', one);
    EXECUTE format('INSERT INTO edges SELECT 9, %s FROM edges WHERE id = 6', other);
END $$;
UPDATE edges SET js = document FROM (VALUES
    (1, '{"a": "x", "b": 1, "c": true, "d": null, "_e9": "é\n\"q\" 😀"}'::jsonb), (2, '[]'), (3, '{"a": ""}'), (5, '"a"'), (6, '{"a": "1", "b": -123456789012345678901234567890, "c": false}'),
    (7, '{"A": "upper", "b": 0}')) AS given (number, document) WHERE number = id;
