"""Taking Tidewire out of a database while a capture runs there: it stays out, and the capture goes."""

import subprocess
import sys

from tests.fixtures.capture import CapturedDatabase

LEFT = """
    SELECT (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_event_trigger),
           (SELECT count(*) FROM pg_replication_slots WHERE database = current_database()),
           to_regnamespace('_tidewire') IS NULL, (SELECT relreplident FROM pg_class WHERE relname = 'keyless')
"""


def test_what_is_removed_under_a_running_capture_stays_removed(captured: CapturedDatabase):
    capture = captured.start().wait_ready()
    with captured.connect() as connection:
        connection.execute("CREATE TABLE keyless (a int)")
        assert connection.execute(LEFT).fetchone() == (33, 6, 1, False, "f")
        removing = [sys.executable, "-m", "services.cli", "uninstall", "--dsn", captured.dsn]
        removed = subprocess.run(removing, capture_output=True, text=True)
        assert (removed.returncode, removed.stderr) == (0, "")
        assert capture.process.wait(30) == 3
        assert connection.execute(LEFT).fetchone() == (0, 0, 0, True, "d")
    assert "Tidewire was removed from this database" in capture.output()


def test_a_capture_started_after_the_removal_watches_anew(captured: CapturedDatabase):
    captured.start().wait_ready().terminate()
    removing = [sys.executable, "-m", "services.cli", "uninstall", "--dsn", captured.dsn]
    subprocess.run(removing, check=True, capture_output=True)
    captured.start().wait_ready()
    assert [type(event).__name__ for event in captured.events_up_to_now()].count("HistoryBegan") == 2


def test_a_read_only_default_and_old_string_rules_do_not_bind_capture(captured: CapturedDatabase):
    with captured.connect() as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
        connection.execute(f"ALTER DATABASE {name} SET standard_conforming_strings = off".encode())
    captured.start().wait_ready()
    notices: list[str] = []
    with captured.connect(options="-c default_transaction_read_only=off") as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        connection.execute("CREATE TABLE goods (a int)")
        connection.execute("UPDATE goods SET a = 1")
    assert notices == []
