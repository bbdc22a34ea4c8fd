SELECT count(p / q) FROM z
SELECT count(p / q) FROM z WHERE id <> 2
SELECT id FROM z WHERE p / q IS NOT NULL
SELECT id FROM z WHERE p / q IS NULL
SELECT id, CASE WHEN p / q IS NULL THEN 'none' ELSE 'some' END FROM z
SELECT id, p / q FROM z
SELECT id, p / q FROM z WHERE q <> 0
SELECT id, p / nullif(q, 0), round(p / nullif(q, 0), 2) FROM z
SELECT id, q / 0 IS NULL FROM z
SELECT count(id / q) FROM z
SELECT id FROM z WHERE id / q IS NOT NULL
SELECT id FROM z WHERE id / q > 0
SELECT count(*) FROM (SELECT id / q AS r FROM z) s
SELECT s.id FROM (SELECT id, id / q AS r FROM z) s
SELECT s.id FROM (SELECT DISTINCT id, id / q AS r FROM z) s
SELECT s.id FROM (SELECT id, p / q AS r FROM z UNION ALL SELECT id, 1 FROM z) s
SELECT s.id FROM (SELECT id, id / q AS r FROM z UNION SELECT id, 1 FROM z) s
WITH w AS MATERIALIZED (SELECT id, id / q AS r FROM z) SELECT id FROM w
WITH w AS MATERIALIZED (SELECT id, p / q AS r FROM z) SELECT count(*) FROM w
WITH w AS (SELECT id, id / q AS r FROM z) SELECT a.id FROM w a JOIN w b USING (id)
SELECT id FROM z WHERE EXISTS (SELECT 1 / q FROM z)
SELECT coalesce(id / q, 1) FROM z
SELECT coalesce(1, id / q) FROM z
SELECT id, id / q FROM z ORDER BY id LIMIT 1
SELECT id, p / q FROM z ORDER BY id LIMIT 1
SELECT id FROM z ORDER BY id / q LIMIT 1
SELECT id, x * 2 FROM t ORDER BY id LIMIT 2
SELECT x + 1 IS NULL FROM t
SELECT count(x + 1) FROM t
SELECT id, t::date FROM t WHERE id = 3
SELECT t::date IS NULL FROM t WHERE id = 3
SELECT '0000-01-01'::text::date FROM t
SELECT id, t::int FROM t WHERE id = 1
SELECT count(t::int) FROM t
SELECT id FROM t WHERE t::int IS NULL
SELECT id, sum(p / q) OVER () FROM z
SELECT sum(q / q) FROM z
SELECT max(q) FROM z HAVING max(1 / q) IS NOT NULL
SELECT id, (id % q) IS NULL, mod(id, q) IS NULL FROM z
SELECT id, f8 / f8 IS NULL FROM t
SELECT id, substring(t, 1, x) IS NULL FROM t
SELECT a.id FROM z a LEFT JOIN (SELECT id, id / q AS r FROM z) b ON a.id = b.id
SELECT id, split_part(t, 'a', x) IS NULL FROM t
