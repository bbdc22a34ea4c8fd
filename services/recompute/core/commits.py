"""The transactions that the log has shown, as far back as a snapshot is compared with them."""

from collections import deque

import orjson

from proto.positions import Xid
from services.recompute.core.catalog import Table

REMEMBERED_COMMITS = 10_000


class Commits:
    """Their xids, in commit order."""

    def __init__(self) -> None:
        self._xids: deque[Xid] = deque(maxlen=REMEMBERED_COMMITS)

    def passed(self, xid: Xid) -> None:
        self._xids.append(xid)

    def known(self) -> tuple[Xid, ...]:
        return tuple(self._xids)


def is_about(description: bytes, table: Table) -> bool:
    """Whether a DDL mark names the table."""
    objects = orjson.loads(description).get("objects", [])
    return any(
        one.get("oid") == table.oid or (one.get("schema"), one.get("name")) == (table.schema, table.name)
        for one in objects
    )
