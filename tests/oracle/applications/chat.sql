--: schema
CREATE TABLE users (
    id uuid PRIMARY KEY,
    handle text NOT NULL UNIQUE,
    display_name text,
    is_bot boolean NOT NULL DEFAULT false,
    last_seen timestamptz
);
CREATE TABLE rooms (id integer PRIMARY KEY, slug text NOT NULL UNIQUE, topic text, is_private boolean NOT NULL DEFAULT false, created_at timestamptz NOT NULL);
CREATE TABLE members (
    room_id integer NOT NULL REFERENCES rooms,
    user_id uuid NOT NULL REFERENCES users,
    role text NOT NULL DEFAULT 'member',
    last_read_id bigint NOT NULL DEFAULT 0,
    muted_until timestamptz,
    PRIMARY KEY (room_id, user_id)
);
CREATE TABLE messages (
    id bigint PRIMARY KEY,
    room_id integer NOT NULL REFERENCES rooms,
    author_id uuid NOT NULL REFERENCES users,
    reply_to bigint,
    body text NOT NULL,
    sent_at timestamptz NOT NULL,
    edited_at timestamptz,
    deleted boolean NOT NULL DEFAULT false
);
CREATE TABLE reactions (message_id bigint NOT NULL, user_id uuid NOT NULL, emoji text NOT NULL, PRIMARY KEY (message_id, user_id, emoji));
CREATE TABLE typing (room_id integer NOT NULL, handle text NOT NULL);
CREATE INDEX ON messages (room_id, id DESC);

--: data
INSERT INTO users
    SELECT ('00000000-0000-4000-8000-0000000000' || lpad(to_hex(n), 2, '0'))::uuid, (ARRAY['ana', 'bo', 'cem', 'dia', 'eve'])[1 + n % 5] || n,
        CASE WHEN n % 4 > 0 THEN 'User ' || n || (ARRAY['', ' 🙂', ' ñ'])[1 + n % 3] END, n % 11 = 0, timestamptz '2026-11-10 12:00:00+00' - n * interval '47 minutes'
    FROM generate_series(1, 24) n;
INSERT INTO rooms SELECT n, 'room-' || n, CASE WHEN n % 2 = 0 THEN 'about ' || n END, n % 5 = 0, timestamptz '2026-05-01 00:00:00+00' + n * interval '3 days' FROM generate_series(1, 8) n;
INSERT INTO members
    SELECT r, ('00000000-0000-4000-8000-0000000000' || lpad(to_hex(n), 2, '0'))::uuid, CASE WHEN n = r THEN 'owner' WHEN n % 7 = 0 THEN 'moderator' ELSE 'member' END,
        (r * n * 3) % 160, CASE WHEN n % 9 = 0 THEN timestamptz '2026-12-31 00:00:00+00' END
    FROM generate_series(1, 8) r, generate_series(1, 24) n WHERE (r + n) % 3 < 2;
INSERT INTO messages
    SELECT n, 1 + n % 8, ('00000000-0000-4000-8000-0000000000' || lpad(to_hex(1 + n * 5 % 24), 2, '0'))::uuid, CASE WHEN n % 6 = 0 AND n > 10 THEN n - 8 END,
        (ARRAY['hello', 'see https://example.com', 'ok 👍', 'Grüße @ana5', ''])[1 + n % 5] || CASE WHEN n % 3 = 0 THEN ' #' || n ELSE '' END,
        timestamptz '2026-11-09 06:00:00+00' + n * interval '7 minutes 13 seconds', CASE WHEN n % 13 = 0 THEN timestamptz '2026-11-11 00:00:00.123456+00' END, n % 17 = 0
    FROM generate_series(1, 160) n;
INSERT INTO reactions
    SELECT m, ('00000000-0000-4000-8000-0000000000' || lpad(to_hex(u), 2, '0'))::uuid, (ARRAY['👍', '❤️', '😂'])[1 + (m + u) % 3]
    FROM generate_series(1, 160) m, generate_series(1, 6) u WHERE (m * u) % 7 = 0;
INSERT INTO typing VALUES (1, 'ana5'), (1, 'bo1'), (2, 'ana5'), (1, 'bo1');

