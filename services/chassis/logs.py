"""Logs: one JSON object a line on standard output; an event is a constant, its context is in fields."""

import logging
import sys
from typing import BinaryIO

import orjson
import structlog
from structlog.typing import FilteringBoundLogger, Processor


def configure(service: str, level: str = "info", stream: BinaryIO | None = None) -> FilteringBoundLogger:
    """Set the process's logging up, the standard library's included, and return the service's logger."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=_processors(),
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.BytesLoggerFactory(stream or sys.stdout.buffer),
        cache_logger_on_first_use=True,
    )
    log: FilteringBoundLogger = structlog.get_logger().bind(service=service)
    logging.root.handlers[:] = [_Forward(log)]
    logging.root.setLevel(max(threshold, logging.INFO))
    logging.captureWarnings(True)
    return log


def _processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(serializer=_json),
    ]


def _json(event: object, **_: object) -> bytes:
    return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS)


class _Forward(logging.Handler):
    """A library's log record becomes one event with the library's words in a field."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(
            record.levelno,
            "library_logged",
            logger=record.name,
            message=record.getMessage(),
            exc_info=record.exc_info or None,
        )
