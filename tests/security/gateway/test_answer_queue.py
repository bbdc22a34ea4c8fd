"""Whenever the account of a session says that PostgreSQL owes nothing, PostgreSQL has nothing left to say.

Generated conversations (pipelines, COPY both ways, errors, cancellations, portals, Flush, function calls, malformed
messages), played against a real PostgreSQL; a question with a nonce shows at each rest that its answer comes next.
"""

import os

import psycopg
import pytest

from tests.fixtures.postgres import VERSIONS, start_postgres
from tests.security.gateway.conversations import MADE, Fuzz

SHORT, LONG = 500, 100_000


def played(dsn: str, seed: int, count: int) -> Fuzz:
    fuzz = Fuzz(dsn, seed)
    try:
        for number in range(count):
            fuzz.play()
            if number % 1000 == 999:
                print(f"seed {seed}: {dict(fuzz.counts)}", flush=True)
    finally:
        fuzz.close()
    return fuzz


@pytest.mark.parametrize("version", VERSIONS)
def test_at_rest_nothing_is_owed(tmp_path, version):
    with start_postgres(tmp_path, version) as server:
        made(server.dsn)
        counts = played(server.dsn, version, SHORT).counts
    assert counts["conversations"] == SHORT
    assert all(counts[f"at rest {status}"] > 0 for status in "ITE"), counts
    assert counts["unsure"] < SHORT / 2, counts


@pytest.mark.chaos
def test_at_rest_nothing_is_owed_in_a_hundred_thousand_conversations(tmp_path):
    seed = int(os.environ.get("FUZZ_SEED", "1"))
    with start_postgres(tmp_path) as server:
        made(server.dsn)
        counts = played(server.dsn, seed, LONG).counts
    print(f"seed {seed}: {dict(counts)}")
    assert counts["conversations"] == LONG


def made(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(MADE)
