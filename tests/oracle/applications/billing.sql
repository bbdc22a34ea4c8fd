--: schema
CREATE SCHEMA billing;
CREATE TYPE billing.invoice_state AS ENUM ('draft', 'open', 'paid', 'void', 'uncollectible');
CREATE TABLE billing.accounts (
    id integer PRIMARY KEY,
    company text NOT NULL,
    currency char(3) NOT NULL DEFAULT 'EUR',
    vat_rate numeric(4, 3) NOT NULL,
    credit_limit numeric(14, 2),
    closed_on date
);
CREATE TABLE billing.plans (code text PRIMARY KEY, monthly_fee numeric(10, 2) NOT NULL, included_units integer NOT NULL, unit_price numeric(10, 4) NOT NULL);
CREATE TABLE billing.subscriptions (
    id integer PRIMARY KEY,
    account_id integer NOT NULL REFERENCES billing.accounts,
    plan_code text NOT NULL REFERENCES billing.plans,
    starts_on date NOT NULL,
    ends_on date,
    seats integer NOT NULL DEFAULT 1
);
CREATE TABLE billing.invoices (
    id bigint PRIMARY KEY,
    account_id integer NOT NULL REFERENCES billing.accounts,
    number varchar(20) NOT NULL,
    state billing.invoice_state NOT NULL,
    issued_on date NOT NULL,
    due_on date NOT NULL,
    net numeric(14, 2) NOT NULL,
    vat numeric(14, 2) NOT NULL,
    gross numeric(14, 2) GENERATED ALWAYS AS (net + vat) STORED
);
CREATE TABLE billing.payments (
    id bigint PRIMARY KEY,
    invoice_id bigint NOT NULL REFERENCES billing.invoices,
    amount numeric(14, 2) NOT NULL,
    method text NOT NULL,
    received_at timestamptz NOT NULL
);
CREATE TABLE billing.usage (account_id integer NOT NULL, day date NOT NULL, units bigint NOT NULL) PARTITION BY RANGE (day);
CREATE TABLE billing.usage_2026_09 PARTITION OF billing.usage FOR VALUES FROM ('2026-09-01') TO ('2026-10-01');
CREATE TABLE billing.usage_2026_10 PARTITION OF billing.usage FOR VALUES FROM ('2026-10-01') TO ('2026-11-01');
ALTER TABLE billing.usage_2026_09 ADD PRIMARY KEY (account_id, day);
ALTER TABLE billing.usage_2026_10 ADD PRIMARY KEY (account_id, day);
CREATE VIEW billing.open_invoices AS
    SELECT i.id, i.account_id, i.number, i.due_on, i.gross, i.gross - coalesce((SELECT sum(p.amount) FROM billing.payments p WHERE p.invoice_id = i.id), 0) AS owed
    FROM billing.invoices i WHERE i.state = 'open';

--: data
INSERT INTO billing.accounts SELECT n, 'Company ' || n, CASE WHEN n % 5 = 0 THEN 'USD' ELSE 'EUR' END, CASE WHEN n % 3 = 0 THEN 0.070 ELSE 0.190 END,
    CASE WHEN n % 4 > 0 THEN n * 1000.00 END, CASE WHEN n = 13 THEN date '2026-06-30' END FROM generate_series(1, 25) n;
INSERT INTO billing.plans VALUES ('free', 0, 100, 0), ('team', 49.00, 5000, 0.0125), ('business', 499.00, 100000, 0.0040);
INSERT INTO billing.subscriptions SELECT n, 1 + n % 25, (ARRAY['free', 'team', 'business'])[1 + n % 3], date '2025-01-15' + n * 20, CASE WHEN n % 6 = 0 THEN date '2026-08-31' + n END, 1 + n % 8
    FROM generate_series(1, 32) n;
INSERT INTO billing.invoices SELECT n, 1 + n % 25, 'R-2026-' || lpad(n::text, 4, '0'), (ARRAY['open', 'paid', 'paid', 'draft', 'void', 'open', 'uncollectible'])[1 + n % 7]::billing.invoice_state,
    date '2026-07-01' + n, date '2026-07-31' + n, (n * 37.13)::numeric(14, 2), round(n * 37.13 * 0.19, 2) FROM generate_series(1, 110) n;
INSERT INTO billing.payments SELECT n, 1 + n % 100, CASE WHEN n % 3 = 0 THEN 20.00 ELSE ((1 + n % 100) * 44.18)::numeric(14, 2) END, (ARRAY['card', 'transfer', 'debit'])[1 + n % 3],
    timestamptz '2026-08-01 07:30:00+00' + n * interval '17 hours' FROM generate_series(1, 90) n;
INSERT INTO billing.usage SELECT a, date '2026-09-01' + d, (a * 131 + d * 977) % 4000 FROM generate_series(1, 25) a, generate_series(0, 60, 3) d WHERE (a + d) % 4 > 0;

