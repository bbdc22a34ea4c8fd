"""The partitions of this worker: taken over from the worker before, checkpointed, and given up to the next one."""

from structlog.typing import FilteringBoundLogger

from services.recompute.core.known_states import KnownStates
from services.recompute.core.result import State
from services.recompute.flow.live_queries import LiveQueries
from services.recompute.flow.publisher import Publisher
from services.recompute.inbound.changes import CommitLog
from services.recompute.outbound.deltas import Deltas


class Ownership:
    """Knows what the readers of its partitions were told last, and keeps that in checkpoints."""

    def __init__(
        self,
        deltas: Deltas,
        commit_log: CommitLog,
        publisher: Publisher,
        live_queries: LiveQueries,
        known_states: KnownStates,
        log: FilteringBoundLogger,
    ) -> None:
        self._deltas, self._commit_log, self._publisher = deltas, commit_log, publisher
        self._live_queries, self._known_states, self._log = live_queries, known_states, log

    def take_over(self, partitions: tuple[int, ...]) -> None:
        for partition, emitted in self._deltas.take_over(partitions, self._commit_log.history).items():
            self._known_states.take_over(emitted.states)
            self._publisher.answered.add(*emitted.answered)
            self._log.info("partition_taken_over", partition=partition, queries_known=len(emitted.states))

    def give_up(self, partitions: set[int], *, is_standby: bool) -> None:
        """End the queries of the partitions; a standby keeps their plans and tables."""
        for live in [live for live in self._live_queries.queries.values() if live.partition in partitions]:
            if is_standby:
                live.template.watch(live.id)
            self._live_queries.end(live.id)
        self._known_states.give_up(lambda query_id: self._deltas.partition(query_id) in partitions)
        self._log.info("partitions_given_up", partitions=sorted(partitions))

    def checkpoint(self) -> None:
        """Write the checkpoints that are due."""
        for partition in self._deltas.due_for_checkpoint():
            self._deltas.checkpoint(partition, self._states(partition), self._publisher.answered)

    def _states(self, partition: int) -> dict[bytes, State]:
        """What the readers of a partition were told last, of every query that is known."""
        states = self._known_states.taken_over(lambda query_id: self._deltas.partition(query_id) == partition)
        for live in self._live_queries.queries.values():
            if live.partition == partition and (state := live.known_state) is not None:
                states[live.id] = state
        return states
