"""pgjdbc works through the gateway as it does directly (issue 5)."""

import pytest

from tests.clients.programs import java_command, program


@pytest.fixture(scope="module")
def jdbc(doors):
    """Runs a scenario by both doors; what both answered."""
    command = java_command()
    return lambda scenario: doors.same(program(command, scenario))


def test_statements_prepared_at_once_and_every_query_mode(jdbc):
    seen = jdbc("prepared")
    assert seen[700:702] == [[[1]], [[2]]]
    assert seen[2100] == [[700]]


def test_values_in_text_and_binary(jdbc):
    assert jdbc("values")[0][0][7] == "Grüße 世界"


def test_the_copy_manager(jdbc):
    seen = jdbc("copy")
    assert seen[0] == seen[2] == 50_000
    assert seen[-1][0][0] == 100_000


def test_portals_by_fetch_size(jdbc):
    seen = jdbc("cursors")
    assert seen[4] == sum(range(2001))
    assert seen[5][1] == "22012"


def test_cancel_and_query_timeout(jdbc):
    by_cancel, by_timeout, alive = jdbc("cancelled")
    assert by_cancel[1] == by_timeout[1] == "57014"
    assert alive == [["alive"]]


def test_batches_and_generated_keys(jdbc):
    seen = jdbc("batches")
    assert seen[:2] == [3000, 3000]
    assert seen[3] == "23505"


def test_notifications(jdbc):
    assert jdbc("notifications")[-1] == ["news", "payload 28", True]


def test_savepoints(jdbc):
    assert jdbc("transactions")[-2:] == [[[2], [3]], True]


def test_large_values(jdbc):
    assert jdbc("large")[0] is True


def test_errors_and_warnings(jdbc):
    seen = jdbc("errors")
    assert seen[0] == ["a notice", "00000"]
    assert seen[2][1] == "TW001"


def test_a_pool_shared_by_threads(jdbc):
    seen = jdbc("pool")
    assert seen[:250] == [[[2 * n]] for n in range(250)]
    assert seen[250:] == [[[250]]] * 5