--: change an invoice is paid in two parts
INSERT INTO billing.payments VALUES (300, 7, 100.00, 'card', '2026-11-02 09:00:00+00'), (301, 7, 209.29, 'transfer', '2026-11-03 09:00:00+00');
UPDATE billing.invoices SET state = 'paid' WHERE id = 7;
--: change usage comes in, late units too
INSERT INTO billing.usage VALUES (4, '2026-10-30', 1200), (5, '2026-09-29', 17);
UPDATE billing.usage SET units = units + 1000 WHERE account_id = 3 AND day >= '2026-10-01';
DELETE FROM billing.usage WHERE account_id = 9 AND day < '2026-09-10';
--: change a plan gets dearer and an account moves to it
UPDATE billing.accounts SET credit_limit = 10 WHERE id = 2;
UPDATE billing.plans SET monthly_fee = 59.00 WHERE code = 'team';
UPDATE billing.subscriptions SET ends_on = '2026-11-30' WHERE account_id = 8 AND ends_on IS NULL;
INSERT INTO billing.subscriptions VALUES (40, 8, 'business', '2026-12-01', NULL, 12);
--: change drafts are issued, a void one is deleted
UPDATE billing.invoices SET state = 'open', net = net + 1000, issued_on = '2026-11-10', due_on = '2026-12-10' WHERE state = 'draft' AND id < 70;
DELETE FROM billing.payments WHERE invoice_id = 32;
DELETE FROM billing.invoices WHERE id = 32;

--: query invoices of an account ($1=8)
SELECT id, number, state, issued_on, due_on, net, vat, gross FROM billing.invoices WHERE account_id = $1;
--: query overdue invoices
SELECT i.id, i.number, a.company, i.gross, current_date - i.due_on AS days_late
FROM billing.invoices i JOIN billing.accounts a ON a.id = i.account_id WHERE i.state = 'open' AND i.due_on < current_date;
--: query what an account owes ($1=8)
SELECT number, due_on, gross, owed FROM billing.open_invoices WHERE account_id = $1 AND owed > 0;
--: query balance by account
SELECT a.id, a.company, coalesce(inv.total, 0) AS invoiced, coalesce(pay.total, 0) AS paid, coalesce(inv.total, 0) - coalesce(pay.total, 0) AS balance
FROM billing.accounts a
LEFT JOIN (SELECT account_id, sum(gross) AS total FROM billing.invoices WHERE state IN ('open', 'paid') GROUP BY account_id) inv ON inv.account_id = a.id
LEFT JOIN (SELECT i.account_id, sum(p.amount) AS total FROM billing.payments p JOIN billing.invoices i ON i.id = p.invoice_id GROUP BY i.account_id) pay ON pay.account_id = a.id;
--: query monthly revenue
SELECT date_trunc('month', issued_on)::date AS month, count(*) AS invoices, sum(net) AS net, sum(vat) AS vat
FROM billing.invoices WHERE state <> 'void' GROUP BY 1 ORDER BY 1;
--: query recurring revenue by plan ($1=2026-10-15)
SELECT p.code, count(s.id) AS subscriptions, coalesce(sum(s.seats * p.monthly_fee), 0.00) AS mrr
FROM billing.plans p LEFT JOIN billing.subscriptions s ON s.plan_code = p.code AND s.starts_on <= $1 AND (s.ends_on IS NULL OR s.ends_on > $1) GROUP BY p.code;
--: query usage above what is included
SELECT s.account_id, p.code, sum(u.units) AS used, sum(u.units) - p.included_units AS above
FROM billing.subscriptions s JOIN billing.plans p ON p.code = s.plan_code JOIN billing.usage u ON u.account_id = s.account_id
WHERE u.day >= '2026-10-01' AND u.day < '2026-11-01' AND s.ends_on IS NULL
GROUP BY s.account_id, p.code, p.included_units HAVING sum(u.units) > p.included_units;
--: query usage of an account by day ($1=3)
SELECT day, units, sum(units) OVER (ORDER BY day) AS so_far FROM billing.usage WHERE account_id = $1 ORDER BY day;
--: query payments by method and month
SELECT method, extract(year FROM received_at)::int AS year, extract(month FROM received_at)::int AS month, sum(amount) AS amount, count(*) AS payments
FROM billing.payments GROUP BY method, 2, 3;
--: query invoices paid in full
SELECT i.id, i.number FROM billing.invoices i JOIN billing.payments p ON p.invoice_id = i.id GROUP BY i.id HAVING sum(p.amount) >= i.gross;
--: query accounts over their credit limit
SELECT a.id, a.company, a.credit_limit FROM billing.accounts a
WHERE a.credit_limit < (SELECT coalesce(sum(i.gross), 0) FROM billing.invoices i WHERE i.account_id = a.id AND i.state = 'open') AND a.closed_on IS NULL;
--: query subscriptions that end soon
SELECT id, account_id, plan_code, ends_on FROM billing.subscriptions WHERE ends_on BETWEEN current_date AND current_date + 30;
--: query average payment by method
SELECT method, round(avg(amount), 2) AS average, min(amount) AS smallest, max(amount) AS largest FROM billing.payments GROUP BY method;
--: query statement of an account ($1=4)
SELECT 'invoice' AS kind, number AS reference, issued_on AS day, gross AS amount FROM billing.invoices WHERE account_id = $1 AND state IN ('open', 'paid')
UNION ALL
SELECT 'payment', p.method, (p.received_at AT TIME ZONE 'UTC')::date, -p.amount FROM billing.payments p JOIN billing.invoices i ON i.id = p.invoice_id WHERE i.account_id = $1
ORDER BY day, kind, reference;
--: query median invoice
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY net) AS median FROM billing.invoices WHERE state <> 'void';
