SELECT id FROM t WHERE c = v
SELECT id FROM t WHERE c <> v
SELECT id FROM t WHERE c < v
SELECT id, c >= v FROM t
SELECT id FROM t WHERE c = t
SELECT id, c < t FROM t
SELECT id, c = 'ab   ', c = 'ab' FROM t
SELECT a.id, b.id FROM t a JOIN t b ON a.c = b.v
SELECT a.id, b.id FROM t a JOIN t b ON a.c = b.t
SELECT a.id, b.id FROM t a LEFT JOIN t b ON a.c = b.c
SELECT id FROM t WHERE c IN (SELECT v FROM t)
SELECT id FROM t WHERE c IN (SELECT z FROM u)
SELECT id FROM t WHERE v IN (SELECT c FROM t)
SELECT id FROM t WHERE t IN (SELECT c FROM t)
SELECT id FROM t WHERE c = ANY (ARRAY['ab ', 'x'])
SELECT id FROM t WHERE c = ANY (ARRAY['ab', 'x'])
SELECT id FROM t WHERE c IN ('ab ', 'x')
SELECT id FROM t WHERE c IN (v, t)
SELECT id FROM t WHERE c IN (v, 'x')
SELECT id FROM t WHERE v IN (c, 'x')
SELECT id FROM t WHERE c NOT IN ('ab ', 'x  ')
SELECT id FROM t WHERE v = 'ab ' OR t = 'ab '
SELECT id, CASE c WHEN v THEN 1 WHEN 'ab' THEN 2 ELSE 3 END FROM t
SELECT id, CASE v WHEN c THEN 1 ELSE 3 END FROM t
SELECT id, c IS DISTINCT FROM v, c IS NOT DISTINCT FROM t FROM t
SELECT id, c BETWEEN 'a' AND v FROM t
SELECT id, nullif(c, v), nullif(v, c), nullif(c, 'ab') FROM t
SELECT id, octet_length(c), length(c), octet_length(v), char_length(c) FROM t
SELECT id, coalesce(c, v), coalesce(v, c), coalesce(t, c) FROM t
SELECT id, CASE WHEN a THEN c ELSE v END FROM t
SELECT id FROM t WHERE coalesce(c, v) = t
SELECT id, c || 'x', v || c, concat(c, v), c LIKE 'ab%', c LIKE 'ab   ' FROM t
SELECT greatest(c, v), least(c, t) FROM t
SELECT max(c), min(c) FROM t
SELECT c FROM t UNION SELECT v FROM t
SELECT c FROM t UNION ALL SELECT t FROM t
SELECT v FROM t INTERSECT SELECT c FROM t
SELECT DISTINCT c FROM t
SELECT c, count(*) FROM t GROUP BY c
SELECT c FROM t ORDER BY c, id
SELECT id, t::char(3), v::char(3) = c, c::char(2), c::text, c::varchar(3) FROM t
SELECT * FROM (VALUES ('ab'::char(4)), ('x'::char(2))) w (c) JOIN t USING (c)
SELECT id FROM t WHERE nick LIKE 'ab   '::char(5)
SELECT id FROM t WHERE c LIKE c
SELECT id FROM t WHERE t LIKE c
SELECT id, coalesce('ab' LIKE 'ab   '::char(5) ESCAPE 'X', true) FROM t
