"""A table with a value of every common type, its edges and NULL, for drivers to read and write."""

TABLE = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (left_one int, right_one text);
CREATE TABLE sample (
  id int PRIMARY KEY, flag boolean, small smallint, whole int, big bigint, real4 real, real8 double precision,
  exact numeric, letters text, fixed char(8), raw bytea, day date, moment timestamp, instant timestamptz, clock time,
  span interval, identity uuid, document jsonb, plain json, numbers int[], words text[][], address inet, net cidr,
  feeling mood, both_of pair, range int4range, bits varbit, place point
);
INSERT INTO sample VALUES
  (1, true, 32767, 2147483647, 9223372036854775807, 1.5, 1e300, 12345678901234567890.123456789, 'Grüße, 世界 🌊', 'abc',
   '\\x00ff10', '2026-11-17', '2026-11-17 01:02:03.000004', '2026-11-17 01:02:03.5+02', '23:59:59.999999',
   '1 year 2 mons 3 days 04:05:06.7', '12345678-1234-5678-1234-567812345678', '{"a": [1, 2.50, null]}', '{"b" : 1}',
   '{1,NULL,3}', '{{a,"b,c"},{NULL,""}}', '10.0.0.1/8', '10.0.0.0/8', 'happy', '(1,"a b")', '[1,5)', B'1011', '(1,2)'),
  (2, false, -32768, -2147483648, -9223372036854775808, -0.0, 5e-324, -0.000000001, '', '', '', '0001-01-01',
   '0001-01-01', '1999-12-31 23:59:59.999999+00', '00:00', '-1 days', '00000000-0000-0000-0000-000000000000', '{}',
   'null', '{}', '{}', '::1', '::/0', 'sad', '(,)', 'empty', B'', '(0,0)'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
"""
# A failure that fills every field of an ErrorResponse, and a notice before it.
SPEAK = """
CREATE FUNCTION speak() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE 'a notice' USING DETAIL = 'its detail', HINT = 'its hint';
  RAISE EXCEPTION 'an exception' USING DETAIL = 'a detail', HINT = 'a hint', ERRCODE = 'TW001', COLUMN = 'a column',
    CONSTRAINT = 'a constraint', DATATYPE = 'a type', TABLE = 'a table', SCHEMA = 'a schema';
END $$;
"""
