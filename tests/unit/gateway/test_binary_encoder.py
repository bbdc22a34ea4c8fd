"""V34, V42–V53, V16–V17: which rows of a change are sent in part, in which messages, and in which order.

The cases named `vibe.…` are the golden ones of proto/golden/vibesql.json.
"""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proto
from proto.pgwire.framing import Framer
from proto.pgwire.live import (
    NO_SUBSCRIPTION,
    Ack,
    Data,
    PartialData,
    PartialRow,
    Refused,
    Selective,
    Update,
    decode_from_gateway,
)
from proto.positions import Lsn
from proto.rows import encode_block
from services.chassis.settings import BadSetting, load
from services.gateway.core.delivery.difference import change_of, net_of
from services.gateway.core.encoders.binary import BinaryEncoder
from services.gateway.core.encoders.partial_rows import PartialRowRule, RowDecision
from services.gateway.errors import Refusal, RefusalCode
from services.gateway.settings import Settings

VECTORS = {
    vector["id"]: vector
    for vector in json.loads((Path(proto.__file__).parent / "golden/vibesql.json").read_text())["vectors"]
}
ONE = uuid4()
LEAST = {"TIDEWIRE_KAFKA_BOOTSTRAP": "k:1", "TIDEWIRE_POSTGRES_DSN": "host=p", "TIDEWIRE_SEAL_KEY": "k" * 32}
ALWAYS = PartialRowRule(max_changed_columns_ratio=1.0)


def row(*values):
    return tuple(None if value is None else str(value).encode() for value in values)


def told(before, after, *, key=(0,), rule=PartialRowRule(), wants_lsn=False):  # noqa: B008
    """What a subscriber is told when its result goes from one list of rows to the other."""
    net = net_of((encode_block([(one, -1) for one in before]), encode_block([(one, 1) for one in after])))
    batch = BinaryEncoder(rule, wants_lsn).update(change_of(net, key), Lsn(0))
    framer = Framer()
    framer.feed(batch.addressed(ONE.bytes))
    return [decode_from_gateway(frame) for frame in framer.frames()]


def changed(columns, count, base="a"):
    """A row with a key, and the same with so many other columns changed."""
    before = row(1, *[base] * (columns - 1))
    return before, row(1, *["z"] * count, *[base] * (columns - 1 - count))


@pytest.mark.parametrize("name", [name for name in VECTORS if name.startswith("vibe.threshold.")])
def test_v45_v46_the_golden_thresholds(name):
    case = VECTORS[name]
    before, after = changed(case["update"]["total_columns"], case["update"]["changed"])
    (message,) = told([before], [after])
    assert isinstance(message, PartialData if case["expect_message"] == "F7" else Data)
    if case["expect_message"] == "F2":
        assert message == Data(ONE, Update(case["expect_update_type"]), (after,))


def test_v46_only_strictly_more_than_the_maximum_is_sent_whole():
    assert PartialRowRule().decide(3, 5) is RowDecision.TOO_MANY
    assert PartialRowRule().decide(2, 4) is RowDecision.PARTIAL


def test_v42_v44_the_changed_columns_and_always_the_key():
    before, after = row(7, "a", "b", "c", 8), row(7, "a", "x", "c", 8)
    assert told([before], [after], key=(0, 4)) == [PartialData(ONE, (PartialRow(5, {0: b"7", 2: b"x", 4: b"8"}),))]


def test_v43_v50_to_null_and_from_null_go_in_part():
    to_null, from_null = (row(1, "a", "b", "c"), row(1, None, "b", "c")), (row(2, None, "b", "c"), row(2, "", "b", "c"))
    (message,) = told([to_null[0], from_null[0]], [to_null[1], from_null[1]])
    assert message.rows == (PartialRow(4, {0: b"1", 1: None}), PartialRow(4, {0: b"2", 1: b""}))


