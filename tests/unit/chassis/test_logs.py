"""Every line is a JSON object, whoever logged it."""

import datetime
import io
import json
import logging

import pytest
import structlog

from services.chassis.logs import configure


@pytest.fixture
def stream():
    handlers, level = logging.root.handlers[:], logging.root.level
    yield io.BytesIO()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_carries_its_fields_the_service_and_the_utc_time(stream):
    configure("capture", "info", stream).bind(session=7).info("subscription_opened", lsn="0/16", odd={1: b"x"})
    [line] = lines(stream)
    assert datetime.datetime.fromisoformat(line.pop("time")).tzinfo == datetime.UTC
    assert line == {
        "service": "capture",
        "session": 7,
        "event": "subscription_opened",
        "lsn": "0/16",
        "odd": {"1": "b'x'"},
        "level": "info",
    }


def test_what_is_below_the_level_is_not_written(stream):
    configure("capture", "warning", stream).info("subscription_opened")
    assert lines(stream) == []


def test_libraries_and_their_tracebacks_are_json_too(stream):
    configure("capture", "info", stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("kafka").exception("broker %s down", 1)
    [line] = lines(stream)
    assert (line["event"], line["logger"], line["message"], line["level"]) == (
        "library_logged",
        "kafka",
        "broker 1 down",
        "error",
    )
    assert "ValueError: two\nlines" in line["exception"]
