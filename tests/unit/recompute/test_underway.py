"""A template that was under way at two ends of the worker is kept out for a while."""

from services.recompute.outbound.underway import UnderWay, blame

POISON, INNOCENT = b"poison", b"innocent"


class Wall:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


def started(folder, wall):
    return UnderWay(folder, quarantine_s=600.0, clock=wall)


def test_a_finished_evaluation_leaves_no_record(tmp_path):
    wall = Wall()
    before = started(tmp_path, wall)
    before.begin("shared", [POISON])
    before.clear("shared")
    assert not started(tmp_path, wall).is_suspect(POISON)


def test_a_template_is_suspect_after_one_crash_and_quarantined_after_two(tmp_path):
    wall = Wall()
    started(tmp_path, wall).begin("shared", [POISON, INNOCENT])
    blame(tmp_path)
    second = started(tmp_path, wall)
    assert second.is_suspect(POISON) and second.is_suspect(INNOCENT)
    assert second.quarantined_for_s(POISON) is None
    second.succeeded([INNOCENT])
    second.begin("slow", [POISON])
    third = started(tmp_path, wall)
    assert third.quarantined_for_s(POISON) == 600.0
    assert not third.is_suspect(INNOCENT)
    wall.now_s += 601
    assert third.quarantined_for_s(POISON) is None
    assert third.is_suspect(POISON)


def test_a_crash_outside_of_an_evaluation_blames_no_template(tmp_path):
    wall = Wall()
    started(tmp_path, wall)
    started(tmp_path, wall).begin("slow", [POISON])
    third = started(tmp_path, wall)
    assert third.quarantined_for_s(POISON) is None


def test_files_that_cannot_be_read_are_no_reason_not_to_start(tmp_path):
    for name in ("strikes.json", "shared", "slow"):
        (tmp_path / name).write_bytes(b"{not json")
    assert not started(tmp_path, Wall()).is_suspect(POISON)


def test_a_kill_during_a_shared_evaluation_blames_no_template(tmp_path):
    wall = Wall()
    started(tmp_path, wall).begin("shared", [POISON, INNOCENT])
    second = started(tmp_path, wall)
    assert not second.is_suspect(POISON) and not second.is_suspect(INNOCENT)


def test_operators_leave_a_template_alone_that_they_were_at_in_a_crash(tmp_path):
    """It is evaluated as ever: only operators are kept from it, also over a further start."""
    wall = Wall()
    first = started(tmp_path, wall)
    first.begin("incremental", [POISON, INNOCENT])
    first.begin("incremental", [POISON])
    started(tmp_path, wall)
    third = started(tmp_path, wall)
    assert third.is_barred(POISON) and not third.is_barred(INNOCENT)
    assert not third.is_suspect(POISON)
    wall.now_s += 601
    assert not third.is_barred(POISON)
    assert not started(tmp_path, wall).is_barred(POISON)