--: change somebody writes and is answered
INSERT INTO messages VALUES (161, 2, '00000000-0000-4000-8000-000000000003', NULL, 'anyone here?', '2026-11-12 09:00:00+00', NULL, false);
INSERT INTO messages VALUES (162, 2, '00000000-0000-4000-8000-000000000005', 161, 'yes', '2026-11-12 09:00:05.5+00', NULL, false);
UPDATE users SET last_seen = '2026-11-12 09:00:05.5+00' WHERE handle LIKE 'ana%';
--: change reactions come and go
INSERT INTO reactions VALUES (162, '00000000-0000-4000-8000-000000000003', '❤️'), (161, '00000000-0000-4000-8000-000000000005', '😂');
DELETE FROM reactions WHERE message_id IN (49, 56);
UPDATE members SET last_read_id = 162 WHERE room_id = 2;
UPDATE users SET last_seen = now() WHERE handle = 'bo1';
--: change a message is edited, one deleted, a member leaves, somebody types
UPDATE messages SET body = 'edited for @ana5', edited_at = '2026-11-12 10:00:00+00' WHERE id IN (42, 48);
UPDATE messages SET deleted = true WHERE id IN (50, 66);
DELETE FROM members WHERE room_id = 2 AND role = 'member' AND last_read_id = 162 AND user_id < '00000000-0000-4000-8000-000000000008';
DELETE FROM typing WHERE handle = 'bo1';
INSERT INTO typing VALUES (3, 'cem2');
--: change a room is renamed and a user loses the display name
UPDATE rooms SET slug = 'lobby', topic = NULL WHERE id = 2;
UPDATE users SET display_name = NULL WHERE handle = 'eve9';

--: query messages of a room ($1=2)
SELECT m.id, u.handle, coalesce(u.display_name, u.handle) AS author, m.body, m.sent_at, m.edited_at IS NOT NULL AS edited
FROM messages m JOIN users u ON u.id = m.author_id WHERE m.room_id = $1 AND NOT m.deleted ORDER BY m.id DESC LIMIT 50;
--: query messages after the last read one ($1=2, $2=120)
SELECT id, author_id, body, sent_at FROM messages WHERE room_id = $1 AND id > $2 AND NOT deleted;
--: query unread counts of a user ($1=00000000-0000-4000-8000-000000000004)
SELECT r.id, r.slug, count(m.id) AS unread
FROM members b JOIN rooms r ON r.id = b.room_id LEFT JOIN messages m ON m.room_id = b.room_id AND m.id > b.last_read_id AND NOT m.deleted
WHERE b.user_id = $1 GROUP BY r.id, r.slug;
--: query last message of each room
SELECT DISTINCT ON (room_id) room_id, id, body, sent_at FROM messages WHERE NOT deleted ORDER BY room_id, id DESC;
--: query members of a room ($1=3)
SELECT u.id, u.handle, u.display_name, b.role, b.muted_until FROM members b JOIN users u ON u.id = b.user_id WHERE b.room_id = $1;
--: query who is online ($1=2026-11-10 10:00:00+00)
SELECT id, handle, last_seen FROM users WHERE last_seen > $1 AND NOT is_bot;
--: query seen within a day
SELECT handle FROM users WHERE last_seen > now() - interval '1 day' ORDER BY handle;
--: query reactions of a room ($1=1)
SELECT r.message_id, r.emoji, count(*) AS times FROM reactions r JOIN messages m ON m.id = r.message_id
WHERE m.room_id = $1 GROUP BY r.message_id, r.emoji;
--: query replies ($1=10)
SELECT m.id, m.body, parent.body AS answers, m.sent_at - parent.sent_at AS waited FROM messages m JOIN messages parent ON parent.id = m.reply_to WHERE m.room_id = $1 - 9;
--: query typing now ($1=1)
SELECT DISTINCT handle FROM typing WHERE room_id = $1;
--: query mentions ($1=@ana5)
SELECT id, room_id, body FROM messages WHERE position($1 in body) > 0 AND NOT deleted;
--: query rooms that a user may join ($1=00000000-0000-4000-8000-000000000009)
SELECT id, slug, topic FROM rooms WHERE NOT is_private AND id NOT IN (SELECT room_id FROM members WHERE user_id = $1);
--: query talkers of the week
SELECT u.handle, count(*) AS messages, max(m.sent_at) AS latest, rank() OVER (ORDER BY count(*) DESC) AS place
FROM messages m JOIN users u ON u.id = m.author_id WHERE m.sent_at >= '2026-11-09' AND NOT m.deleted GROUP BY u.handle;
--: query two latest messages of each room
SELECT room_id, id, body FROM (
    SELECT room_id, id, body, row_number() OVER (PARTITION BY room_id ORDER BY id DESC) AS n FROM messages WHERE NOT deleted) ranked
WHERE n <= 2;
--: query emojis of each message
SELECT message_id, string_agg(DISTINCT emoji, ' ' ORDER BY emoji) AS emojis FROM reactions GROUP BY message_id;
