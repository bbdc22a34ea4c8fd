"""What a client does when the gateway or the network fails it: V5, V17, V23, V33, V36–V44, V53, V56."""

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
import tidewire
from tidewire import Deleted, Inserted, Renewed, Replaced, Retry, Updated
from tidewire.feed import HELD_BYTES

from proto.pgwire.framing import encode_frame
from proto.pgwire.live import (
    NO_SUBSCRIPTION,
    Ack,
    Data,
    PartialData,
    PartialRow,
    Pause,
    Refused,
    Resume,
    Selective,
    Subscribe,
    Unsubscribe,
    Update,
    encode,
)
from tests.integration.client.scripted import READY, Gateway, parameter

SQL = "SELECT id, name FROM people"
QUICK = Retry(first_s=0.01, cap_s=0.05)
ROWS = ((b"1", b"ann"), (b"2", b"bob"), (b"3", None))
TEXT = (("1", "ann"), ("2", "bob"), ("3", None))


@pytest.fixture
async def gateway():
    async with Gateway() as made:
        yield made


@asynccontextmanager
async def subscribed(gateway, rows=ROWS, *, lsn=False, **options):
    """A subscription with its first result, and the gateway's end of it."""
    async with await tidewire.connect(gateway.dsn, retry=QUICK, lsn=lsn) as live:
        client = await gateway.next()
        opening = asyncio.create_task(live.subscribe(SQL, **options).__aenter__())
        await client.live_message()
        one = uuid4()
        client.send(Ack(one, 1), Data(one, Update.FULL, rows))
        subscription = await opening
        assert [change.rows for change in [await anext(subscription)]] == [subscription.rows]
        yield live, subscription, client, one


async def answered(client, rows):
    """Take the next Subscribe and answer it."""
    message = await client.live_message()
    assert isinstance(message, Subscribe), message
    again = uuid4()
    client.send(Ack(again, 1), Data(again, Update.FULL, rows))
    return again


async def test_updates_and_partial_rows_reach_the_rows_they_belong_to(gateway):
    async with subscribed(gateway, partial=True, key=["id"]) as (_, people, client, one):
        client.send(
            PartialData(one, (PartialRow(2, {0: b"1", 1: b"anna"}), PartialRow(2, {0: b"2", 1: None}))),
            Data(one, Update.UPDATE, ((b"3", b"cleo"),)),
        )
        assert await anext(people) == Updated(
            (Replaced(("1", "ann"), ("1", "anna")), Replaced(("2", "bob"), ("2", None)))
        )
        assert await anext(people) == Updated((Replaced(("3", None), ("3", "cleo")),))
        assert people.rows == (("1", "anna"), ("2", None), ("3", "cleo"))


@pytest.mark.parametrize("at", [1, 4, 5, 20, 30, 40])
async def test_a_connection_that_breaks_inside_a_frame_is_made_anew(gateway, at):
    async with subscribed(gateway) as (live, people, client, one):
        client.send(encode(Data(one, Update.INSERT, ((b"4", b"dora"),)))[:at])
        await client.writer.drain()
        client.writer.close()
        waiting = asyncio.create_task(anext(people))
        client = await gateway.next()
        again = await answered(client, (ROWS[0], (b"4", b"dora")))
        renewed = await waiting
        assert (renewed.inserted, renewed.deleted) == ((("4", "dora"),), TEXT[1:])
        assert renewed.rows == people.rows == (("1", "ann"), ("4", "dora"))
        assert "closed the connection" in renewed.because and live.trouble is None
        client.send(Data(again, Update.DELETE, (ROWS[0],)))
        assert await anext(people) == Deleted((("1", "ann"),))


