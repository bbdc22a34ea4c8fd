"""The registered queries of the NOTIFY door: one more live query each, whose changes go to the channel.

Registrations come from the log, in commit order with the data; those of before we began to read from their table. A gen
says which of two is the later one, so that the two sources need not be brought into one order.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from structlog.typing import FilteringBoundLogger

from proto.rows import ResultRow, decode_block
from proto.streams.changes import SchemaChanged
from proto.tidewire.v1.deltas_pb2 import DELTA_KIND_FULL, FULL_REASON_REORDERED, Delta
from proto.tidewire.v1.notifications_pb2 import Notification, ResultPart
from services.recompute.core.live_query import Failure, LiveQuery, LiveTemplate
from services.recompute.core.notify.query_channel import Evaluated, QueryChannel, Shown
from services.recompute.core.notify.registration import Registration, read_registration
from services.recompute.core.notify.tails import Tail
from services.recompute.core.result import State, columns_key
from services.recompute.flow.live_queries import LiveQueries
from services.recompute.flow.plan_results import MISSING, PlanResults
from services.recompute.inbound.changes import Commit
from services.recompute.inbound.result_requests import ResultRequests
from services.recompute.outbound.notifications import Notifications
from services.recompute.outbound.postgres.registrations import TROUBLE, Known, Registrations

# How often the table of registrations is read beside the log: the door's settings are in no log.
LOOK_AGAIN_S = 60.0
RETRY_S = 1.0
# A request that cannot be answered is forgotten after this; the gateway asks again.
REQUEST_S = 15.0


class NotifyQueries:
    """Owns the channels of the registered queries whose partitions are this worker's."""

    def __init__(
        self,
        registrations: Registrations,
        notifications: Notifications,
        requests: ResultRequests,
        log: FilteringBoundLogger,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registrations, self._notifications, self._requests = registrations, notifications, requests
        self._log, self._clock = log, clock
        self._live_queries: LiveQueries
        self._plan_results: PlanResults
        self._is_current: Callable[[LiveQuery], bool] = lambda live: live.template.is_current
        # Writes a first result to `deltas`, so that the next owner of the query knows the state that clients have.
        self._keep_whole: Callable[[Iterable[Delta]], object] = lambda deltas: None
        self._channel = "pgr"
        self._known: dict[str, Registration] = {}
        # Of the partitions that are ours: the last record of each query.
        self._tails: dict[int, dict[str, Tail]] = {}
        # By the id of the live query, with what its readers were told before it became live here.
        self._channels: dict[bytes, tuple[QueryChannel, State | None]] = {}
        # Since when a result is wanted, and the latest number of each gateway that wants it.
        self._wanted: dict[tuple[str, int], tuple[float, dict[str, int]]] = {}
        self._look_at_s = 0.0
        # One thread: PostgreSQL's silence must not hold up the loop.
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="registrations")
        self._asked: Future[Known | None] | None = None

    def attach(
        self,
        live_queries: LiveQueries,
        plan_results: PlanResults,
        *,
        is_current: Callable[[LiveQuery], bool],
        keep_whole: Callable[[Iterable[Delta]], object],
    ) -> None:
        """The parts of the worker that registered queries live in."""
        self._live_queries, self._plan_results, self._is_current = live_queries, plan_results, is_current
        self._keep_whole = keep_whole

    def take_over(self, partitions: Iterable[int]) -> None:
        """These partitions are ours: go on from the last record of each query."""
        for partition, tail in self._notifications.take_over(partitions).items():
            self._tails[partition] = tail.tails
        for registration in self._known.values():
            if registration.partition in partitions:
                self._open(registration)

    def give_up(self, partitions: Iterable[int]) -> None:
        """The live queries themselves are ended with their partitions."""
        for partition in partitions:
            self._tails.pop(partition, None)
        self._channels = {
            live_id: held for live_id, held in self._channels.items() if held[0].registration.partition in self._tails
        }

    def commit(self, commit: Commit, touched: Iterable[LiveTemplate]) -> None:
        """A commit: first what it did to the queries that are registered, then what it registered."""
        if self._channels:
            tables = {event.relation.oid for event in commit.events if not isinstance(event, SchemaChanged)}
            for channel, _ in self._channels.values():
                channel.changed_before(tables)
            for template in touched:
                for live_id in template.members.keys() & self._channels.keys():
                    self._tell(self._channels[live_id][0].touched(commit.position.lsn))
        for description in commit.registrations:
            registration = read_registration(description)
            if registration is None:
                self._log.warning("registration_unreadable", commit_lsn=commit.position.lsn)
            else:
                self._register(registration)

    def evaluated(self, live: LiveQuery, deltas: Sequence[Delta]) -> None:
        """The result of a query was computed: tell the channel what follows."""
        held = self._channels.get(live.id)
        if held is None or live.result is None:
            return
        channel, told = held
        try:
            shown = self._shown(live)
        except TROUBLE as error:
            # Its rows cannot be printed: the channel is told to fetch, when the next evaluation succeeds.
            self._log.warning("types_unknown", query_id=channel.registration.query_id, error=str(error))
            self._tell(channel.failed("57P03"))
            live.suspend()
            return
        if told is None and channel.shown is None:
            self._keep_whole(live.result.whole())
        if told is not None:
            if told.rows is not None and told.state_hash == channel.last_hash and told.columns == shown.key:
                channel.continued(told.rows, shown)
            self._channels[live.id] = channel, None
        now = Evaluated(
            rows=live.result.rows,
            net=_net(deltas),
            state_hash=live.result.state_hash,
            lsn=live.result.position.lsn,
            shown=shown,
        )
        self._tell(channel.evaluated(now, live.template.reads))

    def failed(self, live: LiveQuery, failure: Failure) -> None:
        """A query has no result; one whose tables are gone ends with them (decision 14)."""
        held = self._channels.get(live.id)
        if held is None:
            return
        channel = held[0]
        self._tell(channel.failed(failure.sqlstate))
        self._log.info("registered_query_failed", query_id=channel.registration.query_id, reason=failure.message)
        if failure.sqlstate in MISSING:
            self._asking.submit(self._end, channel.registration)

    def turn(self) -> None:
        """Look after registrations, and answer those who want a whole result."""
        self._look()
        self._answer()
        self._notifications.poll()

    def close(self) -> None:
        self._asking.shutdown(wait=False, cancel_futures=True)
        self._requests.close()

    def _look(self) -> None:
        now_s = self._clock()
        if self._asked is None:
            if now_s >= self._look_at_s:
                self._asked = self._asking.submit(self._registrations.known)
            return
        if not self._asked.done():
            return
        asked, self._asked = self._asked, None
        try:
            known = asked.result()
        except TROUBLE as error:
            self._log.warning("registrations_unknown", error=str(error))
            known = None
        self._look_at_s = now_s + (RETRY_S if known is None else LOOK_AGAIN_S)
        if known is not None:
            self._channel = known.channel
            for registration in known.registrations:
                self._register(registration)

    def _register(self, registration: Registration) -> None:
        """The later gen counts; an earlier one is old news."""
        before = self._known.get(registration.query_id)
        if before is not None and before.gen >= registration.gen:
            return
        self._known[registration.query_id] = registration
        if registration.partition not in self._tails:
            return
        if before is not None and self._channels.pop(before.live_id, None) is not None:
            self._live_queries.end(before.live_id)
        self._open(registration)

    def _open(self, registration: Registration) -> None:
        tail = self._tails[registration.partition].get(registration.query_id)
        if tail is not None and tail.gen > registration.gen:
            return  # the topic knows of a later one, which the log still has to show
        channel = QueryChannel(registration, self._channel, tail)
        if tail is None or tail.gen < registration.gen:
            self._tell(channel.resubscribed())
        if not registration.is_registered:
            return
        live = self._live_queries.join(registration.partition, registration.live_query())
        self._channels[live.id] = channel, live.told
        self._plan_results.begin(live)

    def _tell(self, told: Notification | None) -> None:
        if told is None:
            return
        self._notifications.tell(told)
        registration = self._known[told.query_id]
        self._tails[registration.partition][told.query_id] = Tail(
            told.gen, told.seq, told.state_hash, bool(told.sqlstate)
        )

    def _shown(self, live: LiveQuery) -> Shown:
        assert live.result is not None
        columns = live.result.columns
        key, held = columns_key(columns), self._channels[live.id][0]
        if held.shown is not None and held.shown.key == key:
            return held.shown
        oids = tuple(column.type_oid for column in columns)
        shapes = self._registrations.shapes(oids)
        return Shown(key, oids, tuple(zip((column.name for column in columns), shapes, strict=True)))

    def _answer(self) -> None:
        now_s = self._clock()
        for request in self._requests.read():
            _, numbers = self._wanted.setdefault((request.query_id, request.gen), (now_s, {}))
            numbers[request.gateway_id] = max(request.number, numbers.get(request.gateway_id, 0))
        for (query_id, gen), (since_s, numbers) in list(self._wanted.items()):
            registration = self._known.get(query_id)
            is_late = now_s - since_s > REQUEST_S or (registration is not None and registration.gen > gen)
            is_ours = registration is not None and registration.gen == gen and registration.partition in self._tails
            if is_late or (is_ours and registration is not None and self._is_answered(registration, numbers)):
                del self._wanted[query_id, gen]

    def _is_answered(self, registration: Registration, numbers: dict[str, int]) -> bool:
        live, held = self._live_queries.queries.get(registration.live_id), self._channels.get(registration.live_id)
        if live is None or held is None or live.result is None or not held[0].is_based:
            return False
        channel = held[0]
        # Of a query that is only told to have changed, the rows must be those of its last seq.
        if registration.mode == "notify" and not self._is_current(live):
            return False
        result = ResultPart(
            query_id=registration.query_id,
            gen=registration.gen,
            seq=channel.seq,
            lsn=live.result.position.lsn,
            answers=numbers,
        )
        self._notifications.answer(result, channel.rows(live.result.listed()))
        return True

    def _end(self, registration: Registration) -> None:
        try:
            self._registrations.end(registration.query_id, registration.gen)
        except TROUBLE as error:
            self._log.warning("registration_not_ended", query_id=registration.query_id, error=str(error))


def _net(deltas: Sequence[Delta]) -> list[tuple[ResultRow, int]] | None:
    """How the rows changed; None if the deltas are a whole result, which follows from nothing that was told."""
    if any(delta.kind == DELTA_KIND_FULL and delta.full_reason != FULL_REASON_REORDERED for delta in deltas):
        return None
    changed = (delta for delta in deltas if delta.kind != DELTA_KIND_FULL)
    return [pair for delta in changed for pair in decode_block(delta.rows)]
