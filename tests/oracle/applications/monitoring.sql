--: schema
CREATE TABLE hosts (
    id integer PRIMARY KEY,
    name text NOT NULL,
    region text NOT NULL,
    address inet,
    cores smallint NOT NULL,
    memory_bytes bigint NOT NULL,
    labels text[] NOT NULL DEFAULT '{}',
    retired boolean NOT NULL DEFAULT false
);
CREATE TABLE checks (id integer PRIMARY KEY, host_id integer NOT NULL REFERENCES hosts, kind text NOT NULL, every interval NOT NULL DEFAULT '1 minute', threshold double precision NOT NULL);
CREATE TABLE samples (check_id integer NOT NULL, at timestamptz NOT NULL, value double precision, PRIMARY KEY (check_id, at));
CREATE TABLE incidents (
    id bigint PRIMARY KEY,
    host_id integer NOT NULL REFERENCES hosts,
    severity smallint NOT NULL,
    title text NOT NULL,
    opened_at timestamp NOT NULL,
    closed_at timestamp,
    acknowledged_by text,
    details jsonb
);
CREATE TABLE deployments (id integer PRIMARY KEY, service text NOT NULL, version text NOT NULL, region text NOT NULL, at timestamp NOT NULL, ok boolean);
CREATE TABLE log_lines (at timestamptz NOT NULL, host_id integer NOT NULL, level text NOT NULL, line text NOT NULL);

--: data
INSERT INTO hosts SELECT n, 'host-' || lpad(n::text, 2, '0'), (ARRAY['eu-west', 'us-east', 'ap-south'])[1 + n % 3], ('10.0.' || n % 4 || '.' || n)::inet,
    (ARRAY[2, 4, 8, 16])[1 + n % 4], (4 + n % 4 * 4) * 1073741824::bigint, ARRAY['rack' || n % 5, CASE WHEN n % 2 = 0 THEN 'db' ELSE 'web' END], n % 12 = 0 FROM generate_series(1, 30) n;
INSERT INTO checks SELECT n, 1 + n % 30, (ARRAY['cpu', 'memory', 'disk', 'latency'])[1 + n % 4], make_interval(secs => 30 * (1 + n % 3)), 50 + n % 40 FROM generate_series(1, 60) n;
INSERT INTO samples SELECT c, timestamptz '2026-11-16 06:00:00+00' + t * interval '5 minutes', CASE WHEN (c + t) % 19 > 0 THEN ((c * 37 + t * 101) % 1000) / 10.0 END
    FROM generate_series(1, 60) c, generate_series(0, 9) t;
INSERT INTO incidents SELECT n, 1 + n * 3 % 30, 1 + n % 4, (ARRAY['Disk full', 'CPU high', 'no answer', 'Latency'])[1 + n % 4] || ' on ' || n, timestamp '2026-11-01 00:00:00' + n * interval '5 hours 20 minutes',
    CASE WHEN n % 3 > 0 THEN timestamp '2026-11-01 00:00:00' + n * interval '5 hours 20 minutes' + (n % 50) * interval '9 minutes' END, CASE WHEN n % 2 = 0 THEN 'op' || n % 4 END,
    jsonb_build_object('runbook', 'rb-' || n % 6) FROM generate_series(1, 70) n;
INSERT INTO deployments SELECT n, (ARRAY['api', 'web', 'jobs'])[1 + n % 3], '1.' || n / 3 || '.' || n % 3, (ARRAY['eu-west', 'us-east'])[1 + n % 2], timestamp '2026-10-20 09:00:00' + n * interval '13 hours', CASE WHEN n % 10 > 0 THEN n % 7 > 0 END
    FROM generate_series(1, 45) n;
INSERT INTO log_lines SELECT timestamptz '2026-11-16 06:00:00+00' + n * interval '20 seconds', 1 + n % 30, (ARRAY['info', 'warning', 'warning', 'error'])[1 + n % 4],
    (ARRAY['GET /health 200', 'POST /orders 500 in 1200ms', 'retry', 'GET /health 200'])[1 + n % 4] FROM generate_series(1, 150) n;

