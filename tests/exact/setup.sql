CREATE TABLE t (
    id int PRIMARY KEY, a bool, c char(5), v varchar(10), t text, f4 real, f8 float8, n numeric, x int,
    ts timestamp, ts2 timestamp, nick text, name text COLLATE pg_c_utf8
);
INSERT INTO t VALUES
    (1, true, 'ab', 'ab', 'ab ', 0.1, 0.1, 1.0, 1, '2024-01-01 00:00:00', '2024-01-02 03:04:05.6', 'B', 'a'),
    (2, false, 'ab', 'ab ', 'ab', 0.2, 0, 1.00, 2, '2024-01-31 12:00:00', '2024-01-30 11:00:00', 'a', 'B'),
    (3, NULL, 'x', 'x  y', '0000-01-01', 0.3, '-0', 2.50, 0, NULL, '2024-01-01 00:00:00', NULL, 'é'),
    (4, true, NULL, NULL, E'1.5\n', NULL, NULL, NULL, NULL, '2024-03-31 00:00:00', '2024-03-31 00:00:00', 'é', NULL),
    (5, false, 'abcde', 'abcde', 'a%b', 'NaN', '-0', 3, -1, '2000-01-01 00:00:00', '2024-01-01 00:00:00.000001', 'Ä', 'Ä'),
    (6, NULL, '', '', '', '-0', 'NaN', 1, 2147483647, '2024-01-01 00:00:00', NULL, '', ''),
    (7, true, ' a', ' a ', 'aXbc', 1.5, 5e-324, 0.10, NULL, '2024-06-01 06:07:08', '2024-06-01 06:07:08', 'ab', 'ab');
CREATE TABLE u (tid int, y int, z text);
INSERT INTO u VALUES (1, 1, 'ab'), (1, NULL, 'ab '), (2, 2, NULL), (NULL, 3, 'x'), (3, NULL, NULL), (9, 9, '');
CREATE TABLE k (tid int, y int);
INSERT INTO k VALUES (1, 1), (2, 2), (9, 0);
CREATE TABLE sums (id int PRIMARY KEY, paid bool, amt numeric(10, 2), alt numeric(10, 3), free numeric);
INSERT INTO sums VALUES
    (1, true, 1.50, 2.125, 1.0), (2, false, 2.25, NULL, NULL), (3, NULL, NULL, 3.5, 7.12345), (4, true, NULL, NULL, 1.00),
    (5, false, NULL, 1.001, NULL), (6, true, 10.00, NULL, 1);
CREATE TABLE z (id int PRIMARY KEY, p numeric(10, 2), q int);
INSERT INTO z VALUES (1, 1.50, 2), (2, 7.00, 0), (3, NULL, 0), (4, 3.00, NULL), (5, -2.00, -3);
CREATE TABLE links (a int, b int, s int, PRIMARY KEY (a, b));
INSERT INTO links VALUES (1, 1, 10), (1, 2, 20), (2, 1, 10), (2, 3, 5), (3, 1, 1);
CREATE VIEW some_links AS SELECT b, s FROM links WHERE a = ANY (ARRAY[1, 2]);
CREATE TABLE floats (g int, f8 float8, f4 real);
INSERT INTO floats VALUES (1, 0, 0), (1, '-0', '-0'), (2, '-0', '-0'), (2, -1, -1), (3, '-0', 1), (3, NULL, NULL), (4, 0, 2), (4, 0, 3);
CREATE TABLE two (id int PRIMARY KEY, one text COLLATE "C", other text COLLATE "POSIX", plain text);
INSERT INTO two VALUES (1, 'a', 'B', 'a'), (2, 'B', 'a', 'B'), (3, NULL, 'c', NULL), (4, 'é', NULL, 'Z');
CREATE TABLE "Ä" (id int PRIMARY KEY, "Ö" int, "ö" int);
CREATE TABLE "ä" (id int PRIMARY KEY, "Ö" int, "ö" int);
INSERT INTO "Ä" VALUES (1, 10, 20), (2, 30, 40);
INSERT INTO "ä" VALUES (1, 1, 2);
CREATE VIEW tops AS SELECT DISTINCT ON (x) x, t FROM t ORDER BY x;
