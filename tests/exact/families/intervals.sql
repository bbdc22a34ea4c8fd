SELECT max(ts2 - ts) FROM t
SELECT min(ts2 - ts), max(ts - ts2) FROM t GROUP BY a
SELECT CASE WHEN a THEN ts2 - ts ELSE ts - ts2 END FROM t
SELECT id, CASE WHEN a THEN interval '1 day' ELSE ts2 - ts END FROM t
SELECT id, CASE WHEN a THEN interval '1 day' ELSE interval '2 days' END FROM t
SELECT id, coalesce(ts2 - ts, interval '1 hour') FROM t
SELECT id, coalesce(ts2 - ts, ts - ts2) FROM t
SELECT id, nullif(ts2 - ts, interval '0') FROM t
SELECT ts2 - ts FROM t UNION SELECT ts - ts2 FROM t
SELECT ts2 - ts FROM t UNION ALL SELECT interval '1 day'
SELECT greatest(ts2 - ts, interval '1 day') FROM t
SELECT id FROM t WHERE coalesce(ts2 - ts, interval '1 day') > interval '1 hour'
SELECT sum(ts2 - ts) FROM t
SELECT id, lag(ts2 - ts) OVER (ORDER BY id) FROM t
SELECT id, first_value(ts2 - ts) OVER (ORDER BY id) FROM t
SELECT id, (SELECT ts2 - ts FROM t AS s WHERE s.id = t.id) FROM t
SELECT count(DISTINCT ts2 - ts) FROM t
SELECT array_agg(ts2 - ts ORDER BY id) FROM t
SELECT id FROM t WHERE ts2 - ts IN (interval '1 day', interval '0')
SELECT DISTINCT ts2 - ts FROM t
SELECT ts2 - ts AS d, count(*) FROM t GROUP BY 1
SELECT id FROM t ORDER BY ts2 - ts, id
SELECT id, ts2 - ts FROM t WHERE ts2 - ts > interval '1 day'
SELECT * FROM (VALUES (1, interval '1 day'), (2, interval '25 hours')) AS w (i, d)
SELECT s.d, r.d FROM (SELECT id, ts2 - ts AS d FROM t) s FULL JOIN (SELECT id, ts - ts2 AS d FROM t) r USING (d)
