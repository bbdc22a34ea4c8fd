"""The NOTIFY door: a registered query as its rows, kept up by the channel's messages.

    from tidewire.notify import NotifyRows

    rows = NotifyRows()
    if rows.take(message):          # each text that LISTEN or the WebSocket brings
        rows.fetched(fetch("http://127.0.0.1:8081", "active_orders", token=token))
    print(rows.rows)

Rows are a set. `take` says whether the whole result must be fetched: at the beginning, after an overflow, an
invalidation, a gap in `seq`, or another `gen`. Messages that came while it was being fetched are applied behind it.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

TIMEOUT_S = 30.0
# So many messages wait for a result that is being fetched; more of them are forgotten, and it is fetched again.
MOST_WAITING = 1000


class NotifyRows:
    """The rows of one registered query; pure: it waits for nothing and connects to nothing."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}
        self.seq: int | None = None
        self.gen: int | None = None
        self._waiting: list[Mapping[str, Any]] | None = []

    @property
    def rows(self) -> list[dict[str, Any]]:
        return list(self._rows.values())

    @property
    def is_current(self) -> bool:
        """Whether the rows are those of `seq`; else the result must be fetched."""
        return self._waiting is None

    def take(self, message: str | bytes) -> bool:
        """One message of the channel; True if the whole result must be fetched now."""
        told = _read(message)
        if told.get("type") == "subscribed":
            self._waiting = []  # a new connection: what was told before it is not known
            return True
        if told.get("type") == "resubscribed":
            return not self.is_current
        if self._waiting is not None:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.clear()
            self._waiting.append(told)
            return True
        return not self._apply(told)

    def fetched(self, result: str | bytes) -> bool:
        """The whole result; True if what came meanwhile asks for another one."""
        found = _read(result)
        self.gen, self.seq = found["gen"], found["seq"]
        self._rows = {_key(row): row for row in found["rows"]}
        waited, self._waiting = self._waiting or [], None
        return any(not self._apply(told) for told in waited)

    def _apply(self, told: Mapping[str, Any]) -> bool:
        """Whether the message was one that follows from what is held."""
        assert self.seq is not None
        if told["gen"] == self.gen and told["seq"] <= self.seq:
            return True  # it is in the result already
        follows = told["gen"] == self.gen and told["seq"] == self.seq + 1 and "inserted" in told
        if not follows:
            self._waiting = [told]
            return False
        for row in told["deleted"]:
            self._rows.pop(_key(row), None)
        for row in told["inserted"]:
            self._rows[_key(row)] = row
        self.seq = told["seq"]
        return True


def fetch(url: str, query_id: str, *, token: str) -> bytes:
    """The whole result of a registered query, for `NotifyRows.fetched`; raises urllib.error.HTTPError."""
    address = f"{url.rstrip('/')}/api/v1/q/{quote(query_id, safe='')}/result"
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is not the address of a gateway: it begins with http:// or https://")
    request = Request(address, headers={"Authorization": f"Bearer {token}"})
    with urlopen(request, timeout=TIMEOUT_S) as answer:
        body: bytes = answer.read()
    return body


def _read(text: str | bytes) -> dict[str, Any]:
    """Numbers keep all their digits."""
    found: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return found


def _key(row: Mapping[str, Any]) -> str:
    return json.dumps(row, default=str, separators=(",", ":"))
