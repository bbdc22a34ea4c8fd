"""The loop of the routes: follows `changes` once for all groups of this worker, and writes what each makes of it.

It is not the loop of the queries: no Spark job may hold messages up, and a route needs no replica. Whatever goes wrong,
memory is dropped and everything is read again from the topics, which alone say what was done.
"""

import time
from collections.abc import Callable

import psycopg
from structlog.typing import FilteringBoundLogger

from proto.positions import Seq
from proto.streams.changes import (
    ChangeEvent,
    ChangeUnwritable,
    Committed,
    HistoryBegan,
    RowChanged,
    SchemaChanged,
    Truncated,
)
from proto.streams.topic_marks import ActorNamed, RowsTruncated, TopicDefined
from services.changelog.follower import ChangesFollower
from services.chassis.kafka import Kafka, KafkaUnreachable, OffsetOutOfRange, TopicMismatch, TopicRefused
from services.chassis.postgres import PostgresUnreachable
from services.recompute.core.topics.definition import group_of, read_mark
from services.recompute.core.topics.position import Position
from services.recompute.core.topics.source_table import SourceTables
from services.recompute.flow.topics.beginning import find_beginning
from services.recompute.flow.topics.group import TopicGroup
from services.recompute.flow.topics.judging import judged
from services.recompute.flow.topics.transaction import OpenCommit
from services.recompute.inbound.topic_states import TopicStatesGroup, standing
from services.recompute.metrics import RouteMetrics
from services.recompute.outbound.postgres.topic_filters import TopicFilters
from services.recompute.outbound.postgres.topic_sources import Buried, NotInstalled, TopicSources
from services.recompute.outbound.topic_states import NotWritten, TopicStates
from services.recompute.outbound.user_topics import UserTopics

READ_S = 0.05
# As many candidates are judged and written at once, also of one transaction.
STEP = 5_000
# A position without messages is written so often, for retention to see that somebody reads.
NOTE_S = 5.0
REST_S = 0.5
# What ends with time or by an operator's hand; queries go on meanwhile.
TROUBLES = (
    NotWritten,
    psycopg.OperationalError,
    PostgresUnreachable,
    KafkaUnreachable,
    OffsetOutOfRange,
    TimeoutError,
    TopicMismatch,
    TopicRefused,
)


class _Overtaken(Exception):
    """While the beginning was looked for the process was told to stop, or other partitions became ours."""


