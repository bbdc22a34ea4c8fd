"""Where in the log each transaction committed."""

import psycopg

from proto.positions import Lsn
from proto.streams.changes import BarrierPassed, Committed
from services.changelog import barrier
from services.changelog.follower import ChangesFollower
from services.chassis.kafka import Kafka


def commits_until_now(connection: psycopg.Connection, kafka: Kafka) -> dict[int, Lsn]:
    """By transaction id, from the log's beginning up to a barrier that is emitted now."""
    barrier_id = barrier.emit(connection)
    follower = ChangesFollower(kafka, client_id="oracle")
    follower.from_earliest()
    found: dict[int, Lsn] = {}
    reached = False
    try:
        while not reached:
            for event in follower.read(0.2):
                if isinstance(event, Committed):
                    found[event.xid] = event.commit_lsn
                elif isinstance(event, BarrierPassed) and event.barrier_id == barrier_id:
                    reached = True
    finally:
        follower.close()
    return found
