"""V60: what is counted, under which names and labels."""

import json
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import proto
from proto.pgwire.conversation import Traffic
from proto.positions import Lsn
from proto.rows import encode_block
from services.gateway.core.delivery.difference import change_of, net_of
from services.gateway.core.encoders.binary import BinaryEncoder
from services.gateway.core.encoders.partial_rows import PartialRowRule
from services.gateway.metrics import Metrics, PartialRows

VECTORS = json.loads((Path(proto.__file__).parent / "golden/vibesql.json").read_text())["vectors"]
EFFICIENCIES = [vector for vector in VECTORS if vector["id"].startswith("vibe.metric.efficiency")]


def statistics(before, after, *, key=(0,), rule=PartialRowRule()):  # noqa: B008
    net = net_of((encode_block([(one, -1) for one in before]), encode_block([(one, 1) for one in after])))
    return BinaryEncoder(rule).update(change_of(net, key), Lsn(0)).statistics


def page(registry):
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


BEFORE = [(b"1", b"a", b"b", b"c"), (b"2", b"a", b"b", b"c"), (b"3", b"a", b"b", b"c")]
AFTER = [(b"1", b"z", b"b", b"c"), (b"2", b"z", b"z", b"z"), (b"4", b"a", b"b", b"c")]


def test_v60_a_step_is_counted_once_for_all_who_got_it():
    registry = CollectorRegistry()
    metrics = Metrics(registry, Traffic())
    metrics.sent(statistics(BEFORE, AFTER), 1000)
    shown = page(registry)
    for kind, count in {"delta_delete": 1, "selective": 1, "delta_update": 1, "delta_insert": 1, "full": 0}.items():
        assert shown[f'vibesql_subscription_updates_total{{type="{kind}"}}'] == 1000 * count
    assert shown['vibesql_partial_update_fallbacks_total{reason="threshold_exceeded"}'] == 1000
    decisions = "vibesql_subscription_selective_update_decisions_total"
    assert shown[decisions + '{decision="sent_partial",reason="within_threshold"}'] == 1000
    assert shown[decisions + '{decision="sent_full",reason="threshold_exceeded"}'] == 1000
    assert shown["vibesql_partial_update_efficiency"] == 0.5
    assert shown["vibesql_selective_update_columns_sent_sum"] == 2000
    assert shown["vibesql_selective_update_changed_ratio_sum"] == 250
    assert shown["vibesql_subscription_selective_update_column_ratio_count"] == 2000
    assert shown['vibesql_subscription_selective_update_column_ratio_bucket{le="0.3"}'] == 1000
    assert shown["vibesql_partial_update_bytes_saved_count"] == 1000
    assert shown["vibesql_partial_update_bytes_saved_sum"] == 1000 * (2 * 5 - 1)


@pytest.mark.parametrize("vector", EFFICIENCIES, ids=lambda vector: vector["id"])
def test_v60_the_golden_efficiencies(vector):
    sent, columns = vector["record"]
    registry = CollectorRegistry()
    before = (b"1", *[b"a"] * (columns - 1))
    after = (b"1", *[b"z"] * (sent - 1), *[b"a"] * (columns - sent))
    PartialRows(registry).count(statistics([before], [after]), 1)
    assert page(registry)["vibesql_partial_update_efficiency"] == pytest.approx(vector["expect_efficiency"])


def test_v60_why_a_row_was_sent_whole():
    registry = CollectorRegistry()
    partial = PartialRows(registry)
    partial.count(statistics(BEFORE[:1], AFTER[:1], rule=PartialRowRule(enabled=False)), 1)
    partial.count(statistics(BEFORE[:1], AFTER[:1], rule=PartialRowRule(min_changed_columns=2)), 2)
    partial.count(statistics(BEFORE[:1], AFTER[:1], key=()), 3)
    shown = page(registry)
    reasons = {"disabled": 1, "below_minimum": 2, "pk_mismatch": 3, "row_count_mismatch": 0, "no_changes": 0}
    for reason, count in reasons.items():
        assert shown[f'vibesql_partial_update_fallbacks_total{{reason="{reason}"}}'] == count


def test_v60_the_names_that_the_port_counts_under():
    registry, traffic = CollectorRegistry(), Traffic()
    metrics = Metrics(registry, traffic)
    traffic.connections, traffic.queries = 1, 2
    traffic.messages_received, traffic.messages_sent = 3, 4
    traffic.bytes_received, traffic.bytes_sent = 5, 6
    metrics.acknowledged(1, has_key=True)
    metrics.acknowledged(2, has_key=False)
    metrics.acknowledged(0, has_key=False)
    shown = page(registry)
    names = ("connections", "queries", "messages_received", "messages_sent", "bytes_received", "bytes_sent")
    assert [shown[f"vibesql_server_{name}_total"] for name in names] == [1, 2, 3, 4, 5, 6]
    detected = "vibesql_subscription_pk_detection_total"
    assert shown[detected + '{reason="",result="confident"}'] == 1
    assert shown[detected + '{reason="join_query",result="not_confident"}'] == 1
    assert shown[detected + '{reason="no_table",result="not_confident"}'] == 1
    assert {"vibesql_subscriptions_active", "vibesql_subscriptions_selective_eligible"} <= shown.keys()
