"""A first result contains the subscriber's own commit; many subscribes at once cost few jobs."""

import threading
from collections import Counter
from uuid import uuid4

import pytest

from services.changelog import barrier

QUERIES = 500


@pytest.fixture
def crowd(road, connection, own):
    """A table that others write to all the time."""
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, owner int NOT NULL, note text)")
    connection.execute(f"INSERT INTO {own} SELECT -n, n % 50, 'old' FROM generate_series(1, 2000) n")
    stop = threading.Event()

    def write():
        with road.connect() as other:
            number = 0
            while not stop.wait(0.01):
                number += 1
                other.execute(f"UPDATE {own} SET note = %s WHERE id = %s", [str(number), -1 - number % 2000])

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    yield own
    stop.set()
    for writer in writers:
        writer.join()


def test_a_subscribe_right_after_a_commit_contains_it_while_others_write(road, connection, crowd):
    long_known = road.subscribe(f"SELECT id FROM {crowd} WHERE id > 0")
    for number in range(1, 9):
        connection.execute(f"INSERT INTO {crowd} VALUES ({number}, 40, 'own')")
        barrier_id = barrier.emit(connection)
        asked = {
            "row-local": road.ask(road.query(f"SELECT id FROM {crowd} WHERE id = {number}"), barrier_id=barrier_id),
            "full": road.ask(road.query(f"SELECT max(id) FROM {crowd} WHERE id <= {number}"), barrier_id=barrier_id),
            "source": road.ask(
                road.query(f"SELECT json_agg(id)::text FROM {crowd} WHERE id = {number}"), barrier_id=barrier_id
            ),
            "shared": road.ask(long_known.query, barrier_id=barrier_id),
        }
        road.until(
            lambda asked=asked: all(one.has_begun for one in asked.values()),
            lambda asked=asked: f"first results of {[name for name, one in asked.items() if not one.has_begun]}",
        )
        own_row = (str(number).encode(),)
        assert asked["row-local"].seen[0].rows == Counter({own_row: 1})
        assert asked["full"].seen[0].rows == Counter({own_row: 1})
        assert asked["source"].seen[0].rows == Counter({(f"[{number}]".encode(),): 1})
        assert asked["shared"].seen[0].rows[own_row] == 1
        road.stop(*asked.values())


def test_hundreds_of_subscribes_in_a_second_end_in_few_jobs(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, owner int NOT NULL, amount numeric(10, 2))")
    connection.execute(f"INSERT INTO {own} SELECT n, n % {QUERIES}, n FROM generate_series(1, 5000) n")
    sql = f"SELECT owner, count(*), sum(amount) FROM {own} WHERE owner = {{}} GROUP BY owner"
    queries = [road.query(sql.format(number)) for number in range(QUERIES)]
    assert len({query.template_id for query in queries}) == 1
    before = road.worker.metric("tidewire_recompute_ticks_total")
    barrier_id = barrier.emit(connection)
    followers = [road.ask(query, barrier_id=barrier_id) for query in queries]
    road.until(lambda: all(one.has_begun for one in followers), "the first results", 240)
    ticks = road.worker.metric("tidewire_recompute_ticks_total") - before
    print(f"{QUERIES} subscribes were answered by {ticks:.0f} ticks")
    assert ticks <= QUERIES / 10

    answers = {
        str(owner).encode(): (str(owner).encode(), str(count).encode(), str(total).encode())
        for owner, count, total in connection.execute(f"SELECT owner, count(*), sum(amount) FROM {own} GROUP BY owner")
    }
    for number, follower in enumerate(followers):
        assert follower.rows == Counter([answers[str(number).encode()]])

    # One commit that concerns every one of them, and one that concerns three.
    connection.execute(f"UPDATE {own} SET amount = amount + 0.25")
    connection.execute(f"DELETE FROM {own} WHERE owner IN (7, 8, 9) AND id < 1000")
    road.catch_up(*followers, within_s=240)
    sample = [*followers[5:12], *followers[::50]]
    for follower in sample:
        assert follower.rows == Counter(road.answer(follower.query)), follower.query.sql


def test_of_a_crowd_that_no_record_can_name_everyone_is_answered(road, connection, own):
    """A record of `queries` names a thousand requests at most: those of the records before it stay open."""
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY)")
    follower = road.good(f"SELECT id FROM {own}")
    barrier_id = barrier.emit(connection)
    crowd = [uuid4().bytes for _ in range(300)]
    follower.asked.update(crowd)
    for first in range(0, len(crowd), 100):
        road.want_only(follower.query, crowd[first : first + 100], barrier_id)
    road.until(lambda: crowd_is_answered(follower, crowd), "an answer to each", 240)


def crowd_is_answered(follower, crowd):
    return all(request_id in follower.answered for request_id in crowd)
