SELECT id, name AS who FROM people; --: who > 'B' AND id < 5
SELECT team, count(*) AS n FROM people GROUP BY team; --: n > 1
SELECT id FROM people ORDER BY id LIMIT 3; --: id <> 2
