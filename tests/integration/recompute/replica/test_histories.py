"""Any history of a table, with loads, compaction and restarts anywhere in it, gives the table."""

import secrets
import shutil
import threading

import psycopg
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proto.topics import CHANGES
from services.recompute.core.limits import ReplicaLimits

# Everything is compacted as soon as there is a little to compact.
EAGER = ReplicaLimits(in_memory_rows=0, overlay_rows=8, checkpoint_rows=1)
STATEMENTS = (
    "INSERT INTO {0} (id, v, large) SELECT n, 'i{1}', repeat('z{1}', 1500) FROM generate_series({1}, {1} + 3) n "
    "WHERE n NOT IN (SELECT id FROM {0})",
    "INSERT INTO {0} (id, v) SELECT n, '{1}' FROM generate_series(50, 50 + {1}) n WHERE n NOT IN (SELECT id FROM {0})",
    "UPDATE {0} SET v = v || 'u' WHERE id % 4 = {1} % 4",
    "UPDATE {0} SET v = v WHERE id > {1}",
    "UPDATE {0} SET large = repeat('y', 10 * {1}) WHERE id = {1}",
    "UPDATE {0} SET id = id + 100 WHERE id = {1}",
    "UPDATE {0} SET id = {1}, v = NULL WHERE id > 99 AND NOT EXISTS (SELECT FROM {0} WHERE id = {1})",
    "DELETE FROM {0} WHERE id % 5 = {1} % 5",
    "TRUNCATE {0}",
)
STATEMENT = st.tuples(st.sampled_from((*STATEMENTS * 2, *STATEMENTS[:8])), st.integers(0, 3), st.integers(0, 20))
TRANSACTION = st.tuples(
    st.lists(STATEMENT, min_size=1, max_size=4), st.sampled_from(["commit", "commit", "savepoint", "rollback"])
)


def tables_of(watched):
    """Keyed, keyless, keyed with whole old rows, and a partition."""
    number = secrets.token_hex(3)
    keyed = watched.create("id int PRIMARY KEY, v text, large text", name=f"keyed_{number}")
    keyless = watched.create("id int, v text, large text", name=f"keyless_{number}")
    full = watched.create("v text, large text, id int PRIMARY KEY", name=f"full_{number}")
    watched.execute(f"ALTER TABLE {full.name} REPLICA IDENTITY FULL")
    watched.execute(
        f"CREATE TABLE whole_{number} (id int PRIMARY KEY, v text, large text) PARTITION BY RANGE (id);"
        f"CREATE TABLE part_{number} PARTITION OF whole_{number} DEFAULT"
    )
    made = [keyed, keyless, full, watched.describe(f"part_{number}")]
    for table in made:
        watched.execute(f"ALTER TABLE {table.name} ALTER large SET STORAGE EXTERNAL")
    return made


def commit(watched, tables, transaction):
    statements, end = transaction
    with watched.connection.transaction(force_rollback=end == "rollback"):
        for text, table, number in statements:
            try:
                with watched.connection.transaction(force_rollback=end == "savepoint" and number % 2 == 0):
                    watched.execute(text.format(tables[table].name, number))
            except psycopg.errors.UniqueViolation:
                pass


def differing(replicas, watched, tables):
    """The tables that Spark and PostgreSQL do not agree on."""
    replicas.reach(watched.barrier())
    assert all(replicas.tables.is_ready(table.oid) for table in tables), replicas.settled
    return [table.name for table in tables if replicas.rows(table) != watched.rows(table)]


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=st.lists(st.lists(TRANSACTION, min_size=1, max_size=5), min_size=2, max_size=3))
def test_every_history_gives_the_table(watched, make_replicas, story):
    tables = tables_of(watched)
    first, *rest = story
    for transaction in first:
        commit(watched, tables, transaction)
    replicas = make_replicas(limits=EAGER, by_driver_bytes=1 << 30)
    replicas.load(*tables)
    assert differing(replicas, watched, tables) == []
    for chapter in rest:
        for transaction in chapter:
            commit(watched, tables, transaction)
            replicas.turn()
        assert differing(replicas, watched, tables) == []
    assert [one for one in replicas.settled if one.outcome != "loaded"] == []
    replicas.retire()


