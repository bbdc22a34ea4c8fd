SELECT id FROM t WHERE f4 IN (0.1, 0.2)
SELECT id FROM t WHERE f4 = 0.1 OR f4 = 0.2
SELECT id FROM t WHERE f4 NOT IN (0.1, 0.2)
SELECT id FROM t WHERE f4 = ANY (ARRAY[0.1, 0.2])
SELECT id FROM t WHERE f4 IN (f8, 0.2)
SELECT id FROM t WHERE f8 IN (f4, 0.2)
SELECT id FROM t WHERE f8 IN (0.1, 0.2)
SELECT id FROM t WHERE f8 IN (0, 1)
SELECT id, CASE f4 WHEN 0.1 THEN 'a' WHEN 0.2::real THEN 'b' END FROM t
SELECT id, f4 = f8, f4 < f8, f4 > 0.2, f4 >= 0.2::real FROM t
SELECT id, nullif(f4, 0.1), nullif(f4, 0.2::real) FROM t
SELECT id, coalesce(f4, 0.1), coalesce(f8, 0.1), CASE WHEN a THEN f4 ELSE 0.1 END FROM t
SELECT id, greatest(f4, f8), least(f8, 0) FROM t
SELECT id, f4 + f8, f4 * 2, - f4, abs(f4) FROM t
SELECT f4 FROM t UNION ALL SELECT 0.1
SELECT f4::float8, f8, f4 FROM t
SELECT a.id, b.id FROM t a JOIN t b ON a.f4 = b.f8
SELECT id FROM t WHERE f4 IN (SELECT f8 FROM t)
