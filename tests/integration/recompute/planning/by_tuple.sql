SELECT name FROM people WHERE id IN (SELECT a FROM links WHERE b = $1); --: 2 | 3 | NULL
SELECT id FROM people WHERE id < $1 UNION SELECT a FROM links WHERE b = $2; --: 3, 3 | 0, 4
WITH x AS (SELECT * FROM people WHERE team = $1) SELECT count(*) FROM x; --: 1 | 5
SELECT id FROM people ORDER BY id LIMIT $1; --: 2 | 0
