"""Go's pgx works through the gateway as it does directly (issue 5)."""

import pytest

from tests.clients.programs import go_command, program


@pytest.fixture(scope="module")
def pgx(doors):
    """Runs a scenario by both doors; what both answered."""
    command = go_command()
    return lambda scenario: doors.same(program(command, scenario))


def test_a_pool(pgx):
    said = pgx("pool")
    assert said["answers"] == [2 * n for n in range(300)]
    assert (said["count"], said["few"]) == (300, True)


def test_every_mode_of_the_protocol(pgx):
    said = pgx("modes")
    assert said["cache statement"]["words"] == "Grüße 世界"
    assert (said["held"], said["last"], said["left"]) == (800, 800, 0)


def test_batches(pgx):
    said = pgx("batch")
    assert said["sum"] == sum(range(3000))
    assert said["error"]["Code"] == "23505"


def test_a_pipeline_with_an_error_within(pgx):
    said = pgx("pipeline")["said"]
    assert said.count("sync") == 6
    assert any(isinstance(one, dict) and one["Code"] == "22012" for one in said)


def test_copy_in_both_directions(pgx):
    said = pgx("copy")
    assert (said["copied"], said["tag"], said["count"]) == (40_000, "COPY 40000", 80_000)
    assert said["refused"]["Code"] == "22P02"


def test_notifications(pgx):
    said = pgx("notifications")
    assert said["heard"][-1] == ["news", "payload 38", True]
    assert said["quiet"]


def test_a_context_cancels_at_the_server(pgx):
    said = pgx("cancelled")
    assert said["error"]["Code"] == "57014"
    assert (said["alive"], said["timeout"], said["closed"]) == (1, True, True)


def test_errors_and_notices(pgx):
    said = pgx("errors")
    assert said["errors"][0]["ConstraintName"] == "k"
    assert said["notices"][0]["Hint"] == "its hint"


def test_cursors_and_abandoned_results(pgx):
    said = pgx("cursors")
    assert (said["tag"], said["count"]) == ("SELECT 200000", 49)


def test_large_values(pgx):
    assert pgx("large") == {"same": True, "length": 16_000_000}


def test_transactions(pgx):
    assert pgx("transactions")["status"] == ["I", "T", "E", "T", "I"]
