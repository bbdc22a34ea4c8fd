SELECT id, nullif(x, 0.5) FROM t
SELECT id, nullif(x, 0.5) / 2 FROM t WHERE id < 3
SELECT id, nullif(x, 0), nullif(x, 2) + 1 FROM t WHERE id < 6
SELECT id, nullif(x, n), nullif(n, x), nullif(n, 1) FROM t
SELECT id, nullif(x::int8, x), nullif(x, x::int8), nullif(x::int2, 1) FROM t WHERE id < 6
SELECT id, nullif(v, 'ab'), nullif(t, v), nullif(v, t), nullif(t, c) FROM t
SELECT id, x + -2147483648 FROM t WHERE x > 0
SELECT id, x + -2147483648 FROM t WHERE x <= 0
SELECT id, x - 2147483648, x + 2147483647 FROM t WHERE x < 1
SELECT id, -2147483648, -(2147483648), - 2147483648, -2147483649, -9223372036854775808, 9223372036854775807 FROM t
SELECT id, x + (-2147483648) FROM t WHERE x = 0
SELECT id, -9223372036854775809, 9223372036854775808 FROM t
SELECT sum(-2147483648) FROM t
SELECT id, CASE WHEN a THEN -2147483648 ELSE x END FROM t
SELECT id, coalesce(x, -2147483648), greatest(x, -2147483648) FROM t
SELECT id FROM t WHERE x IN (-2147483648, 2147483647)
SELECT id, 1.50, 1e2, .5, 0.10 * x FROM t WHERE id < 6
SELECT id, x * 1.0, x / 2, x / 2.0, x % 2, -x FROM t WHERE id < 6
SELECT id, CASE WHEN a THEN x ELSE 0.5 END, coalesce(x, 0.5), greatest(x, 1.5) FROM t
SELECT id, CASE WHEN a THEN 1 WHEN NOT a THEN 2.50 ELSE NULL END FROM t
SELECT x FROM t UNION SELECT 0.5
SELECT x FROM t UNION ALL SELECT n FROM t
SELECT id FROM t WHERE x IN (1, 2.0, 0)
SELECT id FROM t WHERE n IN (1, 2.5, 0)
SELECT id, round(x), round(n), round(n, 1), trunc(n, 1), x::numeric(5, 1) FROM t WHERE id < 6
SELECT id, length('ä'), 'a' || x, x || 'b', 'it''s' FROM t
SELECT id, x = '1', '2' = x, n > '1.00', ts > '2024-01-01', a = 't' FROM t
SELECT id FROM t WHERE x + -2147483648 < 0
SELECT id FROM t WHERE nullif(x, 0.5) / 2 = 0.5
SELECT id, (nullif(x, 0.5) / 2)::text FROM t
SELECT count(*) FROM t WHERE nullif(x, 2.0) / 2 > 0
SELECT id FROM t WHERE x IN (-2147483648 - 1, 1)
SELECT id FROM t WHERE -2147483648 - abs(x) < 0
