"""The latest transactions of the log, to compare snapshots with."""

from collections import deque

from proto.positions import Xid

REMEMBERED_COMMITS = 10_000


class Commits:
    """Their xids, in commit order."""

    def __init__(self) -> None:
        self._xids: deque[Xid] = deque(maxlen=REMEMBERED_COMMITS)

    def passed(self, xid: Xid) -> None:
        self._xids.append(xid)

    def known(self) -> tuple[Xid, ...]:
        return tuple(self._xids)
