SELECT max(f8), min(f8) FROM floats WHERE g = 4
SELECT g, max(f8) FROM floats WHERE g <> 1 GROUP BY g
SELECT g, min(f4) FROM floats WHERE g <> 1 GROUP BY g
SELECT max(f8), min(f8), max(f4), min(f4) FROM floats WHERE g = 3
SELECT g, max(f8) OVER (PARTITION BY g) FROM floats WHERE g > 1
SELECT max(f8) FROM t WHERE f8 > 0
SELECT min(f8), max(f4) FROM t
SELECT id, greatest(f8, 0), least(0, f8) FROM t
SELECT id, f8, f8 + 0, - f8, f8 * 1, abs(f8), f8 = 0, f8 < '-0' FROM t WHERE f8 <> 5e-324
SELECT count(DISTINCT f8) FROM t
SELECT f8, count(*) FROM t GROUP BY f8
SELECT DISTINCT f8 FROM floats
SELECT g, max(f8), min(f8), max(f4) FROM floats GROUP BY g
