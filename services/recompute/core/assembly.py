"""Builds result rows from the values that Spark computed, and from the log's own text where nothing was computed."""

from msgspec import Struct

from proto.rows import ResultRow
from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import PgType, Table
from services.recompute.core.plan import OutputColumn
from services.recompute.core.rendering import Renderer, as_is, is_utc, renderer
from services.recompute.core.storage import canonical


class Printing:
    """Turns canonical values into a row; nothing is called for the columns whose text is canonical already."""

    def __init__(self, types: list[PgType], settings: TextSettings) -> None:
        self._special: list[tuple[int, Renderer]] = []
        for at, type in enumerate(types):
            if (render := renderer(type, settings)) is not as_is:
                self._special.append((at, render))

    def row(self, values: list[bytes | None]) -> ResultRow:
        """The row; changes the list that is given."""
        for at, render in self._special:
            if (value := values[at]) is not None:
                values[at] = render(value.decode())
        return tuple(values)


class Assembly(Struct, frozen=True):
    """The outputs of a row-local plan over rows of the log."""

    # For each result column its place in the row of the log, or None where Spark computes it.
    taken: tuple[int | None, ...]
    computed: tuple[str, ...]
    printing: Printing

    def row(self, change: ResultRow, values: list[bytes | None]) -> ResultRow:
        if not self.computed:
            return tuple([change[at] for at in self.taken])  # type: ignore[index]
        printed = iter(self.printing.row(values))
        return tuple([next(printed) if at is None else change[at] for at in self.taken])


def assembly(
    outputs: tuple[str, ...], columns: tuple[OutputColumn, ...], table: Table, settings: TextSettings
) -> Assembly:
    """Raises Unrenderable for a type whose text is not known under these settings."""
    plain = {canonical(column.type, f"c{at}"): at for at, column in enumerate(table.columns)}
    taken: list[int | None] = []
    computed: list[str] = []
    types: list[PgType] = []
    for output, column in zip(outputs, columns, strict=True):
        renderer(column.type, settings)
        at = plain.get(output)
        if at is not None and _is_log_text(table.columns[at].type, column.type, settings):
            taken.append(at)
        else:
            taken.append(None)
            computed.append(output)
            types.append(column.type)
    return Assembly(tuple(taken), tuple(computed), Printing(types, settings))


def _is_log_text(held: PgType, shown: PgType, settings: TextSettings) -> bool:
    """Whether the log's text is the result's text: of the types supported here only timestamptz depends on settings."""
    return held.oid == shown.oid and (held.name != "timestamptz" or is_utc(settings.time_zone))
