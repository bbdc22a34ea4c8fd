CREATE TABLE people (
    id int PRIMARY KEY, name text COLLATE "C" NOT NULL, team int, born date, height numeric(5, 2), active bool NOT NULL
);
CREATE TABLE teams (id int PRIMARY KEY, name varchar(20) COLLATE "C" NOT NULL, boss int, budget numeric(12, 2));
CREATE TABLE marks (person int, subject text COLLATE "C", at timestamp, points int, weight float8, note text);
CREATE TABLE links (a int, b int, strength int8 NOT NULL, PRIMARY KEY (a, b));
CREATE TABLE wide (id int PRIMARY KEY, code char(4), amount numeric, big int8, small int2, tags text[], doc jsonb, u uuid);
CREATE TABLE parted (id int, kind int, v text COLLATE "C", PRIMARY KEY (id, kind)) PARTITION BY LIST (kind);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2);
INSERT INTO people VALUES
    (1, 'Ann', 1, '1990-01-02', 170.50, true), (2, 'Bob', 1, '1985-07-08', 181.00, true),
    (3, 'Cid', 2, NULL, NULL, false), (4, 'Dee', NULL, '2001-12-31', 160.25, true),
    (5, 'Eve', 2, '1990-01-02', 170.50, true), (6, 'Fay', 9, '1977-03-03', 150.00, false), (7, 'ann', NULL, NULL, 99.99, true);
INSERT INTO teams VALUES (1, 'red', 2, 1000.00), (2, 'blue', NULL, 250.50), (3, 'empty', 1, NULL);
INSERT INTO marks VALUES
    (1, 'math', '2024-01-01 10:00', 5, 0.1, 'a'), (1, 'math', '2024-02-01 10:00', 7, 0.2, NULL),
    (1, 'art', '2024-01-15 12:30:00.5', NULL, 0.3, 'b'), (2, 'math', '2024-01-01 10:00', 9, NULL, 'c'),
    (2, NULL, NULL, 2, 1.5, ''), (3, 'art', '2023-12-31 23:59:59', 9, 2.5, 'd'), (NULL, 'art', NULL, 1, 0, 'e'),
    (2, 'math', '2024-01-01 10:00', 9, NULL, 'c'), (8, 'law', '2024-03-03', -3, 1e10, 'z'), (8, 'law', NULL, NULL, NULL, E'x "y\\z,{}'), (9, 'law', NULL, NULL, NULL, 'null');
INSERT INTO links VALUES (1, 2, 10), (2, 3, 9223372036854775807), (3, 1, -5), (1, 3, 0), (4, 4, 7);
INSERT INTO wide VALUES
    (1, 'ab', 1.50, 9223372036854775807, 3, '{x,y}', '{"k": 1}', '00000000-0000-4000-8000-000000000001'),
    (2, 'abcd', 2, 5, -3, '{}', NULL, '00000000-0000-4000-8000-000000000002'), (3, 'ab', 1.500, NULL, NULL, NULL, '[]', NULL),
    (4, NULL, NULL, 7, 30000, '{z}', '{"k": 2}', '00000000-0000-4000-8000-000000000001');
INSERT INTO parted VALUES (1, 1, 'a'), (2, 1, 'b'), (1, 2, 'c'), (3, 2, NULL);
CREATE VIEW adults AS SELECT id, name, team, height FROM people WHERE born < '2000-01-01';
CREATE VIEW team_sizes (team, size) AS SELECT t.name, count(p.id) FROM teams t LEFT JOIN people p ON p.team = t.id GROUP BY t.id;
CREATE VIEW tall_adults AS SELECT id, name AS called FROM adults WHERE height > 160;
