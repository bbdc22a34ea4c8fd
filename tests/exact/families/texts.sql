SELECT "Ö", "ö" FROM "Ä"
SELECT "Ö" FROM "ä"
SELECT Ö, ö FROM Ä
SELECT Ö FROM ä
SELECT x.Ö AS Ü, x.ö FROM Ä AS x JOIN ä AS y ON x.id = y.id
SELECT Ä.id FROM Ä
SELECT id AS Ä FROM t ORDER BY Ä
SELECT "Ö" AS É, "ö" AS é FROM "Ä" ORDER BY É
SELECT id FROM t WHERE t ILIKE 'axbc' ESCAPE 'x'
SELECT id FROM t WHERE t ILIKE 'aXXbc' ESCAPE 'X'
SELECT id FROM t WHERE t ILIKE 'AXxBC' ESCAPE 'X'
SELECT id FROM t WHERE t NOT ILIKE 'aXXbc' ESCAPE 'X'
SELECT id FROM t WHERE t LIKE 'aX%b' ESCAPE 'X'
SELECT id FROM t WHERE t LIKE 'a\%b'
SELECT id FROM t WHERE t ILIKE 'A\%B'
SELECT id FROM t WHERE t LIKE '%a%a%a%a%a%a%a%b'
SELECT id FROM t WHERE t LIKE v
SELECT id FROM t WHERE 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' LIKE t
SELECT id, to_char(ts, 'SSSS'), to_char(ts, 'SSSSS') FROM t
SELECT id, to_char(ts, 'DDDD'), to_char(ts, 'DDD') FROM t
SELECT id, to_char(ts, 'MISSSS'), to_char(ts, 'MISS') FROM t
SELECT id, to_char(ts, 'YYYY-MM-DD HH24:MI:SS') FROM t
SELECT id, to_char(ts, 'MMMM'), to_char(ts, 'HH24HH24'), to_char(ts, 'YYYYMMDD') FROM t
SELECT id, to_char(ts, 'DDD-SSSSS') FROM t
SELECT id, t::numeric FROM t WHERE id = 4
SELECT id, t::numeric * 2 FROM t WHERE id = 4
SELECT id, t::numeric::text, t::numeric = 1.5 FROM t WHERE id = 4
SELECT E'1.5\n'::numeric, E' 2.50 '::numeric FROM t
SELECT E'1.5\n'::text::numeric, E'3\n'::text::int, E'2024-01-01\n'::text::date FROM t
SELECT id, upper(t), lower(v), replace(t, 'a', 'b'), left(t, 2), reverse(t) FROM t
SELECT id, position('b' in t), strpos(t, 'b'), trim(t), lpad(t, 3, 'xy'), split_part(t, 'b', 1) FROM t
SELECT id, right(t, x) FROM t
SELECT id, right(t, -2147483648), right(t, 2), right(t, -1) FROM t