--: change samples and log lines come in
INSERT INTO samples SELECT c, '2026-11-16 06:50:00+00', c * 1.5 FROM generate_series(1, 60, 2) c;
INSERT INTO log_lines VALUES ('2026-11-16 07:00:00+00', 3, 'error', 'disk /dev/sda1 98%'), ('2026-11-16 07:00:00+00', 3, 'error', 'disk /dev/sda1 98%');
--: change an incident opens, another closes
INSERT INTO incidents VALUES (71, 3, 1, 'Disk full on 71', '2026-11-16 07:00:10', NULL, NULL, '{"runbook": "rb-1"}');
UPDATE incidents SET closed_at = '2026-11-16 07:01:00', acknowledged_by = 'op9' WHERE id IN (3, 6);
--: change a host retires and another comes
UPDATE hosts SET retired = true WHERE id = 5;
INSERT INTO hosts VALUES (31, 'host-31', 'eu-west', '10.0.9.31', 32, 68719476736, '{rack9}', false), (32, 'host-32', 'us-east', NULL, 2, 4294967296, '{rack9,db}', false);
INSERT INTO checks VALUES (61, 31, 'cpu', '30 seconds', 80);
--: change a deployment fails, thresholds move, old log lines go
INSERT INTO deployments VALUES (46, 'api', '1.16.0', 'eu-west', '2026-11-16 07:05:00', false);
UPDATE deployments SET ok = false WHERE id = 44;
UPDATE checks SET threshold = threshold + 5 WHERE kind = 'cpu';
DELETE FROM log_lines WHERE at < '2026-11-16 06:10:00+00';

--: query open incidents
SELECT i.id, i.severity, i.title, h.name AS host, i.opened_at FROM incidents i JOIN hosts h ON h.id = i.host_id
WHERE i.closed_at IS NULL ORDER BY i.severity, i.opened_at, i.id;
--: query incidents nobody took
SELECT id, title, opened_at FROM incidents WHERE closed_at IS NULL AND acknowledged_by IS NULL AND severity <= 2;
--: query latest sample of each check
SELECT s.check_id, s.at, s.value FROM samples s
JOIN (SELECT check_id, max(at) AS at FROM samples GROUP BY check_id) latest ON latest.check_id = s.check_id AND latest.at = s.at;
--: query checks over their threshold ($1=2026-11-16 06:45:00+00)
SELECT c.id, h.name, c.kind, s.value, c.threshold FROM checks c JOIN hosts h ON h.id = c.host_id JOIN samples s ON s.check_id = c.id
WHERE s.at >= $1 AND s.value > c.threshold AND NOT h.retired;
--: query average by host
SELECT h.name, c.kind, avg(s.value) AS average, max(s.value) AS peak FROM samples s JOIN checks c ON c.id = s.check_id JOIN hosts h ON h.id = c.host_id GROUP BY h.name, c.kind;
--: query hosts by region
SELECT region, count(*) AS hosts, sum(cores) AS cores, sum(memory_bytes) / 1073741824 AS gib FROM hosts WHERE NOT retired GROUP BY region;
--: query error lines by host
SELECT h.name, count(*) AS errors FROM log_lines l JOIN hosts h ON h.id = l.host_id WHERE l.level = 'error' GROUP BY h.name HAVING count(*) > 1;
--: query lines by minute and level
SELECT date_trunc('minute', at) AS minute, level, count(*) AS lines FROM log_lines GROUP BY 1, 2;
--: query slow requests
SELECT at, host_id, line FROM log_lines WHERE line LIKE 'POST %' AND level <> 'info';
--: query latest deployment of each service
SELECT service, region, version, at FROM (
    SELECT d.*, row_number() OVER (PARTITION BY service, region ORDER BY at DESC, id DESC) AS n FROM deployments d WHERE ok) latest WHERE n = 1;
--: query failures before and after ($1=api)
SELECT id, version, at, ok, lag(version) OVER (ORDER BY at, id) AS previous FROM deployments WHERE service = $1 ORDER BY at, id;
--: query hosts without a check
SELECT h.id, h.name FROM hosts h LEFT JOIN checks c ON c.host_id = h.id WHERE c.id IS NULL AND NOT h.retired;
--: query incidents by severity and week
SELECT date_trunc('week', opened_at) AS week, severity, count(*) AS opened, count(closed_at) AS closed FROM incidents GROUP BY week, severity ORDER BY week, severity;
--: query hosts with a label ($1=db)
SELECT id, name, labels FROM hosts WHERE $1 = ANY (labels);
--: query incidents of a runbook
SELECT id, title, details ->> 'runbook' AS runbook FROM incidents WHERE details ->> 'runbook' = 'rb-1' AND closed_at IS NULL;
