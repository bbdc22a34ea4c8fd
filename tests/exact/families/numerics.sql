SELECT sum(CASE WHEN paid THEN amt ELSE 0 END) FROM sums
SELECT paid, sum(CASE WHEN paid THEN amt ELSE 0 END) FROM sums GROUP BY paid
SELECT sum(CASE WHEN paid THEN amt END), avg(CASE WHEN paid THEN amt ELSE alt END) FROM sums
SELECT sum(coalesce(amt, alt)) FROM sums
SELECT paid, sum(coalesce(amt, alt)), avg(coalesce(amt, alt)) FROM sums GROUP BY paid
SELECT sum(amt + free) FROM sums
SELECT id, sum(amt + free) OVER (ORDER BY id) FROM sums
SELECT id, sum(amt * free) OVER (ORDER BY id) FROM sums
SELECT paid, sum(amt + free), avg(amt - free) FROM sums GROUP BY paid
SELECT id, sum(CASE WHEN paid THEN amt ELSE 0 END) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM sums
SELECT id, avg(coalesce(amt, alt)) OVER (ORDER BY id) FROM sums
SELECT sum(free), avg(free), count(free) FROM sums
SELECT paid, sum(free) FROM sums GROUP BY paid
SELECT sum(free) FILTER (WHERE paid), sum(amt + free) FILTER (WHERE NOT paid) FROM sums
SELECT sum(alt + free) FROM sums WHERE amt IS NULL
SELECT sum(nullif(free, 1)) FROM sums
SELECT sum(- free), sum(abs(free)) FROM sums
SELECT avg(DISTINCT n), sum(DISTINCT n), count(DISTINCT n) FROM t
SELECT a, sum(DISTINCT n) FROM t GROUP BY a
SELECT sum(DISTINCT amt), avg(DISTINCT amt) FROM sums
SELECT sum(DISTINCT coalesce(amt, alt)) FROM sums
SELECT sum(DISTINCT amt + 0.0) FROM sums
SELECT sum(DISTINCT x), avg(DISTINCT x) FROM t WHERE id < 6
SELECT max(n), min(n) FROM t
SELECT greatest(n, 1.000) FROM t
SELECT n FROM t UNION SELECT free FROM sums
SELECT n, count(*) FROM t GROUP BY n
SELECT coalesce(free, amt, 0), free + amt, amt * alt, free - 1 FROM sums