def test_v47_vibe_partial_multirow_has_the_changed_rows_alone():
    expect = VECTORS["vibe.partial.multirow"]["expect"]
    before = [row(n, "a", "new", "c") for n in range(5)]
    after = [row(n, "a", "paid", "c") for n in range(5)]
    (message,) = told([*before, row(9, "a", "new", "c")], [*after, row(9, "a", "new", "c")])
    assert isinstance(message, PartialData) and len(message.rows) == expect["row_count"]
    assert {tuple(sorted(one.values)) for one in message.rows} == {tuple(expect["present"])}


def test_v48_rows_over_and_under_the_threshold_part_ways_and_none_is_lost():
    under, over = (row(1, "a", "b", "c"), row(1, "z", "b", "c")), (row(2, "a", "b", "c"), row(2, "z", "z", "z"))
    messages = told([under[0], over[0]], [under[1], over[1]])
    assert messages == [
        PartialData(ONE, (PartialRow(4, {0: b"1", 1: b"z"}),)),
        Data(ONE, Update.UPDATE, (over[1],)),
    ]


def test_v49_vibe_partial_insertdelete_rows_that_come_and_go_are_whole():
    assert told([], [row(1, "a", "b", "c")]) == [Data(ONE, Update.INSERT, (row(1, "a", "b", "c"),))]
    assert told([row(1, "a", "b", "c")], []) == [Data(ONE, Update.DELETE, (row(1, "a", "b", "c"),))]


def test_v34_vibe_delta_order_deletes_partials_updates_inserts():
    before = [row(1, "a", "b", "c"), row(2, "a", "b", "c"), row(3, "a", "b", "c")]
    after = [row(2, "z", "b", "c"), row(3, "z", "z", "z"), row(4, "a", "b", "c")]
    messages = told(before, after)
    assert [getattr(message, "update", "F7") for message in messages] == [
        Update.DELETE,
        "F7",
        Update.UPDATE,
        Update.INSERT,
    ]


def test_v51_disabled_means_never_in_part():
    before, after = changed(8, 1)
    assert told([before], [after], rule=PartialRowRule(enabled=False)) == [Data(ONE, Update.UPDATE, (after,))]


def test_v52_fewer_than_the_minimum_is_sent_whole():
    rule = PartialRowRule(min_changed_columns=2)
    before, after = changed(8, 1)
    assert told([before], [after], rule=rule) == [Data(ONE, Update.UPDATE, (after,))]
    before, after = changed(8, 2)
    assert isinstance(told([before], [after], rule=rule)[0], PartialData)


@pytest.mark.parametrize("name", ["vibe.delta.dups", "vibe.delta.pkchange", "vibe.delta.nopk"])
def test_v32_the_golden_deltas(name):
    case = VECTORS[name]
    rows = {side: [row(*values) for values in case[side]] for side in ("old", "new")}
    expected = [
        Data(ONE, update, tuple(row(*values) for values in case["expect"][kind]))
        for update, kind in ((Update.DELETE, "deletes"), (Update.UPDATE, "updates"), (Update.INSERT, "inserts"))
        if case["expect"][kind]
    ]
    assert told(rows["old"], rows["new"], key=tuple(case.get("pk", ()))) == expected


def test_without_a_certain_key_nothing_goes_in_part():
    """Errata 2.1, points 8 and 9: no guess at a key, and a composite one counts only as a whole."""
    before, after = changed(8, 1)
    assert told([before], [after], key=()) == [
        Data(ONE, Update.DELETE, (before,)),
        Data(ONE, Update.INSERT, (after,)),
    ]
    assert told([row(1, 1, "a")], [row(1, 2, "a")], key=(0, 1)) == [
        Data(ONE, Update.DELETE, (row(1, 1, "a"),)),
        Data(ONE, Update.INSERT, (row(1, 2, "a"),)),
    ]


