SELECT p.name, t.name FROM people p JOIN teams t ON t.id = p.team WHERE p.team = $1; --: 1 | 2 | 77 | NULL
SELECT count(*), sum(points) FROM marks WHERE person = $1; --: 1 | 2 | 77 | NULL
SELECT count(*) + $1::int, max(name) FROM people WHERE team = $1; --: 1 | 77
SELECT subject, count(*), sum(points) FROM marks WHERE person = $1 GROUP BY subject; --: 1 | 2 | 77
SELECT subject, count(*) FROM marks GROUP BY subject HAVING count(*) > $1; --: 0 | 1 | 3
SELECT DISTINCT subject FROM marks WHERE points > $1; --: 0 | 6 | 100
SELECT id, name FROM people WHERE team = $1 ORDER BY id DESC LIMIT 1; --: 1 | 2 | 3
SELECT id FROM people WHERE id > $1 ORDER BY id LIMIT 2 OFFSET 1; --: 0 | 3 | 6
SELECT id, row_number() OVER (ORDER BY id) FROM people WHERE id > $1; --: 2 | 5
SELECT t.name, p.name FROM teams t LEFT JOIN people p ON p.team = t.id AND p.height > $1 ORDER BY t.name, p.id; --: 100 | 175
SELECT t.name, count(p.id) FROM teams t LEFT JOIN people p ON p.team = t.id AND p.height > $1 GROUP BY t.name; --: 100 | 175
SELECT name FROM people WHERE team = $1 AND EXISTS (SELECT 1 FROM links WHERE a = people.id); --: 1 | 2
SELECT DISTINCT ON (team) team, name FROM people WHERE id < $1 ORDER BY team, id; --: 3 | 9
SELECT count(*) FROM people HAVING count(*) > $1; --: 1 | 100
SELECT p.name FROM people p FULL JOIN teams t ON t.id = p.team WHERE t.name = $1; --: red | empty
SELECT name FROM adults WHERE team = $1 AND name <> $2; --: 1, Ann | 2, '' | 1, NULL
