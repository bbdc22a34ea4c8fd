"""Which templates a change concerns: those that read its table, unless only columns changed that they do not read."""

from collections.abc import Iterable

from proto.pgoutput.messages import ABSENT
from proto.streams.changes import ChangeUnwritable, RowChanged, SchemaChanged, Truncated
from services.recompute.core.live_query import LiveTemplate


class Interest:
    """The templates by the tables that they read, with the names of the columns."""

    def __init__(self) -> None:
        self._readers: dict[int, dict[bytes, tuple[LiveTemplate, frozenset[str]]]] = {}
        self._tables: dict[bytes, tuple[int, ...]] = {}

    def set(self, template: LiveTemplate) -> None:
        """Remember what the template's plan reads, in place of what an earlier plan did."""
        self.forget(template.id)
        assert template.plan is not None
        for read in template.plan.reads:
            table = template.tables.get(read.table)
            columns = frozenset(table.columns[place].name for place in read.columns) if table else frozenset()
            self._readers.setdefault(read.table, {})[template.id] = (template, columns)
        self._tables[template.id] = tuple(read.table for read in template.plan.reads)

    def forget(self, template_id: bytes) -> None:
        for oid in self._tables.pop(template_id, ()):
            readers = self._readers[oid]
            readers.pop(template_id, None)
            if not readers:
                del self._readers[oid]

    def readers(self, oid: int) -> Iterable[LiveTemplate]:
        return [template for template, _ in self._readers.get(oid, {}).values()]

    def reads(self, oid: int) -> bool:
        return oid in self._readers

    def concerned_by(self, events: Iterable[RowChanged]) -> Iterable[LiveTemplate]:
        """The templates that some of these changes concern; changes of one kind are looked at once."""
        concerned: dict[bytes, LiveTemplate] = {}
        for oid, changed in {(event.relation.oid, _changed_columns(event)) for event in events}:
            for template, columns in self._readers.get(oid, {}).values():
                if changed is None or columns & changed:
                    concerned[template.id] = template
        return concerned.values()

    def touched_by(
        self, events: Iterable[RowChanged | Truncated | ChangeUnwritable | SchemaChanged]
    ) -> dict[bytes, tuple[LiveTemplate, bool]]:
        """The templates that the events of a commit concern, by id, and whether one of their tables was emptied."""
        events = list(events)
        rows = (event for event in events if isinstance(event, RowChanged))
        touched = {template.id: (template, False) for template in self.concerned_by(rows)}
        for event in events:
            if not isinstance(event, RowChanged | SchemaChanged):
                for template in self.readers(event.relation.oid):
                    resets = isinstance(event, Truncated) or touched.get(template.id, (template, False))[1]
                    touched[template.id] = (template, resets)
        return touched


def _changed_columns(event: RowChanged) -> frozenset[str] | None:
    """The names of the columns whose values differ, or None where the log does not tell."""
    if event.before is None or event.after is None or ABSENT in event.before:
        return None
    names = (column.name for column in event.relation.columns)
    return frozenset(
        name
        for name, before, after in zip(names, event.before, event.after, strict=True)
        if after is not ABSENT and before != after
    )
