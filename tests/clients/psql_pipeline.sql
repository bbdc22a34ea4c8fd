-- What only psql 18 can: named statements and pipelines of the extended protocol.
SELECT $1::int * 2 AS twice \parse twice
\bind_named twice 21 \g
\bind_named twice x \g
\close_prepared twice
\bind_named twice 21 \g
CREATE TABLE t (a int PRIMARY KEY);
\startpipeline
INSERT INTO t VALUES ($1) \bind 1 \sendpipeline
INSERT INTO t VALUES ($1) \bind 2 \sendpipeline
\flushrequest
\getresults
SELECT count(*) FROM t \bind \sendpipeline
\syncpipeline
INSERT INTO t VALUES ($1) \bind 2 \sendpipeline
SELECT 'skipped' \bind \sendpipeline
\syncpipeline
SELECT count(*) FROM t \bind \sendpipeline
\endpipeline
\startpipeline
BEGIN \bind \sendpipeline
SELECT 1/0 \bind \sendpipeline
\syncpipeline
SELECT 'aborted' \bind \sendpipeline
\syncpipeline
ROLLBACK \bind \sendpipeline
\endpipeline
SELECT * FROM t ORDER BY a;
SELECT $1, $2 \parse ''
\bind_named '' 1 2 \g
