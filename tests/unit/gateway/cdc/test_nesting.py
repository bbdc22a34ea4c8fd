"""JSON that is nested deeper than can be written again is refused when it is read."""

import orjson
import pytest

from services.gateway.core.nesting import DEEPEST, NestedTooDeep, read_json


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + "1" + closing * depth


@pytest.mark.parametrize("depth", [0, 1, DEEPEST - 1, DEEPEST])
@pytest.mark.parametrize("shape", [("[", "]"), ('{"a":', "}")])
def test_what_is_read_can_be_written(depth, shape):
    assert orjson.loads(orjson.dumps(read_json(nested(depth, *shape)))) == orjson.loads(nested(depth, *shape))


@pytest.mark.parametrize("depth", [DEEPEST + 1, 254, 260, 1000])
@pytest.mark.parametrize("shape", [("[", "]"), ('{"a":', "}")])
def test_deeper_json_is_refused(depth, shape):
    with pytest.raises(NestedTooDeep):
        read_json(nested(depth, *shape))


def test_empty_lists_count_as_a_level():
    read_json("[" * DEEPEST + "]" * DEEPEST)
    with pytest.raises(NestedTooDeep):
        read_json("[" * (DEEPEST + 2) + "]" * (DEEPEST + 2))


def test_what_is_no_json_is_told_as_such():
    with pytest.raises(orjson.JSONDecodeError):
        read_json("[")
