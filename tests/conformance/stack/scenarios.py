"""Each behaviour of the golden vectors as something that is done on the whole stack and seen by clients.

Those with numbers are played by their shape, so that more of them need no more code; those in words by their id.
"""

import re
from collections.abc import Callable

from proto.pgwire.live import (
    NO_SUBSCRIPTION,
    Ack,
    Data,
    PartialData,
    Pause,
    Refused,
    Resume,
    Subscribe,
    Unsubscribe,
    Update,
)
from services.gateway.settings import Gateway
from services.registry.settings import Registry
from tests.conformance.stack.flow import play
from tests.conformance.stack.sandbox import GLOBAL_LIMIT, MAX_ROWS, OWNER_LIMIT, Sandbox, Subscribed, kind, refused

Scenario = Callable[[Sandbox, dict], None]
BY_ID: dict[str, Scenario] = {}
TYPES = {int: "int", float: "numeric", str: "text", bool: "boolean"}


def scenario(id_):
    def register(function):
        BY_ID[id_] = function
        return function

    return register


def scenario_of(vector) -> Scenario | None:
    """How a vector is played; None if nobody has said."""
    if vector["id"] in BY_ID:
        return BY_ID[vector["id"]]
    if "old" in vector and "new" in vector:
        return delta
    if isinstance(vector.get("update"), dict):
        return threshold
    if vector.get("steps", [""])[0].startswith("C: F0 "):
        return flow
    return None


def flow(sandbox, vector):
    """V18, V19, V21, V36, V37, V38, V39, V41: what a Subscribe is answered."""
    play(sandbox, vector["steps"])


def threshold(sandbox, vector):
    """V45, V46: how many of how many columns changed decides how the row is sent."""
    update = vector["update"]
    others = [f"c{number}" for number in range(1, update["total_columns"])]
    table = sandbox.table(", ".join(["id int PRIMARY KEY", *(f"{name} text" for name in others)]))
    sandbox.write(f"INSERT INTO {table} VALUES (1{', repeat($$x$$, 9)' * len(others)})")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        new = [f"{name} = 'new'" for name in others[: update["changed"]]]
        sandbox.write(f"UPDATE {table} SET {', '.join(new if update['pk_unchanged'] else [*new, 'id = 2'])}")
        message = held.next()
        assert isinstance(message, PartialData if vector["expect_message"] == "F7" else Data)
        assert (4 if isinstance(message, PartialData) else message.update) == vector["expect_update_type"]
        held.until(sandbox.read(f"SELECT * FROM {table}"))


def delta(sandbox, vector):
    """V32, V33: from one result to another, in one transaction that leaves no row as it was."""
    old, new, key = vector["old"], vector["new"], vector.get("pk", ())
    columns = [f"c{at} {TYPES[type(value)]}" for at, value in enumerate((old or new)[0])]
    if key:
        columns.append(f"PRIMARY KEY ({', '.join(f'c{at}' for at in key)})")
    table = sandbox.table(", ".join(columns))
    sandbox.write(*(insert(table, row) for row in old))
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        before = list(held.rows)
        assert sorted(before) == sorted(map(as_text, old))
        sandbox.write(f"DELETE FROM {table}", *(insert(table, row) for row in new))
        held.until([as_text(row) for row in new])
        told = {"deletes": [], "updates": [], "inserts": []}
        names = {Update.DELETE: "deletes", Update.UPDATE: "updates", Update.INSERT: "inserts"}
        for message in held.messages:
            if isinstance(message, PartialData):
                keys = {one.values[0] for one in message.rows}
                told["updates"] += [row for row in held.rows if row[0] in keys]
            else:
                told[names[message.update]] += message.rows
        assert told == {name: [as_text(row) for row in rows] for name, rows in vector["expect"].items()}


def insert(table, row):
    values = ", ".join("NULL" if value is None else f"$v${value}$v$" for value in row)
    return f"INSERT INTO {table} VALUES ({values})"


def as_text(row):
    return tuple(None if value is None else str(value).encode() for value in row)


@scenario("vibe.pause")
def paused(sandbox, vector):
    """V27, V28, decision 1: nothing while paused, nothing by the resume, and then the net of what was missed."""
    table = sandbox.table("id int PRIMARY KEY")
    sandbox.write(f"INSERT INTO {table} VALUES (1)")
    with sandbox.client() as client, sandbox.client() as other:
        held, witness = (Subscribed(one, f"SELECT * FROM {table}") for one in (client, other))
        client.send(Pause(held.id))
        assert client.query("SELECT 1")  # the Pause stands before it
        sandbox.write(f"INSERT INTO {table} VALUES (2)")
        witness.until([(b"1",), (b"2",)])
        assert client.live(0.5) is None
        client.send(Resume(held.id))
        assert client.live(0.5) is None
        sandbox.write(f"INSERT INTO {table} VALUES (3)")
        message = held.next()
        assert (message.update, sorted(message.rows)) == (Update.INSERT, [(b"2",), (b"3",)])
        witness.until([(b"1",), (b"2",), (b"3",)])


