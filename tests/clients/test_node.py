"""node-postgres works through the gateway as it does directly (issue 5)."""

import pytest

from tests.clients.programs import node_command, program


@pytest.fixture(scope="module")
def node(doors):
    """Runs a scenario by both doors; what both answered."""
    command = node_command()
    return lambda scenario: doors.same(program(command, scenario))


def test_a_pool(node):
    said = node("pool")
    assert said["answers"] == [2 * n for n in range(300)]
    assert said["most"] == 5


def test_named_statements(node):
    said = node("prepared")
    assert said["held"] == [{"count": "600"}]
    assert said["error"]["code"] == "22012"


def test_values(node):
    assert node("values")["rows"][0]["words"] == "Grüße 世界"


def test_cursors_and_streams(node):
    said = node("cursors")
    assert said["sum"] == sum(range(20_001))
    assert said["error"]["code"] == "22012"


def test_copy_in_both_directions(node):
    said = node("copy")
    assert said["rows"][0]["count"] == "60000"
    assert said["refused"]["code"] == "22P02"


def test_notifications(node):
    heard = node("notifications")
    assert heard[-1] == ["news", "last", True]
    assert len(heard) == 21


def test_cancellation(node):
    said = node("cancelled")
    assert said["byPid"]["code"] == said["byKey"]["code"] == "57014"


def test_settings_of_the_start(node):
    assert node("timeouts")["error"]["code"] == "57014"


def test_errors_and_notices(node):
    said = node("errors")
    assert said["errors"][0]["constraint"] == "k"
    assert said["notices"][0]["hint"] == "its hint"


def test_large_values(node):
    assert node("large")[0] is True


def test_a_session_that_the_server_ends(node):
    assert node("terminated")[0]["code"] == "57P01"
