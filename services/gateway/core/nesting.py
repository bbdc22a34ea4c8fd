"""How deep JSON from outside may be nested: the reader of JSON goes deeper than its writer and than Python's stack."""

from typing import Any

import orjson

DEEPEST = 64


class NestedTooDeep(ValueError):
    """JSON with more levels than are read."""

    def __init__(self) -> None:
        super().__init__(f"lists and objects may be nested {DEEPEST} deep")


def read_json(text: str | bytes) -> Any:
    """The value; orjson.JSONDecodeError (a ValueError), or NestedTooDeep."""
    value = orjson.loads(text)
    refuse_deep(value)
    return value


def refuse_deep(value: Any) -> None:
    """Raise NestedTooDeep; level by level, so that no depth is too much for it."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [inner for outer in level if isinstance(outer, dict | list) for inner in _inside(outer)]
        if not level:
            return
    raise NestedTooDeep


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value
