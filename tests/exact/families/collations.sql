SELECT id, coalesce(nick, name) < 'b' FROM t
SELECT id, coalesce(name, nick) < 'b' FROM t
SELECT id, CASE WHEN a THEN nick ELSE name END < 'b' FROM t
SELECT id, lower(coalesce(nick, name)) FROM t
SELECT id, upper(coalesce(name, nick)), upper(CASE WHEN a THEN nick ELSE name END) FROM t
SELECT id, lower(name), upper(nick) FROM t
SELECT lower(s.w) FROM (SELECT nick AS w FROM t UNION SELECT name FROM t) s
SELECT s.w FROM (SELECT nick AS w FROM t UNION ALL SELECT name FROM t) s ORDER BY s.w
SELECT max(coalesce(nick, name)) FROM t
SELECT id, nick || name, upper(nick || name) FROM t
SELECT id, nick = name, nick < name FROM t
SELECT id, greatest(nick, name) FROM t
SELECT id FROM t WHERE name ILIKE 'ä%' OR nick ILIKE 'ä%'
SELECT id FROM t WHERE coalesce(nick, name) ILIKE 'Ä%'
SELECT id FROM t WHERE nick IN (name, 'a')
SELECT id FROM t WHERE nick IN (SELECT name FROM t)
SELECT id FROM two WHERE one < other
SELECT id, coalesce(one, other) FROM two
SELECT id FROM two WHERE coalesce(one, other) < 'b'
SELECT w FROM (SELECT one AS w FROM two UNION SELECT other FROM two) s WHERE w < 'b'
SELECT w FROM (SELECT one AS w FROM two UNION ALL SELECT other FROM two) s ORDER BY w
SELECT id, CASE WHEN id > 2 THEN one ELSE other END FROM two
SELECT max(coalesce(one, other)) FROM two
SELECT id, one COLLATE "POSIX" < other, one || other FROM two
SELECT id, coalesce(one, plain) < 'b', coalesce(plain, one) < 'b', plain < 'b' FROM two
SELECT id, nullif(one, other) FROM two
SELECT id FROM two ORDER BY one, other
SELECT id, lower(one), upper(plain), one LIKE 'a%' FROM two
SELECT t.id, two.id FROM t JOIN two ON t.nick = two.one
SELECT t.id, two.id FROM t JOIN two ON t.name = two.one
SELECT one FROM two INTERSECT SELECT name FROM t
