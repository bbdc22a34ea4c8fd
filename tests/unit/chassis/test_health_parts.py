"""Readiness is the sum of what the parts of a process report."""

from services.chassis.health import Progress


def test_a_process_is_ready_when_each_of_its_parts_is():
    progress = Progress()
    first, second = progress.part("HTTP port"), progress.part("PG port")
    progress.ready()
    assert progress.state() == (False, "HTTP port: starting; PG port: starting")
    first.ready()
    assert progress.state() == (False, "PG port: starting")
    second.ready()
    assert progress.state() == (True, "ready")


def test_one_part_s_word_does_not_overwrite_another_s():
    progress = Progress()
    part = progress.part("HTTP port")
    part.not_ready("draining")
    progress.ready()
    assert progress.state() == (False, "HTTP port: draining")
    part.ready()
    progress.not_ready("Kafka does not answer")
    assert progress.state() == (False, "Kafka does not answer")
