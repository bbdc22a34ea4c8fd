"""Expressions over the table of edge values that Spark must answer as PostgreSQL does; with a row filter where PostgreSQL fails otherwise."""

ARITHMETIC = [
    "i + j", "i - j", "i * j", ("i / j", "id <> 3"), "i % j", "s + s", "s * s", "s - 1", "s + i", "b + i", "b * 2", "b / 3", "-i", "- s",
    "b % 7", "mod(i, j)", "i / -1", "abs(i)", "abs(s)", "abs(b)", "abs(n)", "abs(f)", "sign(i)", "sign(n)", "sign(f)", "(i + j) * 2",
    "imin % -1", "smin % -1::int2", "bmin % -1",
    "n + n", "n - m", "n * m", "n * i", "n + 1", "n * 1.5", "1.10 * n", "n + 0.001", "m * m * m", "n - n * 0.19", "z + n", "n % 3", "m % 0.7", "n / 3", ("n / m", "id <> 3"),
    "num + 1", "num * n", "num - num", "num * 2", "i / 7.0", "b / 3.0", "w / 3", "round(n / 3, 2)", "round(i / 3.0, 4)", "round(n / 7)", "-n", "-num",
    "n * s", "n * b", "s * 2.5", "i * 0.1",
    "round(n)", "round(n, 1)", "round(n, 0)", "round(m, 2)", "round(m, 5)", "round(n, -1)", "round(n, -3)", "round(num, 1)", "round(num, 3)", "round(num)", "round(i, -1)", "round(i)", "round(f)",
    "trunc(n)", "trunc(n, 1)", "trunc(m, 2)", "trunc(n, -1)", "trunc(num, 2)", "ceil(n)", "floor(n)", "ceil(m)", "floor(m)", "ceiling(num)", "floor(num)", "ceil(i)", "floor(i)",
    "f + 1", "f * 2", "f - g", "g + g", "g * 2.5::float4", "f / 3", "f * f", "-f", "-g", "f + n", "f * i", "g + i", "abs(g)",
    "1 + 1", "2147483647 + 0", "2147483648", "9223372036854775807", "9223372036854775808", "1.50", "1e3", "1.5e-3", ".5", "7 / 2", "-7 / 2", "7 % -3", "7.5 / 2",
]

