"""A share of Spark's results is compared with PostgreSQL's at the same commit; what differs is left to PostgreSQL."""

import json
import threading
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def judged(stack):
    """The road with a worker that judges every result, and has one wrong rule; it is the only one meanwhile."""
    for worker in [one for one in stack.workers if one.is_alive]:
        stack.leave(worker)
    program = "tests.e2e.recompute.planted_worker"
    worker = stack.start_worker("judged", program=program, verify="1").wait_ready()
    yield stack
    stack.stop_all()
    stack.leave(worker)


@pytest.fixture
def table(judged, own):
    with judged.connect() as connection:
        connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, v int, f float8)")
        connection.execute(f"INSERT INTO {own} SELECT n, n % 3, n / 7.0 FROM generate_series(1, 30) n")
    return own


def outcomes(road, outcome):
    try:
        return road.worker.metric(f'tidewire_recompute_verified_total{{outcome="{outcome}"}}')
    except KeyError:
        return 0.0


def road_outcomes(road):
    return {
        name: outcomes(road, name) for name in ("right", "wrong", "uncertain", "unplaced", "unanswered", "overtaken")
    }


def test_a_wrong_rule_is_found_counted_logged_and_left_to_postgres(judged, table):
    wrong = outcomes(judged, "wrong")
    follower = judged.subscribe(f"SELECT id, v AS planted FROM {table}")
    assert (b"2", b"2") not in follower.rows, "the rule is wrong"
    judged.until(lambda: outcomes(judged, "wrong") > wrong, "the judgement")
    judged.holds(follower)
    with judged.connect() as connection:
        connection.execute(f"UPDATE {table} SET v = 7 WHERE id <= 2")
    judged.holds(follower)
    assert judged.strategy(follower) == "source"
    said = judged.worker.said("result_differed")[-1]
    assert (said["template"], said["missing"], said["surplus"]) == (follower.query.template_id.hex(), 1, 0)
    path = Path(said["case"])
    case = json.loads(path.read_text())
    assert (case["missing"], case["query"]["sql"]) == ([["2", "2"]], follower.query.sql)
    assert path.stat().st_mode & 0o077 == 0
    # Another query of the template does not come back to Spark, nor does a template that is planned anew.
    with judged.connect() as connection:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN more int")
    judged.holds(follower)
    assert judged.strategy(follower) == "source"


def test_right_results_are_right_at_every_commit_that_they_are_judged_at(judged, table):
    """Others write all the time: PostgreSQL's snapshot may end at any commit."""
    right, wrong = outcomes(judged, "right"), outcomes(judged, "wrong")
    followers = [
        judged.good(sql.format(table))
        for sql in (
            "SELECT id, v FROM {} WHERE v > 0",
            "SELECT v, count(*), sum(id) FROM {} GROUP BY v",
            "SELECT sum(f) FROM {}",
            "SELECT a.id FROM {0} a JOIN {0} b ON a.v = b.id",
        )
    ]
    stop = threading.Event()

    def write() -> None:
        with judged.connect() as other:
            number = 0
            while not stop.wait(0.3):
                number += 1
                other.execute(f"UPDATE {table} SET v = v + 1, f = f + 0.1 WHERE id = {1 + number % 30}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        judged.until(
            lambda: outcomes(judged, "right") >= right + 8, lambda: f"eight judgements: {road_outcomes(judged)}"
        )
    finally:
        stop.set()
        writer.join()
    judged.holds(*(one for one in followers if "sum(f)" not in one.query.sql))
    assert outcomes(judged, "wrong") == wrong
