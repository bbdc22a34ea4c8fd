"""What the pg_reactive vectors say of behaviour, with real tables: which changes are told, and which use a seq.

Commits that come fast share a seq; so each step here waits until the one before it is in the result.
"""

import json
from contextlib import ExitStack

import pytest

from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.slow


class Followed:
    """A registered query with a socket: what one statement does to it."""

    def __init__(self, door, query, rest, open_ones):
        self._door = door
        self.name, self.gen = door.register(query, rest=rest)
        self._socket = open_ones.enter_context(door.socket(self.name))
        assert json.loads(self._socket.recv(timeout=30))["type"] == "subscribed"

    @property
    def seq(self):
        return self._door.result(self.name).body["seq"]

    def heard(self):
        return json.loads(self._socket.recv(timeout=90))

    def told(self, *statements):
        """The one message that the statements lead to; its seq is the next one."""
        before = self.seq
        self._door.sql(*statements)
        found = self.heard()
        assert (found["seq"], found["gen"]) == (before + 1, self.gen)
        assert self.seq == before + 1
        return found

    def changed(self, *statements):
        found = self.told(*statements)
        assert list(found) == ["query_id", "seq", "gen", "inserted", "deleted"]
        return found["inserted"], found["deleted"]

    def uses_a_seq_in_silence(self, statement):
        before = self.seq
        self._door.sql(statement)
        wait_until(lambda: self.seq > before, f"a seq for {statement}")
        assert self.seq == before + 1


@pytest.fixture
def follow(door):
    with ExitStack() as open_ones:
        yield lambda query, rest="": Followed(door, query, rest, open_ones)


@pytest.fixture
def orders(door):
    name = door.name("orders")
    door.sql(
        f"CREATE TABLE {name} (id int PRIMARY KEY, status text, amount numeric, note text)",
        # With the key alone in the log nobody knows that an UPDATE left the other columns as they were.
        f"ALTER TABLE {name} REPLICA IDENTITY FULL",
    )
    return name


def test_p12_p13_p15_which_changes_are_told_and_which_use_a_seq(door, follow, orders):
    """P12, P13, P15: pgr.update.enter, pgr.update.tracked, pgr.update.untracked, pgr.update.noop (decision 16 has the
    last word: no seq), pgr.insert.outside, pgr.update.leave, pgr.seqgap."""
    one = follow(f"SELECT id, status, amount FROM {orders} WHERE status = 'active'")
    one.uses_a_seq_in_silence(f"INSERT INTO {orders} VALUES (1, 'closed', 5, 'n')")
    five, six = ({"id": 1, "status": "active", "amount": amount} for amount in (5, 6))
    assert one.changed(f"UPDATE {orders} SET status = 'active'") == ([five], [])
    # The message behind these two has the very next seq.
    door.sql(f"UPDATE {orders} SET note = 'x'", f"UPDATE {orders} SET amount = amount")
    assert one.changed(f"UPDATE {orders} SET amount = 6 WHERE id = 1") == ([six], [five])
    one.uses_a_seq_in_silence(f"INSERT INTO {orders} VALUES (2, 'closed', 1, '')")
    assert one.changed(f"UPDATE {orders} SET status = 'closed' WHERE id = 1") == ([], [six])


def test_p14_a_row_that_is_there_already_uses_a_seq_and_is_not_told(follow, orders):
    """P14: pgr.dup.rows."""
    one = follow(f"SELECT status FROM {orders}")
    assert one.changed(f"INSERT INTO {orders} VALUES (1, 'active')") == ([{"status": "active"}], [])
    one.uses_a_seq_in_silence(f"INSERT INTO {orders} VALUES (2, 'active')")
    one.uses_a_seq_in_silence(f"DELETE FROM {orders} WHERE id = 1")
    assert one.changed(f"DELETE FROM {orders} WHERE id = 2") == ([], [{"status": "active"}])


def test_p18_p20_another_column_is_an_overflow_and_then_deltas_have_it(door, follow):
    """P18, P19, P20, decision 14: pgr.drift with ALTER TABLE, a column more and another type."""
    table = door.name()
    door.sql(f"CREATE TABLE {table} (id int PRIMARY KEY, v int)", f"INSERT INTO {table} VALUES (1, 1)")
    one = follow(f"SELECT * FROM {table}")
    steps = (
        ("ADD COLUMN x int", f"INSERT INTO {table} VALUES (2, 2, 3)", {"id": 2, "v": 2, "x": 3}),
        ("ALTER COLUMN v TYPE text", f"INSERT INTO {table} VALUES (3, 'w', 3)", {"id": 3, "v": "w", "x": 3}),
    )
    for alteration, change, row in steps:
        told = one.told(f"ALTER TABLE {table} {alteration}")
        wanted = {"type": "overflow", "query_id": one.name, "seq": told["seq"], "gen": one.gen, "fetch": True}
        assert told == wanted and list(told) == list(wanted)
        assert one.changed(change) == ([row], [])


