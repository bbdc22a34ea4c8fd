"""SSE and WebSocket: the events of poll as they come, resumed, with control events."""

import json
from types import SimpleNamespace

import pytest
from websockets.exceptions import InvalidStatus

from tests.fixtures.waiting import wait_until


def subscribed(cdc, service, table, **params):
    return service.result("cdc.subscribe_table", db=cdc.database, table=table, format="plain_json", **params)


def frames(socket, count):
    return [json.loads(socket.recv(timeout=30)) for _ in range(count)]


def test_s32_sse_has_the_events_of_poll(cdc, service):
    """S1, S38: streams ack nothing."""
    table = cdc.table("id int PRIMARY KEY, name text")
    sub = subscribed(cdc, service, table, include={"after": True})
    with service.sse(sub["sub_id"]) as stream:
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        cdc.sql(f"INSERT INTO {table} VALUES (1, E'two\\nlines'); UPDATE {table} SET name = 'b'")
        cdc.sql(f"DELETE FROM {table}")
        found = stream.take(3)
        assert stream.retry == 1000
    polled = service.result("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])
    assert [event.data for event in found] == polled["events"]
    assert [event.name for event in found] == ["insert", "update", "delete"]
    assert [event.seq for event in found] == [event["seq"] for event in polled["events"]]
    assert polled["backpressure"]["lag"] == polled["latest_offset"] - sub["offset"]


def test_s33_websocket_has_the_same_as_frames(cdc, service):
    """S1, S38."""
    table = cdc.table("id int PRIMARY KEY")
    sub = subscribed(cdc, service, table)
    with service.ws(sub["sub_id"]) as socket:
        cdc.sql(f"INSERT INTO {table} VALUES (1), (2)")
        found = frames(socket, 2)
    polled = service.result("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])["events"]
    assert found == [{"id": event["seq"], "event": "insert", "data": event} for event in polled]


def test_sse_resumes_from_last_event_id_or_from_offset(cdc, service):
    """S34, S35, S44: 150 events are more than two batches."""
    table = cdc.table("id int PRIMARY KEY")
    sub = subscribed(cdc, service, table)
    cdc.sql(f"INSERT INTO {table} SELECT generate_series(1, 150)")
    with service.sse(sub["sub_id"]) as stream:
        first = stream.take(150)
    assert [event.data["pk"][0] for event in first] == list(range(1, 151))
    seen = first[99].seq
    for query, headers in (
        ("", {"Last-Event-ID": str(seen)}),
        (f"?from_offset={seen}", {}),
        (f"?from_offset={sub['offset']}", {"Last-Event-ID": str(seen)}),
    ):
        with service.sse(sub["sub_id"], query, **headers) as stream:
            assert [event.data["pk"][0] for event in stream.take(50)] == list(range(101, 151))
    service.result("cdc.ack", sub_id=sub["sub_id"], offset=first[139].seq)
    with service.sse(sub["sub_id"], f"?from_offset={seen}") as stream:
        assert [event.data["pk"][0] for event in stream.take(10)] == list(range(141, 151))


def test_websocket_resumes_from_last_event_id_or_from_offset(cdc, service):
    """S34, S35, S44."""
    table = cdc.table("id int PRIMARY KEY")
    sub = subscribed(cdc, service, table)
    cdc.sql(f"INSERT INTO {table} SELECT generate_series(1, 150)")
    with service.ws(sub["sub_id"]) as socket:
        first = frames(socket, 150)
    seen = first[99]["id"]
    for query, headers in (("", {"Last-Event-ID": str(seen)}), (f"?from_offset={seen}", {})):
        with service.ws(sub["sub_id"], query, **headers) as socket:
            assert [frame["data"]["pk"][0] for frame in frames(socket, 50)] == list(range(101, 151))


def test_s39_unknown_subscriptions_and_offsets_are_refused(cdc, service):
    for path, status in (
        ("/api/v1/cdc/sse/sub_0000000000000000", 404),
        ("/api/v1/cdc/sse/sub_0000000000000000?from_offset=x", 400),
        ("/api/v1/cdc/sse/sub_0000000000000000?from_offset=-1", 400),
    ):
        assert service.get(path).status == status
    assert service.get("/api/v1/cdc/sse/sub_0000000000000000", **{"Last-Event-ID": "x"}).status == 400
    with pytest.raises(InvalidStatus) as refused, service.ws("sub_0000000000000000"):
        pass
    assert refused.value.response.status_code == 404


def test_a_paused_stream_is_silent_and_goes_on_when_resumed(cdc, service):
    """S25, S36: entering the pause is told."""
    table = cdc.table("id int PRIMARY KEY")
    sub = subscribed(cdc, service, table)
    with service.sse(sub["sub_id"]) as stream, service.ws(sub["sub_id"]) as socket:
        service.result("cdc.pause", sub_id=sub["sub_id"])
        told = stream.next()
        assert (told.name, told.data["state"], told.data["paused"]) == ("backpressure", "paused", True)
        assert [(each["event"], each["data"]["state"]) for each in frames(socket, 1)] == [("backpressure", "paused")]
        cdc.sql(f"INSERT INTO {table} VALUES (1)")
        service.result("cdc.resume", sub_id=sub["sub_id"])
        assert [stream.next().name, frames(socket, 1)[0]["event"]] == ["insert", "insert"]


def test_closing_a_subscription_ends_its_streams(cdc, service):
    """S23."""
    sub = subscribed(cdc, service, cdc.table("id int PRIMARY KEY"))
    with service.sse(sub["sub_id"]) as stream:
        service.result("cdc.close", sub_id=sub["sub_id"])
        assert stream.next() is None


def test_a_truncate_ends_a_stream_with_a_resnapshot(cdc, service):
    """Decision 15, S37."""
    table = cdc.table("id int PRIMARY KEY")
    sub = subscribed(cdc, service, table)
    with service.sse(sub["sub_id"]) as stream:
        cdc.sql(f"TRUNCATE {table}")
        told = stream.next()
        assert (told.name, told.data["resnapshot_reason"], told.seq) == ("resnapshot", "truncated", None)
        assert stream.next() is None
    cdc.sql(f"INSERT INTO {table} VALUES (1)")
    with service.sse(sub["sub_id"], f"?from_offset={told.data['resnapshot_from_offset']}") as stream:
        assert stream.next().data["pk"] == [1]


@pytest.fixture(scope="module")
def narrow(cdc):
    """A second gateway, which keeps eight events, of which memory holds four."""
    settings = {
        "SKEINDB_CDC_RETENTION_EVENTS": "8",
        "TIDEWIRE_CDC_TAIL_EVENTS": "4",
        "TIDEWIRE_CDC_KEEP_ALIVE_S": "0.2",
    }
    cdc.start_gateway(**settings)
    door = len(cdc.doors) - 1
    yield SimpleNamespace(service=lambda: cdc.service(door=door), table=cdc.table, sql=cdc.sql, database=cdc.database)
    cdc.gateways[door].kill()


def insert(stack, table, *numbers):
    for number in numbers:
        stack.sql(f"INSERT INTO {table} VALUES ({number})")


def test_poll_sse_and_websocket_expose_backpressure_state_transitions(narrow):
    """S27, S29, S30, S36, S44: 8 events: pressure at 4, throttle at 6, resnapshot beyond 8."""
    service, table = narrow.service(), narrow.table("id int PRIMARY KEY")
    sub = subscribed(narrow, service, table)
    states = []
    with service.sse(sub["sub_id"]) as stream, service.ws(sub["sub_id"]) as socket:
        for number in range(1, 10):
            insert(narrow, table, number)
            polled = service.result("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])
            states.append((polled["backpressure"]["state"], polled["backpressure"]["remaining_until_resnapshot"]))
        told = [(event.name, event.data.get("state")) for event in stream.take(12)]
        framed = [(each["event"], each["data"].get("state")) for each in frames(socket, 12)]
    assert states == [
        ("healthy", 7), ("healthy", 6), ("healthy", 5), ("pressure", 4), ("pressure", 3), ("throttle", 2),
        ("throttle", 1), ("throttle", 0), ("resnapshot_required", 0),
    ]  # fmt: skip
    for seen in (told, framed):
        assert [name for name, _ in seen].count("insert") == 9
        entered = [state for name, state in seen if name == "backpressure"]
        assert entered == ["pressure", "throttle", "resnapshot_required"]


def test_retained_horizon_loss_returns_resnapshot_required_for_poll(narrow):
    """S20, S25, S28, S44: also while paused; an ack at the offset told clears it."""
    service, table = narrow.service(), narrow.table("id int PRIMARY KEY")
    sub = subscribed(narrow, service, table)
    service.result("cdc.pause", sub_id=sub["sub_id"])
    insert(narrow, table, *range(1, 10))
    told = service.result("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])
    assert (told["events"], told["resnapshot_required"]) == ([], True)
    assert told["resnapshot_reason"] == "wal_horizon_exceeded"
    assert told["next_offset"] == told["resnapshot_from_offset"] == told["earliest_offset"] - 1
    assert told["backpressure"] == {
        "state": "resnapshot_required", "lag": 9, "remaining_until_resnapshot": 0, "paused": True,
    }  # fmt: skip
    service.result("cdc.resume", sub_id=sub["sub_id"])
    service.result("cdc.ack", sub_id=sub["sub_id"], offset=told["resnapshot_from_offset"])
    again = service.result("cdc.poll", sub_id=sub["sub_id"], from_offset=0)
    assert [event["pk"][0] for event in again["events"]] == list(range(2, 10))


def test_retained_horizon_loss_emits_event_resnapshot_for_sse_reconnects(narrow):
    """S37, S44: then the stream ends, without a partial replay."""
    service, table = narrow.service(), narrow.table("id int PRIMARY KEY")
    sub = subscribed(narrow, service, table)
    insert(narrow, table, *range(1, 10))
    with service.sse(sub["sub_id"], **{"Last-Event-ID": str(sub["offset"])}) as stream:
        pressure, told = stream.take(2)
        assert (pressure.name, pressure.data["state"]) == ("backpressure", "resnapshot_required")
        assert told.name == "resnapshot"
        assert stream.next() is None
    polled = service.result("cdc.poll", sub_id=sub["sub_id"], from_offset=0)
    assert told.data == polled


def test_retained_horizon_loss_emits_a_resnapshot_control_frame_for_websocket_reconnects(narrow):
    """S37, S44."""
    service, table = narrow.service(), narrow.table("id int PRIMARY KEY")
    sub = subscribed(narrow, service, table)
    insert(narrow, table, *range(1, 10))
    with service.ws(sub["sub_id"], **{"Last-Event-ID": str(sub["offset"])}) as socket:
        pressure, told = frames(socket, 2)
        assert (pressure["event"], told["event"]) == ("backpressure", "resnapshot")
        assert told["data"] == service.result("cdc.poll", sub_id=sub["sub_id"], from_offset=0)
        assert told["id"] == told["data"]["resnapshot_from_offset"]


def test_a_stream_that_keeps_up_is_not_cut_by_a_large_transaction(narrow):
    """Decision 10: 1,000 events of one transaction through a window of eight, read back from Kafka (S35)."""
    service, table = narrow.service(), narrow.table("id int PRIMARY KEY")
    sub = subscribed(narrow, service, table)
    with service.sse(sub["sub_id"]) as stream:
        narrow.sql(f"INSERT INTO {table} SELECT generate_series(1, 1000)")
        seen = []
        while len(seen) < 1000:
            event = stream.next()
            if event.name == "insert":
                seen.append(event.data["pk"][0])
    assert seen == list(range(1, 1001))


def test_a_narrow_filter_on_a_quiet_table_never_drifts_away(narrow):
    """Decision 9: what is scanned counts; the vector sk.nextoffset.filtered has the original's way."""
    service, quiet, busy = narrow.service(), narrow.table("id int PRIMARY KEY"), narrow.table("id int PRIMARY KEY")
    sub = subscribed(narrow, service, quiet)
    offset = sub["offset"]
    for number in range(1, 30):
        insert(narrow, busy, number)
        if number % 5 == 0:
            polled = service.result("cdc.poll", sub_id=sub["sub_id"], from_offset=offset)
            assert (polled["resnapshot_required"], polled["next_offset"]) == (False, polled["latest_offset"])
            offset = service.result("cdc.ack", sub_id=sub["sub_id"], offset=polled["next_offset"])["acked_offset"]
    insert(narrow, quiet, 1)
    assert len(service.result("cdc.poll", sub_id=sub["sub_id"], from_offset=offset)["events"]) == 1


def test_a_silent_stream_says_that_it_is_there(narrow):
    service = narrow.service()
    table = narrow.table("id int PRIMARY KEY")
    sub = subscribed(narrow, service, table)
    with service.sse(sub["sub_id"]) as stream:
        line = wait_until(lambda: stream.answer.readline().startswith(b": keep-alive"), "a comment")
        assert line