def test_v17_a_subscribe_overrides_the_server_field_by_field():
    server = PartialRowRule(enabled=True, min_changed_columns=3, max_changed_columns_ratio=0.25)
    assert server.overlaid(None) == server
    assert server.overlaid(Selective(enabled=False)) == PartialRowRule(
        enabled=False, min_changed_columns=3, max_changed_columns_ratio=0.25
    )
    assert server.overlaid(Selective(min_changed_columns=1)).max_changed_columns_ratio == 0.25
    assert server.overlaid(Selective(max_changed_columns_ratio=1.0)).min_changed_columns == 3
    assert server.overlaid(Selective(max_changed_columns_ratio=float("nan"))) == server
    # A server that never sends in part does for a subscription that asks for it.
    assert PartialRowRule(enabled=False).overlaid(Selective(enabled=True)).decide(1, 4) is RowDecision.PARTIAL


def test_v51_the_settings_under_their_own_names(tmp_path):
    file = tmp_path / "tidewire.toml"
    file.write_text("[subscriptions.selective_updates]\nenabled = false\nmax_changed_columns_ratio = 0.75\n")
    environ = LEAST | {"TIDEWIRE_CONFIG": str(file)}
    assert load(Settings, LEAST).subscriptions.selective_updates.rule == PartialRowRule()
    assert load(Settings, environ).subscriptions.selective_updates.rule == PartialRowRule(
        enabled=False, max_changed_columns_ratio=0.75
    )
    environ |= {
        "TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATES_ENABLED": "true",
        "TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATES_MIN_CHANGED_COLUMNS": "2",
    }
    assert load(Settings, environ).subscriptions.selective_updates.rule == PartialRowRule(
        min_changed_columns=2, max_changed_columns_ratio=0.75
    )
    with pytest.raises(BadSetting, match="max_changed_columns_ratio must be from 0 to 1"):
        load(Settings, LEAST | {"TIDEWIRE_SUBSCRIPTIONS_SELECTIVE_UPDATES_MAX_CHANGED_COLUMNS_RATIO": "2"})


def decoded(data):
    framer = Framer()
    framer.feed(data)
    return [decode_from_gateway(frame) for frame in framer.frames()]


@pytest.mark.parametrize("code", RefusalCode)
def test_a_refusal_names_no_subscription_where_there_never_was_one(code):
    """Decision 5: parse errors, limits and rates, and what the registry did not take."""
    never = ("parse_error", "filter_error", "limit_exceeded", "rate_limited", "not_registered")
    named = NO_SUBSCRIPTION if code.value in never else ONE
    assert decoded(BinaryEncoder(PartialRowRule()).refusal(ONE.bytes, Refusal(code, "why"))) == [Refused(named, "why")]


def test_an_acknowledgement_says_how_many_tables_are_watched():
    assert decoded(BinaryEncoder(PartialRowRule()).acknowledgement(ONE.bytes, 3, (0,))) == [Ack(ONE, 3)]


VALUES = st.sampled_from([None, b"", b"a", b"b"])
ROWS = st.dictionaries(st.sampled_from([b"1", b"2", b"3"]), st.tuples(VALUES, VALUES, VALUES))


@given(
    ROWS,
    ROWS,
    st.builds(PartialRowRule, enabled=st.booleans(), max_changed_columns_ratio=st.sampled_from([0.0, 0.5, 1.0])),
)
def test_v53_a_client_that_merges_what_it_is_told_holds_the_result(before, after, rule):
    held = {key: (key, *values) for key, values in before.items()}
    wanted = {key: (key, *values) for key, values in after.items()}
    for message in told(held.values(), wanted.values(), rule=rule):
        if isinstance(message, PartialData):
            for one in message.rows:
                known = held[one.values[0]]
                held[known[0]] = tuple(one.values.get(at, value) for at, value in enumerate(known))
        else:
            for one in message.rows:
                if message.update is Update.DELETE:
                    assert held.pop(one[0]) == one
                else:
                    assert (one[0] in held) == (message.update is Update.UPDATE)
                    held[one[0]] = one
    assert held == wanted
