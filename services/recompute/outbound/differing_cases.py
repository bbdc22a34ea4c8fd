"""Cases in which a result was not PostgreSQL's answer, as files that somebody can ask again.

They hold values of the subscriber's, so they stand in the worker's own folder, and only their path goes to the log.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from google.protobuf.json_format import MessageToDict

from proto.rows import ResultRow
from proto.tidewire.v1.queries_pb2 import Query
from services.recompute.core.plan import Plan

# Newer ones take the place of the oldest.
MOST_CASES = 100
MOST_ROWS = 200


class DifferingCases:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(
        self,
        query: Query,
        plan: Plan,
        lsn: int | None,
        missing: Sequence[ResultRow],
        surplus: Sequence[ResultRow],
        error: str,
    ) -> Path:
        """`missing` and `surplus`: the rows in which ours differs from PostgreSQL's answer; or its `error`."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        case = {
            "query": MessageToDict(query, preserving_proto_field_name=True),
            "strategy": plan.strategy.value,
            "spark": plan.full.sql if plan.full is not None else None,
            "row_local": None if plan.row_local is None else msgspec.to_builtins(plan.row_local),
            # Behind this commit; none: where the log stood before any commit that concerned it.
            "lsn": lsn,
            "postgres_error": error,
            "missing": [_shown(row) for row in missing[:MOST_ROWS]],
            "surplus": [_shown(row) for row in surplus[:MOST_ROWS]],
        }
        path = self._folder / f"{query.template_id.hex()[:16]}-{lsn or 0:x}.json"
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(case)))
        for old in sorted(self._folder.glob("*.json"), key=lambda one: one.stat().st_mtime)[:-MOST_CASES]:
            old.unlink(missing_ok=True)
        return path


def _shown(row: ResultRow) -> list[str | None]:
    return [None if value is None else value.decode(errors="backslashreplace") for value in row]
