"""What a request of the topics door may say, what it gets where it says nothing, and the door's settings."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.chassis.settings import load
from services.gateway.core.topics.answers import clamped, start_of, waiting_s
from services.gateway.inbound.http_port.topics import AckBody, ConsumeBody, named
from services.gateway.outbound.group_offsets import group_name
from services.gateway.settings import Topics, with_known_names
from tests.conformance.kalamdb import of_topics, topic_vector


class TopicsOnly(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topics: Topics = Topics()


def loaded(**environ: str) -> Topics:
    return load(TopicsOnly, with_known_names(environ)).topics


def test_k19_the_settings_have_the_documents_names_and_values(tmp_path: Path) -> None:
    vector = topic_vector("k.config")
    wanted = vector["toml"]["topics"]
    assert {name: getattr(Topics(), name) for name in wanted} == wanted
    file = tmp_path / "tidewire.toml"
    file.write_text("[topics]\ndefault_consume_timeout = 5\nmax_consume_timeout = 7\nallow_user_role_consume = true\n")
    assert loaded(TIDEWIRE_CONFIG=str(file)) == Topics(
        default_consume_timeout=5.0, max_consume_timeout=7.0, allow_user_role_consume=True
    )
    assert Topics().visibility_timeout_secs == vector["upstream_only"]["topics"]["visibility_timeout_secs"]
    for name in vector["upstream_only"]["env"]:
        assert loaded(**{name: "9"}).visibility_timeout_secs == 9.0


@pytest.mark.parametrize(
    ("asked", "held_s"), [(None, 28.0), (0, 0.0), (-1, 0.0), (9.5, 9.5), (10, 8.0), (300, 298.0), (1e9, 298.0)]
)
def test_k16_k19_a_consume_is_held_30_s_unless_it_says_otherwise_and_300_s_at_most(
    asked: float | None, held_s: float
) -> None:
    """Less 2 s where it is long, so that the answer comes before the client gives up (decision 25)."""
    own = Topics()
    assert waiting_s(asked, default=own.default_consume_timeout, most=own.max_consume_timeout) == held_s


def test_k14_a_request_that_says_little_gets_the_documents_defaults() -> None:
    vector = topic_vector("k.http.consume.req")
    whole = msgspec.convert(vector["body"], ConsumeBody)
    assert (named(whole), whole.group_id, start_of(whole.start)) == ("app.new_messages", "ai-service", 12345)
    little = msgspec.convert({"topic": "app.new_messages"}, ConsumeBody)
    defaults = {"limit": clamped(little.limit), "partition_id": little.partition_id}
    assert {**defaults, "timeout_seconds": Topics().default_consume_timeout} == vector["defaults"]
    assert start_of(little.start) == topic_vector("k.http.start.variants")["default"]


@of_topics("k.http.start.latest", "k.http.start.earliest")
def test_k14_a_start_is_read(vector: dict[str, Any]) -> None:
    assert start_of(vector["value"]) == vector["value"]


@of_topics("k.http.start.variants")
def test_k14_starts_are_read_in_any_case_and_nothing_else(vector: dict[str, Any]) -> None:
    assert [start_of(value) for value in vector["accept"]] == ["Latest", "Earliest", 5, 5]
    for value in [*vector["reject"], True, {"Offset": True}, {"Offset": 2**63}, {"Offset": 1, "offset": 2}, None]:
        with pytest.raises(ValueError, match='start must be "Latest", "Earliest" or'):
            start_of(value)


@of_topics("k.http.ack")
def test_k17_an_ack_is_read(vector: dict[str, Any]) -> None:
    body = msgspec.convert(vector["body"], AckBody)
    assert (named(body), body.group_id, body.partition_id, body.upto_offset, body.claim_id) == (
        "app.new_messages",
        "ai-service",
        0,
        220,
        None,
    )


def test_k6_places_of_groups_never_meet() -> None:
    """Vector k.storage: one place for each topic, group and partition, whatever letters the names have."""
    names = [
        (topic, group, number) for topic in ("a", "a.b", "b") for group in ("g", "b/g", "g/1") for number in (0, 1)
    ]
    assert len({group_name(*each) for each in names}) == len(names)