COMPARISONS = [
    f"{a} {o} {b}"
    for a, b in (
        ("i", "j"), ("s", "b"), ("n", "m"), ("n", "i"), ("n", "12.5"), ("num", "n"), ("num", "10.5"), ("w", "n"), ("f", "1.5"), ("f", "g"), ("f", "fx"), ("f", "n"), ("g", "2.5"),
        ("t", "u"), ("t", "'abc'"), ("v", "t"), ("v", "'abc'"), ("c", "'abc'"), ("c", "t"), ("bo", "true"), ("d", "e"), ("d", "'2020-02-29'"), ("d", "dx"), ("ts", "tt"), ("ts", "tx"), ("ts", "d"), ("tz", "ty"),
        ("tz", "d"), ("tz", "ts"), ("k", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"), ("bmin", "0"), ("imin", "bmin"), ("b", "10"), ("s", "1"),
    )
    for o in ("=", "<>", "<", "<=", ">", ">=")
] + [
    f"{a} {o} {b}"
    for a, b in (("l", "'abc'"), ("en", "'ok'"), ("en", "en"), ("l", "l"), ("en", "'ok'::mood"))
    for o in ("=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
] + [
    "i IS DISTINCT FROM j", "n IS NOT DISTINCT FROM 12.5", "t IS DISTINCT FROM NULL", "i IS NULL", "i IS NOT NULL", "bo IS TRUE", "bo IS NOT TRUE", "bo IS FALSE", "bo IS NOT FALSE", "bo IS UNKNOWN", "bo IS NOT UNKNOWN",
    "NOT bo", "bo AND i > 0", "bo OR i > 0", "bo AND NULL", "bo OR NULL", "NOT (i > 0)", "i IN (1, 7, 0)", "i NOT IN (1, 7)", "i IN (7, NULL)", "t IN ('abc', '')", "n IN (12.50, 0)", "n IN (0.05, -12.55)", "en IN ('ok', 'sad')", "en NOT IN ('ok')",
    "d IN ('2020-02-29', '1999-12-31')", "k IN ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')", "i BETWEEN 0 AND 10", "i NOT BETWEEN 0 AND 10", "n BETWEEN -1 AND 12.5", "d BETWEEN '2000-01-01' AND '2024-12-31'", "t BETWEEN 'a' AND 'b'",
    "i = ANY (ARRAY[1, 7])", "t = ANY (ARRAY['abc'::text, 'x'::text])", "(v)::text = ANY ((ARRAY['abc'::character varying, 'ABC'::character varying])::text[])", "(i, j) = (7, 2)", "(i, t) <> (7, 'abc')",
    "na = 'abc'", "na = t", "na = 'abc'::name", "t = 'abc'::name", "na < 'b'", "na <> v",
    "f = 'NaN'", "i = '7'", "bo = 'true'", "l || 'x' = 'abcx'", "i > 1.5", "b > 2.5", "1 < 2", "'a' = 'b'", "NULL = 1", "i = NULL", "k < '20000000-0000-0000-0000-000000000000'", "t COLLATE \"C\" < 'b'", "l COLLATE \"C\" < 'b'", "l COLLATE \"C\" > u",
    "tz > '2021-01-01 00:00:00+00'", "ts >= '2020-01-01'", "ts < '2020-02-29 12:34:56.789012'", "tz >= now()", "tz < current_timestamp", "d < current_date", "ts < localtimestamp",
]

CASES = [
    "CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' ELSE 'zero' END", "CASE i WHEN 7 THEN 1 WHEN 0 THEN 2 END", "CASE WHEN bo THEN n ELSE 0 END", "CASE WHEN bo THEN n ELSE m END", "CASE WHEN bo THEN i ELSE n END", "CASE WHEN bo THEN n END",
    "CASE WHEN bo THEN t ELSE v END", "CASE WHEN bo THEN v ELSE 'x' END", "CASE WHEN bo THEN v ELSE v END", "CASE WHEN bo THEN s ELSE b END", "CASE WHEN bo THEN f ELSE i END", "CASE WHEN bo THEN d ELSE ts END", "CASE WHEN bo THEN NULL ELSE 1 END",
    "CASE WHEN bo THEN num ELSE 0 END", "CASE t WHEN 'abc' THEN 'A' ELSE t END", "CASE WHEN bo THEN n / 3 ELSE 0 END",
    "coalesce(i, 0)", "coalesce(n, 0)", "coalesce(n, 0.000)", "coalesce(n, m, 1)", "coalesce(t, 'none')", "coalesce(v, 'none')", "coalesce(v, t)", "coalesce(t, v)", "coalesce(bo, false)", "coalesce(d, '2000-01-01')", "coalesce(s, b)", "coalesce(i, 1.5)",
    "coalesce(num, 0)", "coalesce(num, n)", "coalesce(n, 0) + 1", "coalesce(n, 0) - n", "coalesce(n, 0) * 2", "coalesce(n, 0) > 1", "coalesce(f, 0)", "coalesce(NULL, i)", "coalesce(en, 'ok')", "coalesce(k, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')", "coalesce(ts, '2000-01-01 00:00:00')", "coalesce(c, 'x')",
    "round(coalesce(n, 0), 1)", "abs(coalesce(n, 0))", "-coalesce(n, 0)",
    "nullif(i, 7)", "nullif(t, '')", "nullif(v, '')", "nullif(n, 0)", "nullif(s, 0)", "nullif(d, e)", "nullif(n, 12.5)", "nullif(bo, true)", "nullif(num, 0)", "nullif(en, 'ok')",
    "greatest(i, j)", "greatest(i, j, 5)", "least(i, j)", "least(n, m)", "greatest(n, 1.55)", "greatest(t, u)", "least(t, 'b')", "greatest(d, e)", "greatest(f, 1)", "least(f, fx)", "greatest(s, b)", "greatest(i)", "greatest(ts, tt)", "least(i, NULL)", "greatest(k, k)",
    "'text'", "NULL", "true", "i", "s", "b", "n", "m", "w", "num", "f", "g", "fx", "t", "v", "c", "l", "bo", "d", "dx", "ts", "tx", "tz", "k", "en", "bmin", "imin", "smin",
]

CASTS = [
    "n::int", "m::int", "n::int8", "m::int2", "(n * 10)::int", "num::int", ("f::int", "f <> 'NaN'"), ("g::int", "g <> 'NaN'"), "i::numeric", "i::numeric(12,2)", "n::numeric(10,1)", "n::numeric(12,4)", "m::numeric", "n::numeric", "num::numeric(10,2)", "num::numeric(8)",
    "i::text", "n::text", "num::text", "bo::text", "b::text", "k::text", "en::text", "v::text", "c::text", "t::varchar", "t::varchar(3)", "t::char(3)", "c::varchar", "v::varchar(2)", "t::char", "i::varchar", "i::varchar(2)", "i::char(4)", "c::char(2)", "c::bpchar",
    "i::float8", "n::float8", "b::float8", "s::int4", "s::int8", "i::int8", ("b::int4", "id <> 5"), ("i::int2", "id <> 5"), "bo::int", "i::bool", "g::float8", "num::float8", "i::float4", "(i > 0)::int",
    "'12'::int", "'12.50'::numeric(10,1)", "'12.50'::numeric", "'abc'::text", "'abc'::varchar(2)", "'t'::bool", "date '2020-02-29'", "'2020-02-29'::date", "timestamp '2020-02-29 10:00:00'", "timestamptz '2020-02-29 10:00:00+02'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid",
    "(i::text)::int", "(n::text)::numeric", "(i::text || '.5')::numeric", "(d::timestamp)", "d::timestamptz", "ts::date", "tz::date", "ts::timestamptz", "tz::timestamp", "tx::date", ("dx::timestamp", "id <> 5"), ("(i::text || '')::int8", "true"), ("('2020-01-0' || abs(s))::date", "s IN (1, 2, 5)"), "CAST(n AS integer)", "na::text", "'abc'::name",
    "(bo::text)::bool", "(i % 2)::bool", "cast('1' as int2)", "NULL::int", "NULL::text", "NULL::numeric(10,2)", "NULL::date",
]

TEXTS = [
    "length(t)", "length(v)", "length(c)", "char_length(t)", "octet_length(t)", "lower(t)", "upper(t)", "lower(v)", "upper(v)", "t || u", "t || 'x'", "'x' || t", "t || i", "i || t", "t || n", "t || bo", "v || c", "c || 'x'", "t || NULL", "'a' || 'b'", "t || ' ' || u", "t || k",
    "concat(t, u)", "concat(t, i, n, bo)", "concat(c, v)", "concat(t, NULL)", "concat_ws(',', t, u)", "concat_ws(', ', t, i, bo, en)", "concat_ws(u, t, v)", "concat('a')", "concat(k)",
    "substring(t, 2)", "substring(t from 2 for 2)", "substring(t, 0)", "substring(t, -1)", "substring(t, 0, 2)", "substring(t, -1, 3)", "substring(t, -5, 3)", "substring(t, 2, 0)", "substr(t, 2, 100)", "substr(t, 3)", "substring(t, 2, 2147483647)", "substring(t for 2)", "substring(t, i, 2)", "substring(t, 1, abs(i))", "substring(v, 2)",
    "left(t, 2)", "left(t, 0)", "left(t, -1)", "left(t, -100)", "right(t, 2)", "right(t, 0)", "right(t, -1)", "right(t, -100)", "left(t, 100)", "right(t, 100)", "left(t, s)", "right(v, 1)",
    "lpad(t, 6)", "lpad(t, 6, 'xy')", "rpad(t, 6)", "rpad(t, 6, 'xy')", "lpad(t, 2, 'x')", "rpad(t, 2, 'x')", "lpad(t, 0, 'x')", "lpad(t, -1, 'x')", "lpad(t, 10, '')", "rpad(t, 10, '')", "lpad(t, 8, '😀é')", "rpad(t, 8, '😀é')", "lpad(i::text, 5, '0')", "lpad('', 3, 'ab')",
    "trim(t)", "trim(v)", "btrim(t)", "ltrim(t)", "rtrim(t)", "trim(both 'xy' from v)", "trim(leading 'xy' from v)", "trim(trailing 'xy' from v)", "btrim(v, 'xy')", "ltrim(v, 'xy')", "rtrim(v, 'xy')", "btrim(t, '😀x')", "btrim(t, '')", "ltrim(t, 'Äa ')", "trim(c)", "btrim(t, u)", "trim(E'a\\n')" if False else "trim(' a ')", "btrim(t, 'a-c')", "btrim(v, '^x]')",
    "replace(t, 'b', 'XX')", "replace(t, '', 'x')", "replace(t, u, '-')", "replace(t, 'b', '')", "replace(v, '%', '$1\\')", "strpos(t, 'b')", "strpos(t, '')", "strpos(t, u)", "strpos(t, '😀')", "position('b' in t)", "position('' in t)", "position(u in t)",
    "split_part(t, ',', 1)", "split_part(t, ',', 2)", "split_part(t, ',', 3)", "split_part(t, ',', -1)", "split_part(t, ',', -2)", "split_part(t, ',', 10)", "split_part(t, ',', -10)", "split_part(t, '', 1)", "split_part(t, '', 2)", "split_part(t, 'b', 1)", "split_part(t, u, 1)", "split_part(v, 'x', 2)", "split_part(t, '.', 1)", "split_part(t, '', -1)",
    "repeat(t, 2)", "repeat(t, 0)", "repeat(t, -1)", "repeat(t, s)", "reverse(t)", "md5(t)", "translate(t, 'abc', 'xy')", "translate(t, 'aa', 'xy')", "translate(t, '', 'x')", "translate(t, 'Ä😀', '😀')", "starts_with(t, 'a')", "starts_with(t, '')", "starts_with(t, u)",
    "t LIKE 'a%'", "t LIKE '%b%'", "t LIKE '_bc'", "t LIKE ''", "t LIKE '%'", "t LIKE '%\\n%'" if False else "t LIKE '%e_T%'", "v LIKE '%\\%%'", "v LIKE '%\\_%'", "v LIKE '%\\\\%'", "v LIKE 'a!_b%' ESCAPE '!'", "t NOT LIKE 'a%'", "t LIKE u", "t LIKE u || '%'", "t ILIKE 'ABC'", "t ILIKE 'a%'", "t NOT ILIKE 'a%'", "t ILIKE u", "c LIKE 'abc'", "c LIKE 'abc%'", "c LIKE 'abc  '", "l LIKE '%b%'", "t LIKE '____x'", "v ILIKE 'xyx%'", "t LIKE 'line%'", "t LIKE '[a]%'", "t LIKE '%.%'", "v LIKE '%(%'", "t LIKE NULL", "'abc' LIKE 'a%'", "t ILIKE '%LINE%'", "t LIKE '%Two'",
    "lower(t) = lower(u)", "upper(left(t, 1)) || lower(substring(t, 2))", "length(trim(t)) > 2", "l || i", "length(l)", "left(l, 2)", "replace(l, 'b', 'x')", "concat(l, i)", "coalesce(l, 'x')", "trim(l)",
]

TIMES = [
    "d + 1", "d - 1", "d + i % 100", "1 + d", "d - e", "e - d", "current_date - d", "d + s", "dx + 0", "d - date '2000-01-01'", "d - '2000-01-01'", "current_date", "now()", "current_timestamp", "localtimestamp", "current_date + 30", "transaction_timestamp()", "now()::date",
    *(f"extract({f} from {x})" for f in ("year", "month", "day", "quarter", "dow", "isodow", "doy", "week", "epoch") for x in ("d", "ts", "tz", "tt", "e")),
    *(f"extract({f} from {x})" for f in ("hour", "minute", "second") for x in ("ts", "tz", "tt")),
    *(f"date_part('{f}', {x})" for f in ("year", "month", "day", "quarter", "dow", "isodow", "doy", "week") for x in ("d", "ts", "tz")),
    *(f"date_part('{f}', {x})" for f in ("hour", "minute") for x in ("ts", "tz")),
    *(f"date_trunc('{f}', {x})" for f in ("microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year") for x in ("ts", "tz", "tt")),
    *(f"date_trunc('{f}', {x})" for f in ("day", "week", "month", "year") for x in ("d", "e", "dx")if not (x == "dx")),
    "date_trunc('day', tx)" if False else "date_trunc('MONTH', ts)", "date_trunc('month', d)::date", "extract(year from d)::int", "extract(epoch from ts - tt)", "extract(epoch from (tz - ty)) / 60", "extract(epoch from tz)::int8", "extract(hour from ts) + 1", "extract(dow from d) IN (0, 6)", "extract(year from ts) = 2020",
    *(f"{x} {o} interval '{i}'" for x in ("ts", "tz", "d", "tt") for o in "+-" for i in ("1 day", "1 month", "3 months", "1 year", "90 minutes", "1 day 02:03:04.5", "1 week", "1 year 2 months 3 days", "-1 month", "500 milliseconds", "12:00", "1 hour")),
    "interval '1 day' + ts", "now() - interval '7 days'", "now() - interval '1 hour'", "tz > now() - interval '30 days'", "current_date - interval '1 month'", "ts + interval '1' day", "ts - '1 day'::interval", "tx + interval '0 days'",
    "ts - tt", "tz - ty", "tt - ts", "ts - ts", "ts - tt > interval '1 day'", "tz - ty < interval '36 hours'", "tz - ty >= '1 day'", "now() - tz > interval '1 day'", "tz - ty = interval '1 day'", "tz - ty BETWEEN interval '0' day AND interval '2 days'",
    "tz AT TIME ZONE 'UTC'", "ts AT TIME ZONE 'UTC'", "(tz AT TIME ZONE 'UTC')::date", "(ts - tt) IS NULL", "d = ts", "d < tz", "greatest(ts, d)", "date_trunc('hour', now())", "date_trunc('day', now()) - interval '7 days'", "tz::date = current_date", "ts::date - d",
]

GROUPS = [ARITHMETIC, COMPARISONS, CASES, CASTS, TEXTS, TIMES]