class RoutesEngine:
    """`turn` is called until the process ends; it raises only what a new start is needed for."""

    def __init__(
        self,
        kafka: Kafka,
        states: TopicStatesGroup,
        sources: TopicSources,
        filters: TopicFilters,
        *,
        metrics: RouteMetrics,
        log: FilteringBoundLogger,
        recheck_s: float,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._kafka, self._states, self._sources, self._filters = kafka, states, sources, filters
        self._metrics, self._log, self._recheck_s, self._stopped = metrics, log, recheck_s, stopped
        self._follower = ChangesFollower(kafka, client_id="recompute-routes")
        self._follower.rows_of(self._reads)
        self._user_topics = UserTopics(kafka)
        self._groups: dict[int, TopicGroup] = {}
        self._open = OpenCommit()
        self._tables = SourceTables()
        self._looked_s = 0.0
        self._trouble: str | None = None

    @property
    def trouble(self) -> str | None:
        """Why the last turn came to nothing; a database without topics is no trouble."""
        return self._trouble

    def turn(self) -> None:
        self._states.keep(0 if self._groups else READ_S)
        trouble = None
        try:
            self._take_over()
            if self._groups:
                self._follow()
        except _Overtaken:
            self._drop_groups()
        except NotInstalled:
            self._begin_anew("the database has no topics yet")
        except TROUBLES as error:
            trouble = str(error)
            self._metrics.restarts.inc()
            self._begin_anew(trouble)
        self._trouble = trouble

    def close(self) -> None:
        self._drop_groups()
        self._states.close()
        self._follower.close()
        self._filters.close()
        self._sources.close()

    def _begin_anew(self, reason: str) -> None:
        self._log.warning("routes_begin_anew", reason=reason)
        self._drop_groups()
        self._sources.close()
        self._states.keep(REST_S)

    def _drop_groups(self) -> None:
        for group in self._groups.values():
            group.close()
        self._groups, self._open = {}, OpenCommit()

    def _take_over(self) -> None:
        """Take the partitions that the group gives us, and let go of those that it took."""
        owned = self._states.owned
        for number in [number for number in self._groups if number not in owned]:
            self._groups.pop(number).close()
        gained = sorted(owned - self._groups.keys())
        if not gained:
            return
        for number in gained:
            writer = TopicStates(self._kafka, number)
            self._groups[number] = TopicGroup(number, writer, self._user_topics, standing(self._kafka, number))
        if any(self._groups[number].position is None for number in gained):
            self._begin(gained)
        self._look()
        self._seek()
        self._log.info("routes_taken_over", partitions=gained)

    def _begin(self, numbers: list[int]) -> None:
        definitions, barrier_id = self._sources.definitions()
        follower = ChangesFollower(self._kafka, client_id="recompute-routes-beginning")
        try:
            found = find_beginning(follower, definitions, barrier_id, keep=self._may_wait)
        finally:
            follower.close()
        if found is None:
            raise _Overtaken
        for number in numbers:
            if self._groups[number].position is None:
                self._groups[number].begin(found.position, found.definitions)
                self._write(self._groups[number])

    def _may_wait(self) -> bool:
        before = set(self._states.owned)
        self._states.keep(0)
        return not self._stopped() and before == self._states.owned

    def _seek(self) -> None:
        """To where the group stands that is furthest behind; the others pass over what they have done."""
        self._open = OpenCommit()
        behind = min(group.position.first_seq for group in self._groups.values() if group.position is not None)
        first = self._follower.first_seq()
        if first is not None and first > behind:
            self._metrics.lost.inc(first - behind)
            self._log.error("routes_lost_changes", wanted_seq=behind, log_begins_at_seq=first)
        self._follower.from_before(Seq(behind - 1), records=0)

    def _reads(self, oid: int) -> bool:
        return any(group.routing.reads(oid) for group in self._groups.values())

    def _look(self) -> None:
        """Ask the catalog about the tables of all routes: shapes, partitions, and who may still read them."""
        routes = [route for group in self._groups.values() for route in group.routes]
        self._tables = self._sources.tables(routes)
        self._filters.forget()
        for group in self._groups.values():
            group.use(self._tables)
        self._looked_s = time.monotonic()

    def _follow(self) -> None:
        if time.monotonic() - self._looked_s > self._recheck_s:
            self._look()
        for event in self._follower.read(READ_S):
            if not isinstance(event, HistoryBegan):
                self._take(event)
            elif self._history_began(event.history):
                return
        self._flush()

    def _take(self, event: ChangeEvent) -> None:
        history = self._follower.reader.history
        match event:
            case RowChanged() | Truncated() | ChangeUnwritable() | RowsTruncated() | ActorNamed() | TopicDefined():
                self._open.take(event, history, self._groups.values())
                if self._open.size >= STEP:
                    self._split()
            case SchemaChanged():
                self._open.alter()
            case Committed():
                self._commit(event, history)
            case _:
                pass

    def _history_began(self, history: int) -> bool:
        """Everything before it is gone: go on from the database's definitions, with the offsets as they are.

        Returns whether the log is to be read from another place.
        """
        behind = [one for one in self._groups.values() if one.position is None or one.position.history < history]
        if behind:
            self._flush()
            self._log.warning("routes_history_began", history=history)
            for group in behind:
                group.begin_anew()
            self._begin([group.number for group in behind])
            self._look()
            self._seek()
        return bool(behind)

    def _split(self) -> None:
        """A large transaction is written in parts, each as it is read: it is committed, whatever comes."""
        candidates = self._open.drain()
        for group in self._groups.values():
            here = Position(
                history=self._follower.reader.history,
                lsn=self._open.lsn,
                ordinal=self._open.ordinal,
                first_seq=self._follower.reader.committed_seq,
            )
            if group.is_before(here):
                group.take(candidates.get(group.number, ()), here)
        self._flush(at_once=True)

    def _commit(self, event: Committed, history: int) -> None:
        done, self._open = self._open, OpenCommit()
        candidates = done.drain()
        position = Position(history=history, lsn=event.commit_lsn, first_seq=event.next_seq)
        concerned = [group for group in self._groups.values() if group.is_before(position)]
        for group in concerned:
            group.take(candidates.get(group.number, ()), position)
        if done.alters and concerned:
            self._flush(at_once=True)
            self._look()
        if done.definitions:
            self._define(done.definitions, concerned)
        elif sum(len(group.candidates) for group in concerned) >= STEP:
            self._flush(at_once=True)

    def _define(self, contents: list[bytes], groups: list[TopicGroup]) -> None:
        """What was matched before stands before: a mark of CLEAR comes behind the messages that it ends."""
        for mark in map(read_mark, contents):
            for group in groups:
                if group.number == group_of(mark.topic_id):
                    if group.candidates:
                        self._write(group)
                    group.define(mark.topic_id, mark.definition)
                    self._write(group)
        self._look()

    def _flush(self, *, at_once: bool = False) -> None:
        now_s = time.monotonic()
        for group in self._groups.values():
            is_due = group.position != group.written and now_s - group.written_s > NOTE_S
            if group.has_news or is_due or (at_once and group.position != group.written):
                self._write(group)

    def _write(self, group: TopicGroup) -> None:
        verdicts = judged(group.candidates, self._filters)
        if verdicts.failed:
            self._sources.bury(
                Buried(
                    one.definition.topic_id,
                    one.route.route,
                    one.place.number,
                    reason,
                    group.routing.message(one).SerializeToString(),
                )
                for one, reason in verdicts.failed
            )
            self._metrics.dead.inc(len(verdicts.failed))
        written = group.write(verdicts.matched, time.time_ns() // 1000, time.monotonic())
        self._metrics.messages.inc(written)
