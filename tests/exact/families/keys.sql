SELECT b, s FROM links WHERE a = ANY (ARRAY[1, 2])
SELECT b, s FROM links WHERE a IN (1, 2)
SELECT b, s FROM some_links
SELECT b, s FROM links WHERE a = 1
SELECT b, s FROM links WHERE a <> ALL (ARRAY[3])
SELECT DISTINCT ON (x) x, t FROM t ORDER BY x, id
SELECT x, t FROM tops WHERE x < 0
SELECT ctid FROM k WHERE tid = 99
SELECT FROM t WHERE a