class Writers:
    """Sessions that change two tables until they are stopped, with long transactions and rollbacks among them."""

    def __init__(self, watched, tables, first_key):
        self._watched, self._tables, self._first_key = watched, tables, first_key
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(3)]
        self.failures = []

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _write(self, number):
        try:
            with self._watched.connect() as connection:
                connection.execute("SET lock_timeout = '5s'")
                turn = 0
                while not self._over.is_set():
                    turn += 1
                    self._transact(connection, number, turn)
        except Exception as error:
            self.failures.append(error)

    def _transact(self, connection, number, turn):
        key = self._first_key + 100_000 * number + turn
        keyed, keyless = (table.name for table in self._tables)
        with connection.transaction(force_rollback=turn % 7 == 0):
            connection.execute(f"INSERT INTO {keyed} VALUES ({key}, 'new', NULL)")
            connection.execute(f"INSERT INTO {keyless} VALUES ({turn % 3}, 'new', NULL)")
            with connection.transaction(force_rollback=turn % 5 == 0):
                connection.execute(f"UPDATE {keyed} SET v = v || '+' WHERE id IN ({key}, {key - 1})")
                connection.execute(f"DELETE FROM {keyless} WHERE ctid = (SELECT min(ctid) FROM {keyless})")
            if turn % 3 == 0:
                connection.execute(f"UPDATE {keyed} SET id = -id WHERE id = {key - 2}")
            if turn % 20 == 0:
                # A transaction that is open while many others come and go.
                self._over.wait(0.05)
            if number == 0 and turn % 25 == 0:
                connection.execute(f"TRUNCATE {keyed if turn % 50 else keyless}")


def test_a_load_in_the_midst_of_writers_is_exact(watched, make_replicas):
    tables = tables_of(watched)[:2]
    for table in tables:
        watched.execute(f"INSERT INTO {table.name} SELECT n, 'v', NULL FROM generate_series(1, 3000) n")
    replicas = make_replicas(limits=EAGER, by_driver_bytes=1 << 30)
    for turn in range(3):
        with Writers(watched, tables, 1_000_000 * (turn + 1)) as writers:
            for table in tables:
                replicas.tables.release(table.oid)
            replicas.load(*tables)
            passed = watched.barrier()
            replicas.reach(passed)
        assert writers.failures == []
        assert differing(replicas, watched, tables) == [], turn


def test_a_table_that_is_rewritten_while_it_is_loaded_is_loaded_again(watched, make_replicas):
    replicas = make_replicas(by_driver_bytes=1 << 30)
    table = watched.create("id int PRIMARY KEY, v int")
    watched.execute(f"INSERT INTO {table.name} SELECT n, n FROM generate_series(1, 5000) n")
    for _ in range(3):
        replicas.tables.release(table.oid)
        replicas.tables.want(table)
        watched.execute(f"ALTER TABLE {table.name} ALTER v TYPE int USING v + 1")
        replicas.load(table)
        assert differing(replicas, watched, [table]) == []


def restored(replicas):
    return [event["restored"] for event in replicas.events if event["event"] == "table_loaded"]


