"""A bad query that 200 changes a second ask for again cannot hurt PostgreSQL, nor the queries of other roles."""

import threading
import time
from collections import Counter

import pytest

from tests.e2e.recompute.road import PATIENCE_S

# As Road.start_worker sets them.
CONCURRENCY, STATEMENT_TIMEOUT_S = 2, 5.0
CHANGES_A_SECOND, CHANGES, FOR_S = 200, 400, 8.0
CANCELED = "57014"
OURS = """
SELECT count(*) FILTER (WHERE state <> 'idle'),
       max(extract(epoch FROM clock_timestamp() - query_start)) FILTER (WHERE state = 'active')
FROM pg_stat_activity
WHERE application_name LIKE 'tidewire recompute%%' AND datname = current_database() AND query ILIKE %s
"""


class Flood:
    """Changes a table at a steady rate until told to stop."""

    def __init__(self, road, table):
        self._road, self._table = road, table
        self._stop = threading.Event()
        self.changes = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        with self._road.connect() as connection:
            began = time.monotonic()
            while not self._stop.wait(max(0.0, began + self.changes / CHANGES_A_SECOND - time.monotonic())):
                self.changes += 1
                connection.execute(f"UPDATE {self._table} SET v = %s WHERE id = %s", [self.changes, self.changes % 50])


def scans(connection, table):
    connection.execute("SELECT pg_stat_force_next_flush()")
    return connection.execute("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = %s", [table]).fetchone()[0]


@pytest.mark.slow
def test_bad_queries_under_a_flood_of_changes_stay_within_their_budget(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, v int)")
    connection.execute(f"INSERT INTO {own} SELECT n, 0 FROM generate_series(0, 49) n")
    connection.execute(f"CREATE ROLE {own}_other")
    for table in (f"{own}_counted", f"{own}_cheap"):  # no key and no index: each run scans it once
        connection.execute(f"CREATE TABLE {table} (n int)")
        connection.execute(f"INSERT INTO {table} VALUES (1)")
    connection.execute(f"GRANT SELECT ON {own}, {own}_cheap TO {own}_other")
    try:
        flood(road, connection, own)
    finally:
        road.stop_all()
        connection.execute(f"DROP OWNED BY {own}_other")
        connection.execute(f"DROP ROLE {own}_other")


def flood(road, connection, own):
    endless = road.ask(road.query(f"SELECT count(*) FROM {own} a, generate_series(1, 100000000) g WHERE g % 50 = a.v"))
    slow = [
        road.ask(
            road.query(
                f"SELECT count(*), max(c.n) FROM {own} a, {own}_counted c, "
                f"generate_series(1, 5000) g WHERE g % {50 + number} = a.id AND json_build_array(g)::text <> ''"
            )
        )
        for number in range(6)
    ]
    cheap = f"SELECT json_agg(v ORDER BY id)::text FROM {own}, {own}_cheap"
    of_other = road.ask(road.query(cheap, role=f"{own}_other"))
    on_spark = road.ask(road.query(f"SELECT id, v FROM {own} WHERE id < 5"))
    everyone = [endless, *slow, of_other, on_spark]
    road.until(lambda: all(one.has_begun for one in everyone), "first results", 240)
    assert endless.error is not None and endless.error.sqlstate == CANCELED, endless.seen[-1]
    assert road.strategy(of_other) == "source" and road.strategy(on_spark) == "row-local"

    begun = scans(connection, f"{own}_counted"), scans(connection, f"{own}_cheap")
    steps, most, longest = [len(one.seen) for one in everyone], 0, 0.0
    began = time.monotonic()
    with Flood(road, own) as flooding:
        while time.monotonic() < began + FOR_S or flooding.changes < CHANGES:
            road.pump()
            assert time.monotonic() < began + PATIENCE_S, f"the writer was starved: {flooding.changes} changes"
            # What runs is a call of the entrance; only the slow queries have two columns.
            running, age_s = connection.execute(OURS, ["%entrance_%c1 pg_catalog.text%"]).fetchone()
            most, longest = max(most, running), max(longest, age_s or 0)
    took_s = time.monotonic() - began
    runs, cheap_runs = scans(connection, f"{own}_counted") - begun[0], scans(connection, f"{own}_cheap") - begun[1]
    print(
        f"{flooding.changes} changes in {took_s:.1f} s: {runs} runs of six slow queries, at most {most} at once, "
        f"the longest {longest:.1f} s; {cheap_runs} of a cheap one"
    )
    assert 1 <= most <= CONCURRENCY
    assert runs >= 1
    # The server's clock ends a statement; a busy machine may be late with it.
    assert longest <= STATEMENT_TIMEOUT_S * 3
    # Each query rests at least 0.2 s after a run, however many changes there are and however cheap it is.
    assert runs <= 6 * (took_s / 0.2 + 2)
    assert 1 <= cheap_runs <= took_s / 0.2 + 2
    # The others went on meanwhile, also the one that needs PostgreSQL under another role.
    assert len(of_other.seen) > steps[-2] and len(on_spark.seen) > steps[-1]
    assert {seen.sqlstate for seen in endless.seen if seen.kind == "ERROR"} == {CANCELED}
    road.holds(*slow, of_other, on_spark, within_s=240)
    (total,) = connection.execute(cheap).fetchone()
    assert of_other.rows == Counter([(total.encode(),)])