async def test_it_tries_until_the_gateway_is_back_and_tells_meanwhile_why(gateway):
    async with subscribed(gateway) as (live, people, client, _):
        await gateway.close()
        client.cut()
        assert await people.next(0.2) is None
        assert "cannot be reached" in live.trouble
        async with Gateway(gateway.port) as again:
            waiting = asyncio.create_task(anext(people))
            await answered(await again.next(), ROWS)
            renewed = await waiting
            assert (renewed.rows, renewed.inserted, renewed.deleted) == (TEXT, (), ())


async def test_it_gives_up_after_so_many_connects_if_told_so(gateway):
    async with await tidewire.connect(gateway.dsn, retry=Retry(first_s=0.01, connects=2)) as live:
        client = await gateway.next()
        await gateway.close()
        client.cut()
        with pytest.raises(tidewire.ConnectionFailed, match="not known"):
            await live.query("SELECT 1")
        with pytest.raises(tidewire.ConnectionFailed, match="cannot be reached"):
            await live.query("SELECT 1")


async def test_a_query_whose_answer_is_lost_is_not_sent_again(gateway):
    async with await tidewire.connect(gateway.dsn, retry=QUICK) as live:
        client = await gateway.next()
        asked = asyncio.create_task(live.query("UPDATE t SET n = n + 1"))
        await client._reader.read(100)
        client.cut()
        with pytest.raises(tidewire.ConnectionFailed, match="took effect is not known"):
            await asked


async def test_garbage_ends_it_with_an_error_and_not_with_a_guess(gateway):
    async with subscribed(gateway) as (_, people, client, _):
        client.send(b"\xf2\x00\x00\x00\x03")
        with pytest.raises(tidewire.ProtocolViolated):
            await anext(people)
        assert people.rows == TEXT


async def test_messages_that_are_not_known_are_skipped(gateway):
    async with subscribed(gateway) as (_, people, client, one):
        client.send(encode_frame(0xFA, b"new"), encode_frame(ord("N"), b"SNOTICE\0\0"), parameter("x", "y"))
        client.send(Data(uuid4(), Update.INSERT, ROWS), Data(one, Update.DELETE, (ROWS[1],)))
        assert await anext(people) == Deleted((TEXT[1],))


async def test_an_update_that_cannot_be_placed_asks_for_the_whole_result(gateway):
    async with subscribed(gateway, (ROWS[0], ROWS[1])) as (_, people, client, one):
        client.send(Data(one, Update.UPDATE, ((b"1", b"bob"),)))  # the first renamed, or the second renumbered?
        waiting = asyncio.create_task(anext(people))
        assert await client.live_message() == Unsubscribe(one)
        client.send(Data(one, Update.INSERT, ((b"9", b"late"),)))  # was on its way
        await answered(client, ((b"1", b"bob"), (b"2", b"bob")))
        renewed = await waiting
        assert (renewed.inserted, renewed.deleted) == ((("1", "bob"),), (("1", "ann"),))
        assert "key=" in renewed.because


async def test_refusals_are_told_in_the_server_s_words_with_what_to_do(gateway):
    async with await tidewire.connect(gateway.dsn, retry=QUICK) as live:
        client = await gateway.next()
        for words in ("Parse error: near SELEKT", "Execution error: permission denied for table 'people'"):
            opening = asyncio.create_task(live.subscribe(SQL).open())
            await client.live_message()
            client.send(Refused(NO_SUBSCRIPTION, words))
            with pytest.raises(tidewire.SubscriptionRefused) as refused:
                await opening
            assert (refused.value.words, refused.value.retry) == (words, False)
            assert str(refused.value).startswith(f"{words}; ")


async def test_errors_that_may_pass_are_tried_again_and_then_told(gateway):
    async with await tidewire.connect(gateway.dsn, retry=QUICK) as live:
        client = await gateway.next()
        opening = asyncio.create_task(live.subscribe(SQL).__aenter__())
        for words in ("Rate limited: retry after 5ms",) * 5 + ("Execution error: no result within 30 s",):
            await client.live_message()
            client.send(Refused(NO_SUBSCRIPTION, words))
        one = await answered(client, ROWS)
        people = await opening
        assert people.rows == TEXT
        # Later, and for good.
        client.send(Refused(one, "Execution error: connection lost"))
        await anext(people)
        waiting = asyncio.create_task(anext(people))
        for _ in range(QUICK.attempts):
            await client.live_message()
            client.send(Refused(uuid4(), "Execution error: connection lost"))
        with pytest.raises(tidewire.SubscriptionFailed, match="connection lost"):
            await waiting
        assert people.rows == TEXT