def test_a_checkpoint_and_the_log_behind_it_are_the_table(watched, make_replicas, tmp_path):
    tables = tables_of(watched)
    keyed, keyless = tables[:2]
    for table in tables[:2]:
        watched.execute(f"INSERT INTO {table.name} SELECT n, 'v', repeat('w', 3000) FROM generate_series(1, 200) n")
    first = make_replicas(limits=EAGER, by_driver_bytes=1 << 30)
    first.load(keyed, keyless)
    first.rest()
    for table in tables[:2]:
        watched.execute(f"DELETE FROM {table.name} WHERE id % 3 = 0")
        watched.execute(f"UPDATE {table.name} SET v = 'after' WHERE id % 3 = 1")
    assert differing(first, watched, tables[:2]) == []
    # It dies here: no word of farewell, and a checkpoint that was being written stays behind.
    shutil.copytree(newest(tmp_path, keyed), tmp_path / str(keyed.oid) / ".unfinished")
    watched.execute(f"UPDATE {keyed.name} SET id = id + 1000 WHERE id % 3 = 1")
    second = make_replicas(limits=EAGER, by_driver_bytes=1 << 30)
    second.load(keyed, keyless)
    assert restored(second) == [True, True]
    assert differing(second, watched, tables[:2]) == []
    second.retire()

    watched.execute(f"ALTER TABLE {keyed.name} ALTER v TYPE text USING v || '!'")
    third = make_replicas(limits=EAGER, by_driver_bytes=1 << 30)
    third.load(keyed)
    assert restored(third) == [False]
    assert differing(third, watched, [keyed]) == []


def newest(folder, table):
    return max(path for path in (folder / str(table.oid)).iterdir() if not path.name.startswith("."))


def test_a_checkpoint_that_the_log_does_not_lead_on_from_is_not_used(watched, make_replicas, tmp_path):
    table = watched.create("id int PRIMARY KEY, v text")
    watched.execute(f"INSERT INTO {table.name} SELECT n, 'v' FROM generate_series(1, 100) n")
    first = make_replicas(limits=EAGER, by_driver_bytes=1 << 30)
    first.load(table)
    first.rest()
    first.retire()
    assert newest(tmp_path, table).exists()
    for _ in range(3):
        watched.execute(f"UPDATE {table.name} SET v = v || '.' WHERE id < 10")
        first.reach(watched.barrier())
    trim(watched, first.log.offset - 1)
    second = make_replicas(limits=EAGER, by_driver_bytes=1 << 30)
    second.load(table)
    assert restored(second) == [False]
    assert differing(second, watched, [table]) == []


def trim(watched, offset):
    """Remove the records before an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": watched.kafka.bootstrap})
    partition = TopicPartition(watched.kafka.broker_name(CHANGES.name), 0, offset)
    for deleted in admin.delete_records([partition]).values():
        deleted.result(60)


def test_a_value_that_spark_cannot_hold_leaves_the_table_to_postgres(watched, replicas):
    table = watched.create("id int PRIMARY KEY, n numeric(10,2)")
    watched.execute(f"INSERT INTO {table.name} SELECT n, n FROM generate_series(1, 10) n")
    replicas.load(table)
    watched.execute(f"UPDATE {table.name} SET n = 'NaN' WHERE id = 3")
    replicas.reach(watched.barrier())
    assert [(one.oid, one.outcome) for one in replicas.settled[1:]] == [(table.oid, "unfit")]
    replicas.tables.reload(table.oid, "asked")
    replicas.until(lambda: len(replicas.settled) > 2)
    assert [(one.oid, one.outcome) for one in replicas.settled[2:]] == [(table.oid, "unfit")]


def test_a_dropped_table_is_reported_as_gone(watched, replicas):
    table = watched.create("id int PRIMARY KEY")
    watched.execute(f"DROP TABLE {table.name}")
    replicas.tables.want(table)
    replicas.until(lambda: replicas.settled)
    assert [(one.oid, one.outcome) for one in replicas.settled] == [(table.oid, "gone")]


def test_policies_do_not_hide_rows_from_the_base(watched, replicas):
    table = watched.create("id int PRIMARY KEY")
    watched.execute(f"INSERT INTO {table.name} VALUES (1), (2)")
    watched.execute(f"ALTER TABLE {table.name} ENABLE ROW LEVEL SECURITY")
    watched.execute(f"ALTER TABLE {table.name} FORCE ROW LEVEL SECURITY")
    replicas.load(table)
    assert differing(replicas, watched, [table]) == []


def test_an_empty_table_is_held(watched, replicas):
    table = watched.create("id int PRIMARY KEY, v text")
    replicas.load(table)
    assert differing(replicas, watched, [table]) == []
    watched.execute(f"INSERT INTO {table.name} VALUES (1, NULL)")
    assert differing(replicas, watched, [table]) == []
