"""A feed tells what stands before the next DDL, and nothing behind it (finding 10)."""

import json
import time

import structlog

from proto.pgoutput.messages import Column, Relation
from proto.streams.changes import Committed, HistoryBegan, RowChanged, SchemaChanged
from services.chassis.health import PartProgress
from services.gateway.core.cdc.subscription import KeyFilter, Owner, Subscription, Wishes
from services.gateway.core.cdc.table import Table
from services.gateway.core.cdc.tail import TailLimits
from services.gateway.flow.cdc.feed import Feed
from services.gateway.flow.cdc.log import DDL_APART_S, ChangeLog
from services.gateway.inbound.changes import Batch, Origin

RELATION = Relation(7, "public", "orders", "d", (Column("id", 23, -1, True),))
TABLE = Table(oid=7, schema="public", name="orders", columns=frozenset({"id"}), members=frozenset({7}))


class Arrived:
    """Batches of the log, as they come."""

    def __init__(self, *batches):
        self._batches = batches

    async def batches(self):
        for batch in self._batches:
            yield batch


def transaction(xid, *, rows=(), ddl=None):
    events = [
        RowChanged(
            seq=seq, commit_lsn=xid, ordinal=0, xid=xid, commit_time_us=0, relation=RELATION,
            operation="insert", before=None, after=(b"%d" % seq,),
        )
        for seq in rows
    ]  # fmt: skip
    if ddl is not None:
        described = json.dumps({"tag": ddl, "objects": []}).encode()
        events.append(SchemaChanged(commit_lsn=xid, ordinal=0, xid=xid, description=described))
    return events


def batch(xid, next_seq, **of):
    end = Committed(commit_lsn=xid, end_lsn=xid, xid=xid, commit_time_us=0, next_seq=next_seq)
    return Batch([*transaction(xid, **of), end], next_seq, 1, True)


def begun():
    return Batch([], 1, 1, True, Origin(1, 1))


async def log_of(*batches):
    log = ChangeLog(None, retention=100, limits=TailLimits(100, 1 << 20), log=structlog.get_logger())
    await log.follow(Arrived(begun(), *batches), PartProgress("changes"))
    return log


def feed_of(log):
    owner = Owner(name="ada", database_role="ada", service_role="")
    subscription = Subscription(sub_id="s", owner=owner, start=0, history=1, wishes=Wishes(), table=(7, "public", "t"))
    return Feed(subscription, [(TABLE, KeyFilter())], log, database="shop", generation=log.schema_generation)


def seqs(reach):
    return [told.seq for told in reach.events]


async def test_what_stands_before_later_ddl_is_told_and_what_follows_it_is_not():
    log = await log_of(batch(1, 3, rows=(1, 2)))
    feed = feed_of(log)
    later = (batch(2, 4, rows=(3,)), batch(3, 5, rows=(4,), ddl="GRANT"), batch(4, 6, rows=(5,), ddl="GRANT"))
    await log.follow(Arrived(*later), PartProgress("changes"))
    reach = await feed.read(0, 10)
    # The row of the transaction with the DDL is not before it.
    assert (seqs(reach), reach.scanned, reach.is_stale) == ([1, 2, 3], 3, False)
    assert (await feed.read(3, 10)).is_stale
    assert seqs(await feed_of(log).read(0, 10)) == [1, 2, 3, 4, 5]


async def test_where_there_is_nothing_to_tell_no_feed_need_be_made_anew():
    log = await log_of(batch(1, 2, rows=(1,)))
    feed = feed_of(log)
    await log.follow(Arrived(batch(2, 2, ddl="GRANT")), PartProgress("changes"))
    reach = await feed.read(1, 10)
    assert (seqs(reach), reach.scanned, reach.is_stale) == ([], 1, False)


async def test_a_new_history_ends_what_a_feed_knew():
    log = await log_of(batch(1, 2, rows=(1,)))
    feed = feed_of(log)
    begins = HistoryBegan(history=2, because="x", lsn=9, first_seq=10, system_identifier=1, timeline=1, database="shop")
    await log.follow(Arrived(Batch([begins], 10, 2, True), batch(2, 11, rows=(10,))), PartProgress("changes"))
    reach = await feed.read(0, 10)
    assert (seqs(reach), reach.is_stale) == ([], True)


async def test_ddl_comes_in_with_time_between():
    log = await log_of(batch(1, 2, rows=(1,)))
    begun_s = time.monotonic()
    await log.follow(Arrived(*(batch(xid, 2, ddl="GRANT") for xid in (2, 3, 4))), PartProgress("changes"))
    assert time.monotonic() - begun_s >= 2 * DDL_APART_S