@scenario("vibe.pause.counts")
def paused_ones_count(sandbox, vector):
    """V58: against the limit of the connection, and against that of all."""
    table = sandbox.table("id int PRIMARY KEY")
    sandbox.wait_for_nobody()
    clients = [sandbox.client() for _ in range(GLOBAL_LIMIT // OWNER_LIMIT + 1)]
    for number in range(GLOBAL_LIMIT):
        client = clients[number // OWNER_LIMIT]
        held = Subscribed(client, f"SELECT * FROM {table}")
        client.send(Pause(held.id))
    full, last = clients[0], clients[-1]
    words = f"Connection limit exceeded: {OWNER_LIMIT} subscriptions (max: {OWNER_LIMIT})"
    assert refused(full, f"SELECT * FROM {table}") == Refused(NO_SUBSCRIPTION, words)
    words = f"Global limit exceeded: {GLOBAL_LIMIT} subscriptions (max: {GLOBAL_LIMIT})"
    assert refused(last, f"SELECT * FROM {table}") == Refused(NO_SUBSCRIPTION, words)
    for client in clients:
        client.close()
    sandbox.wait_for_nobody()


@scenario("vibe.unsub")
def unsubscribed(sandbox, vector):
    """V26: another subscription to the same query shows that there was something to be told."""
    table = sandbox.table("id int PRIMARY KEY")
    with sandbox.client() as client:
        left, kept = (Subscribed(client, f"SELECT * FROM {table}") for _ in range(2))
        client.send(Unsubscribe(left.id))
        frames = client.query(f"INSERT INTO {table} VALUES (1)")
        assert not any(left.id.bytes in frame.body for frame in frames)
        kept.until([(b"1",)])
        client.query(f"INSERT INTO {table} VALUES (2)")
        kept.until([(b"1",), (b"2",)])  # and fails if a message is for the other one


@scenario("vibe.unrelated")
def unrelated(sandbox, vector):
    """V24, V25: the next message is about A, whatever happened to B before."""
    a, b = (sandbox.table("id int PRIMARY KEY, n int") for _ in range(2))
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT id FROM {a} WHERE id < 100")
        sandbox.write(f"INSERT INTO {b} VALUES (1)")
        sandbox.write(f"INSERT INTO {a} VALUES (100)")
        sandbox.write(f"INSERT INTO {a} VALUES (1)", f"UPDATE {a} SET n = 5")
        assert held.next() == Data(held.id, Update.INSERT, ((b"1",),))
        sandbox.write(f"UPDATE {a} SET n = 6", f"UPDATE {a} SET id = id")
        sandbox.write(f"DELETE FROM {a}")
        assert held.next() == Data(held.id, Update.DELETE, ((b"1",),))


@scenario("vibe.twoclients")
def two_clients(sandbox, vector):
    """V22, V24: the writer is told as well, on the connection that it writes on."""
    table = sandbox.table("id int PRIMARY KEY")
    with sandbox.client() as writer, sandbox.client() as other:
        both = [Subscribed(client, f"SELECT * FROM {table}") for client in (writer, other)]
        writer.send(("Q", f"INSERT INTO {table} VALUES (7)\0".encode()))
        for held in both:
            assert held.next() == Data(held.id, Update.INSERT, ((b"7",),))


@scenario("vibe.partial.multirow")
def many_rows_in_part(sandbox, vector):
    """V42, V44, V47: one F7 with an entry for each row that changed, and none beside it."""
    columns, rows = map(int, re.findall(r"\d+", vector["table"]))
    expect, name = vector["expect"], vector["update"].split()[0]
    others = [f"c{at}" for at in range(1, columns)]
    others[max(expect["present"]) - 1] = name
    table = sandbox.table(", ".join(["id int PRIMARY KEY", *(f"{other} text" for other in others)]))
    sandbox.write(f"INSERT INTO {table} (id, {name}) SELECT n, 'new' FROM generate_series(1, {rows}) n")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        sandbox.write(f"UPDATE {table} SET {name} = 'paid'")
        message = held.next()
        assert isinstance(message, PartialData) and len(message.rows) == expect["row_count"]
        assert {tuple(sorted(row.values)) for row in message.rows} == {tuple(expect["present"])}
        assert sorted(held.rows) == sandbox.read(f"SELECT * FROM {table}")
        sandbox.write(f"UPDATE {table} SET {name} = 'sent' WHERE id <= 2")
        message = held.next()
        assert isinstance(message, PartialData) and len(message.rows) == 2


@scenario("vibe.partial.insertdelete")
def rows_that_come_and_go(sandbox, vector):
    """V49: whatever the rule for partial rows is."""
    table = sandbox.table("id int PRIMARY KEY, a text, b text, c text")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        sandbox.write(f"INSERT INTO {table} VALUES (1, 'a', 'b', 'c'), (2, 'a', 'b', 'c')")
        held.until(sandbox.read(f"SELECT * FROM {table}"))
        sandbox.write(f"DELETE FROM {table} WHERE id = 1", f"INSERT INTO {table} VALUES (3, 'a', 'b', 'c')")
        held.until(sandbox.read(f"SELECT * FROM {table}"))
        sandbox.write(f"DELETE FROM {table}")
        held.until([])
        assert [kind(message) for message in held.messages] == [
            Update.INSERT,
            Update.DELETE,
            Update.INSERT,
            Update.DELETE,
        ]


@scenario("vibe.delta.order")
def one_batch(sandbox, vector):
    """V34, V48: rows over and under the threshold in one commit, with one that went and one that came."""
    table = sandbox.table("id int PRIMARY KEY, a text, b text, c text")
    sandbox.write(f"INSERT INTO {table} SELECT n, 'a', 'b', 'c' FROM generate_series(1, 4) n")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        sandbox.write(
            f"INSERT INTO {table} VALUES (9, 'a', 'b', 'c')",
            f"UPDATE {table} SET a = 'x', b = 'x', c = 'x' WHERE id = 2",
            f"UPDATE {table} SET a = 'x' WHERE id = 3",
            f"DELETE FROM {table} WHERE id = 1",
        )
        held.until(sandbox.read(f"SELECT * FROM {table}"))
        first, *middle, last = map(kind, held.messages)
        assert (first, set(middle), last) == (Update.DELETE, {"F7", Update.UPDATE}, Update.INSERT)
        assert len(middle) == 2


@scenario("vibe.limits")
def limits(sandbox, vector):
    """V55, V56: in these words, with these defaults."""
    gateway, registry = Gateway(), Registry()
    defaults = {
        "max_per_connection": registry.owner_limit,
        "max_global": registry.global_limit,
        "max_result_rows": gateway.max_rows,
        "rate_limit_per_second": registry.subscribes_per_s,
    }
    assert gateway.subscribes_per_s == registry.subscribes_per_s
    # V57 has no counterpart: what waits for a slow reader is bounded in bytes and merged, not a channel of messages.
    assert vector["defaults"] == {**defaults, "channel_buffer_size": 64, "slow_consumer_threshold_percent": 80}
    table = sandbox.table("id int PRIMARY KEY")
    sandbox.wait_for_nobody()
    errors, words = vector["errors"], []
    clients = [sandbox.client() for _ in range(GLOBAL_LIMIT // OWNER_LIMIT + 1)]
    for client in clients:
        for number in range(OWNER_LIMIT):
            if client is clients[-1] and number == GLOBAL_LIMIT % OWNER_LIMIT:
                break
            Subscribed(client, f"SELECT id, {number} FROM {table}")
    for client in (clients[0], clients[-1]):
        refusal = refused(client, f"SELECT * FROM {table}")
        assert (refusal.subscription, vector["error_subscription_id"]) == (NO_SUBSCRIPTION, "00*16")
        words.append(refusal.message)
    assert words == [
        errors["per_connection"].format(current=OWNER_LIMIT, max=OWNER_LIMIT),
        errors["global"].format(current=GLOBAL_LIMIT, max=GLOBAL_LIMIT),
    ]
    for client in clients:
        client.close()
    sandbox.wait_for_nobody()
    _rows(sandbox, errors["rows"])
    _rate(sandbox, errors["rate"], defaults["rate_limit_per_second"])


def _rows(sandbox, words):
    """Decision 4: it was acknowledged, so that its error has its id. Also of one that grows over the limit."""
    table = sandbox.table("id int PRIMARY KEY")
    sandbox.write(f"INSERT INTO {table} SELECT generate_series(1, {MAX_ROWS + 1})")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table} WHERE id > 1")
        message = words.format(rows=MAX_ROWS + 1, max=MAX_ROWS)
        client.send(Subscribe(f"SELECT * FROM {table}"))
        ack, refusal = client.live(), client.live()
        assert isinstance(ack, Ack) and refusal == Refused(ack.subscription, message)
        sandbox.write(f"INSERT INTO {table} VALUES (1000)")
        assert client.live() == Refused(held.id, message)


def _rate(sandbox, words, per_s):
    """Whatever is subscribed to, nonsense as well."""
    pattern = re.escape(words).replace(re.escape("{retry_after_ms}"), r"\d+")
    with sandbox.client() as client:
        client.send(*[Subscribe("SELEKT")] * (per_s + 1))
        told = [client.live() for _ in range(per_s + 1)]
        assert {message.subscription for message in told} == {NO_SUBSCRIPTION}
        assert sum(message.message.startswith("Parse error: ") for message in told) == per_s
        assert sum(re.fullmatch(pattern, message.message) is not None for message in told) == 1
