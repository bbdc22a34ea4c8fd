"""The live queries of this worker and their templates: who joins, who ends, and what is let go then."""

from collections.abc import Mapping
from types import MappingProxyType

from proto.tidewire.v1.queries_pb2 import Query
from services.recompute.core.interest import Interest
from services.recompute.core.known_states import KnownStates
from services.recompute.core.live_query import LiveQuery, LiveTemplate
from services.recompute.flow.planner import Planner
from services.recompute.flow.source_runs import SourceRuns
from services.recompute.flow.tables.table_set import TableSet
from services.recompute.metrics import Metrics


class LiveQueries:
    """Templates live as long as they have queries; tables as long as a template needs them."""

    def __init__(
        self,
        planner: Planner,
        tables: TableSet,
        source_runs: SourceRuns,
        known_states: KnownStates,
        metrics: Metrics,
    ) -> None:
        self._planner, self._tables, self._source_runs = planner, tables, source_runs
        self._known_states, self._metrics = known_states, metrics
        self._queries: dict[bytes, LiveQuery] = {}
        self._templates: dict[bytes, LiveTemplate] = {}
        self.queries: Mapping[bytes, LiveQuery] = MappingProxyType(self._queries)
        self.templates: Mapping[bytes, LiveTemplate] = MappingProxyType(self._templates)
        # Which templates read which tables.
        self.interest = Interest()

    def join(self, partition: int, query: Query) -> LiveQuery:
        """A new live query; its template is asked to be planned if that is new too."""
        template = self._template(query)
        live = LiveQuery(partition, query, template, self._known_states.pop(query.query_id))
        self._queries[live.id] = live
        template.add(live)
        self._metrics.queries.set(len(self._queries))
        return live

    def watch(self, query: Query) -> None:
        """Another worker's query, whose plan and tables a standby keeps ready."""
        self._template(query).watch(query.query_id)

    def end(self, query_id: bytes) -> None:
        live = self._queries.pop(query_id, None)
        self._metrics.queries.set(len(self._queries))
        if live is None:
            for template in [one for one in self._templates.values() if query_id in one.watched]:
                template.unwatch(query_id)
                self._drop_unwanted(template)
            return
        live.suspend()
        if live.told is not None:
            self._known_states.ended(query_id, live.told)
        self._source_runs.untrack(query_id)
        live.template.remove(query_id)
        self._drop_unwanted(live.template)

    def suspend(self, template: LiveTemplate) -> None:
        """Drop the results of its queries: they are computed anew."""
        for live in template.members.values():
            live.suspend()
            self._source_runs.untrack(live.id)

    def release(self, oids: frozenset[int]) -> None:
        """Let go of those tables that no template needs."""
        needed = {oid for one in self._templates.values() if one.needs_tables for oid in one.reads}
        for oid in oids - needed:
            self._tables.release(oid)

    def retry_spark(self, now_s: float) -> None:
        """Try Spark again on what it failed on a while ago: the data may have recovered."""
        for live in self._queries.values():
            if live.try_spark_again(now_s):
                self._source_runs.untrack(live.id)

    def _template(self, query: Query) -> LiveTemplate:
        template = self._templates.get(query.template_id)
        if template is None:
            template = self._templates[query.template_id] = LiveTemplate(query.template_id, query)
            self._planner.ask(template)
        return template

    def _drop_unwanted(self, template: LiveTemplate) -> None:
        if template.is_wanted:
            return
        del self._templates[template.id]
        self._planner.forget(template.id)
        self.interest.forget(template.id)
        self.release(template.reads)