async def test_a_subscription_that_ends_says_so_after_the_changes_before_it(gateway):
    async with subscribed(gateway) as (_, people, client, one):
        words = "Subscription invalidated: table 'people' was dropped"
        client.send(Data(one, Update.DELETE, (ROWS[0],)), Refused(one, words))
        assert await anext(people) == Deleted((TEXT[0],))
        with pytest.raises(tidewire.SubscriptionFailed, match="was dropped; subscribe again"):
            await anext(people)


async def test_subscribes_go_one_after_the_other_since_answers_do_not_say_whose_they_are(gateway):
    async with await tidewire.connect(gateway.dsn, retry=QUICK) as live:
        client = await gateway.next()
        openings = [
            asyncio.create_task(live.subscribe(sql).__aenter__()) for sql in ("SELECT 1", "SELECT 2", "SELECT 3")
        ]
        for number in (1, 2, 3):
            message = await client.live_message()
            assert message.query == f"SELECT {number}"
            one = uuid4()
            if number == 2:
                client.send(Refused(one, "Only SELECT queries can be subscribed to"))
            else:
                client.send(Ack(one, 1), Data(one, Update.FULL, ((str(number).encode(),),)))
        first, second, third = await asyncio.gather(*openings, return_exceptions=True)
        assert (first.rows, third.rows) == ((("1",),), (("3",),))
        assert isinstance(second, tidewire.SubscriptionRefused)


async def test_who_gives_up_waiting_for_a_first_result_leaves_nothing_behind(gateway):
    async with await tidewire.connect(gateway.dsn, retry=QUICK) as live:
        client = await gateway.next()
        opening = asyncio.create_task(live.subscribe("SELECT slow").open())
        await client.live_message()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        other = asyncio.create_task(live.subscribe(SQL).__aenter__())
        late = uuid4()
        client.send(Ack(late, 1), Data(late, Update.FULL, ROWS))
        assert await client.live_message() == Unsubscribe(late)
        await answered(client, ROWS[:1])
        assert (await other).rows == TEXT[:1]


async def test_who_does_not_read_is_told_the_net_of_what_he_missed(gateway):
    """Another subscription of the same connection is read meanwhile, so that the socket cannot be left alone."""
    async with subscribed(gateway, ()) as (live, slow, client, one):
        opening = asyncio.create_task(live.subscribe("SELECT quick").__aenter__())
        two = await answered(client, ())
        quick = await opening
        await anext(quick)
        name = b"x" * 1000
        for number in range(1000):
            row = str(number).encode()
            client.send(Data(one, Update.INSERT, ((row, name),)), Data(two, Update.INSERT, ((row, b"x"),)))
            if number >= 10:
                client.send(Data(one, Update.DELETE, ((str(number - 10).encode(), name),)))
        # Who reads gets every message, however many one read of the socket brings.
        assert {type(await anext(quick)) for _ in range(1000)} == {Inserted}
        changes = []
        while change := await slow.next(0.2):
            changes.append(change)
        assert isinstance(changes[0], Renewed) and "behind" in changes[0].because
        assert len(changes) <= HELD_BYTES // len(name) + 1
        assert {int(row[0]) for row in slow.rows} == set(range(990, 1000))