def test_p2_p8_one_transaction_is_one_message_for_each_query(door, follow):
    """P2, P8, P9: pgr.batch; what a message belongs to is said by its query_id, on the one channel."""
    first, second = door.name(), door.name()
    door.sql(f"CREATE TABLE {first} (id int PRIMARY KEY)", f"CREATE TABLE {second} (id int PRIMARY KEY)")
    followed = {name: follow(f"SELECT id FROM {name}") for name in (first, second)}
    listener = door.listen()
    door.sql("BEGIN", f"INSERT INTO {first} VALUES (9)", f"INSERT INTO {second} VALUES (9)", "ROLLBACK")
    before = {name: one.seq for name, one in followed.items()}
    door.sql("BEGIN", *(f"INSERT INTO {name} VALUES ({number})" for number in (1, 2) for name in followed), "COMMIT")
    for name, one in followed.items():
        told = one.heard()
        assert (told["query_id"], told["seq"]) == (one.name, before[name] + 1)
        assert sorted(row["id"] for row in told["inserted"]) == [1, 2]
        assert json.loads(listener.until(lambda found, name=one.name: found["query_id"] == name)) == told
    # The next message of each has the next seq: there was one for the transaction.
    for name, one in followed.items():
        assert one.changed(f"DELETE FROM {name} WHERE id = 1") == ([], [{"id": 1}])
    assert {channel.channel for channel in listener.connection.notifies(timeout=0.1)} <= {"pgr"}
    listener.close()


def test_p21_mode_notify_tells_also_what_leaves_the_result_as_it_is(follow, orders):
    """P21: pgr.notify_mode."""
    one = follow(f"SELECT id FROM {orders} WHERE status = 'active'", rest=", mode => 'notify'")
    told = one.told(f"INSERT INTO {orders} VALUES (1, 'closed')")
    assert list(told) == ["type", "query_id", "seq", "gen"] and told["type"] == "invalidated"


def test_p29_what_is_written_with_a_registration_has_its_gen(door):
    """P22, P28, P29: pgr.gen.bind; a change in the transaction of the registration is never told under the old gen."""
    table = door.name()
    door.sql(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    name, gen = door.register(f"SELECT id FROM {table}")
    listener = door.listen()
    door.sql("BEGIN", f"INSERT INTO {table} VALUES (1)")
    ((answer,),) = door.sql(f"SELECT pgr.subscribe('{name}', 'SELECT id, 2 AS two FROM {table}')")
    door.sql(f"INSERT INTO {table} VALUES (2)", "COMMIT")
    door.sql(f"INSERT INTO {table} VALUES (3)")
    wanted = [{"id": number, "two": 2} for number in (1, 2, 3)]

    def rows():
        found = door.result(name)
        return found.status == 200 and sorted(found.body["rows"], key=lambda row: row["id"]) == wanted

    wait_until(rows, "the rows of the new registration")
    door.sql(f"INSERT INTO {table} VALUES (4)")
    listener.until(lambda one: one["query_id"] == name and {"id": 4, "two": 2} in one.get("inserted", ()))
    assert {one["gen"] for one in listener.of(name)} == {answer["gen"]} and answer["gen"] > gen
    assert listener.of(name)[0] == {"type": "resubscribed", "query_id": name, "gen": answer["gen"]}
    listener.close()


def test_p36_registrations_stand_after_a_restart_without_being_restored(door, follow):
    """P36: nobody calls pgr.restore_subscriptions(), and the next change has the next seq; it tells how many stand."""
    table = door.name()
    door.sql(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    one = follow(f"SELECT id FROM {table}")
    assert one.changed(f"INSERT INTO {table} VALUES (1)") == ([{"id": 1}], [])
    door.stack.kill("recompute")
    door.stack.start("recompute")
    door.stack.wait_ready("recompute", 180.0)
    assert one.changed(f"INSERT INTO {table} VALUES (2)") == ([{"id": 2}], [])
    ((restored, standing),) = door.sql("SELECT pgr.restore_subscriptions(), count(*) FROM pgr.subscriptions")
    assert restored == standing >= 1
