"""The cursors of subscriptions that stream here: looked up once a second for all, told at once if changed here."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from services.gateway.core.cdc.window import Cursor
from services.gateway.errors import CursorsUnavailable
from services.gateway.outbound.cursors import Cursors

EVERY_S = 1.0
AT_ONCE = 500


class Watched:
    """A subscription's cursor as it is known here; None once it is closed."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor: Cursor | None = cursor
        self.changed = asyncio.Event()
        self.streams = 0

    def set(self, cursor: Cursor | None) -> None:
        if cursor is not None and self.cursor is not None and cursor.acked < self.cursor.acked:
            return  # an older answer
        if cursor != self.cursor:
            self.cursor = cursor
            self.changed.set()


class CursorWatch:
    def __init__(self, cursors: Cursors) -> None:
        self._cursors = cursors
        self._watched: dict[str, Watched] = {}

    def __len__(self) -> int:
        """How many streams there are."""
        return sum(watched.streams for watched in self._watched.values())

    @contextmanager
    def watching(self, sub_id: str, cursor: Cursor) -> Iterator[Watched]:
        watched = self._watched.setdefault(sub_id, Watched(cursor))
        watched.set(cursor)
        watched.streams += 1
        try:
            yield watched
        finally:
            watched.streams -= 1
            if not watched.streams:
                self._watched.pop(sub_id, None)

    def changed(self, sub_id: str, cursor: Cursor | None) -> None:
        watched = self._watched.get(sub_id)
        if watched is not None:
            watched.set(cursor)

    async def keep(self) -> None:
        """Look them up, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self._look()
            except CursorsUnavailable:
                continue  # streams go on by what was known; nothing is acked meanwhile

    async def _look(self) -> None:
        sub_ids = list(self._watched)
        for place in range(0, len(sub_ids), AT_ONCE):
            some = sub_ids[place : place + AT_ONCE]
            for sub_id, cursor in zip(some, await self._cursors.standing(some), strict=True):
                self.changed(sub_id, cursor)