async def test_nobody_reads_while_nobody_waits(gateway):
    """A consumer that stops makes the gateway feel it, which knows how to keep only the net change."""
    async with subscribed(gateway, ()) as (_, people, client, one):
        row = (b"1", b"x" * 60_000)
        for _ in range(400):
            client.send(Data(one, Update.INSERT, (row,)), Data(one, Update.DELETE, (row,)))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await client.writer.drain()
        for _ in range(800):
            await anext(people)
        await client.writer.drain()
        assert people.rows == ()


async def test_with_lsn_each_change_says_where_it_stands_and_comes_with_its_whole_batch(gateway):
    async with subscribed(gateway, lsn=True) as (_, people, client, one):
        assert client.startup[b"tidewire.lsn"] == b"on"
        assert people.lsn is None
        client.send(parameter("tidewire.lsn", "0/10"), Data(one, Update.DELETE, (ROWS[0],)))
        assert await people.next(0.1) is None  # its batch has not ended
        assert people.lsn == "0/10"
        client.send(Data(one, Update.INSERT, ((b"4", b"dora"),)), parameter("tidewire.lsn", "0/20"))
        assert await anext(people) == Deleted((TEXT[0],), lsn="0/20")
        assert (people.lsn, people.at_commit) == ("0/20", False)
        assert await anext(people) == Inserted((("4", "dora"),), lsn="0/20")
        assert (people.lsn, people.at_commit) == ("0/20", True)


async def test_a_pause_outlives_a_lost_connection(gateway):
    async with subscribed(gateway) as (_, people, client, one):
        people.pause()
        assert await client.live_message() == Pause(one)
        client.cut()
        waiting = asyncio.create_task(anext(people))
        client = await gateway.next()
        again = await answered(client, ROWS[:1])
        assert await client.live_message() == Pause(again)
        assert not waiting.done()
        people.resume()
        renewed = await waiting
        assert isinstance(renewed, Renewed) and renewed.deleted == TEXT[1:]
        assert await client.live_message() == Resume(again)


async def test_the_tail_of_a_subscribe_says_what_is_wanted_of_partial_rows(gateway):
    async with await tidewire.connect(gateway.dsn, retry=QUICK) as live:
        client = await gateway.next()
        for partial, tail in (
            (None, None),
            (False, Selective(enabled=False)),
            (tidewire.Partial(min_changed_columns=2), Selective(min_changed_columns=2)),
        ):
            opening = asyncio.create_task(live.subscribe(SQL, [7, None], filter="id > 1", partial=partial).open())
            assert await client.live_message() == Subscribe(SQL, (b"7", None), "id > 1", tail)
            one = uuid4()
            client.send(Ack(one, 1), Data(one, Update.FULL, ()))
            await opening


async def test_what_cannot_be_sent_is_refused_before_anything_is(gateway):
    async with await tidewire.connect(gateway.dsn) as live:
        with pytest.raises(TypeError, match=r"write \[value\]"):
            live.subscribe("SELECT $1", "seven")
        with pytest.raises(ValueError, match="NUL"):
            await live.query("SELECT '\0'")
        with pytest.raises(ValueError, match="filter has at most 32767 bytes"):
            live.subscribe("SELECT 1", filter="x" * 40_000)


async def test_a_copy_is_refused_and_the_connection_stays(gateway):
    async with await tidewire.connect(gateway.dsn, retry=QUICK) as live:
        client = await gateway.next()
        asked = asyncio.create_task(live.query("COPY t TO STDOUT"))
        await client._reader.read(100)
        client.send(
            encode_frame(ord("H"), b"\0\0\0"), encode_frame(ord("c"), b""), encode_frame(ord("C"), b"COPY 0\0"), READY
        )
        with pytest.raises(tidewire.ProtocolViolated, match="psycopg"):
            await asked


async def test_a_closed_connection_ends_those_who_wait(gateway):
    async with subscribed(gateway) as (live, people, _, _):
        waiting = asyncio.create_task(anext(people))
        await asyncio.sleep(0)
        await live.close()
        with pytest.raises(tidewire.ConnectionFailed, match="closed by its user"):
            await waiting
