"""A live query watched from a thread: its messages as lines, and the result that they add up to."""

from collections.abc import Callable
from threading import Event, Thread

from proto.pgwire.live import Ack, Data, FromGateway, PartialData, Refused, Update
from proto.rows import ResultRow
from services.devstack.live_client import LiveConnection, ServerError

LOOK_EVERY_S = 0.2
SIGNS = {Update.FULL: "=", Update.INSERT: "+", Update.UPDATE: "~", Update.DELETE: "-"}
COLOURS = {Update.FULL: "34", Update.INSERT: "32", Update.UPDATE: "33", Update.DELETE: "31"}

Line = tuple[tuple[str, str], ...]


class LiveView:
    """Subscribes through the gateway; `rows` is what a client holds, by the first column, which must be the key."""

    def __init__(self, dsn: str, sql: str, show: Callable[[Line], None]) -> None:
        self._connection = LiveConnection(dsn)
        self._show = show
        self._over = Event()
        self._failure: str | None = None
        self._thread = Thread(target=self._run, args=(sql,), name="live view", daemon=True)
        self.rows: dict[bytes | None, ResultRow] = {}
        self.messages = 0

    def __enter__(self) -> "LiveView":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._connection.close()

    @property
    def failure(self) -> str | None:
        """Why there is no live result, if the gateway said so or went away."""
        return self._failure

    def _run(self, sql: str) -> None:
        self._connection.subscribe(sql)
        try:
            while not self._over.is_set() and self._failure is None:
                message = self._connection.next_message(LOOK_EVERY_S)
                if message is not None:
                    self._take(message)
        except (ServerError, OSError) as error:
            self._failure = str(error)

    def _take(self, message: FromGateway) -> None:
        match message:
            case Ack(tables=tables):
                self._show((("  ▸ live ", "1;34"), (f"subscribed, {tables} table{'s' * (tables != 1)} watched", "34")))
            case Refused(message=text):
                self._failure = text
            case Data(update=update, rows=rows):
                self.messages += 1
                if update is Update.FULL:
                    self.rows = {}
                    self._show((("  ▸ live ", "1;34"), (f"the result has {len(rows)} rows", "34")))
                for row in rows:
                    self._apply(update, row)
            case PartialData(rows=partial_rows):
                self.messages += 1
                for partial in partial_rows:
                    before = self.rows[partial.values[0]]
                    merged = tuple(partial.values.get(at, value) for at, value in enumerate(before))
                    self._apply(Update.UPDATE, merged)

    def _apply(self, update: Update, row: ResultRow) -> None:
        if update is Update.DELETE:
            self.rows.pop(row[0], None)
        else:
            self.rows[row[0]] = row
        text = "  ".join("NULL" if value is None else value.decode("utf-8", "backslashreplace") for value in row)
        self._show((("  ▸ live ", "1;34"), (f"{SIGNS[update]} {text}", COLOURS[update])))
