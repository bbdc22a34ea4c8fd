"""The table that `tidewire watch` draws: what has changed stands out, and fades."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from tidewire import Change, Deleted, Initial, Inserted, Renewed, Row, Updated

from services.cli.watch_lines import names_of, value_text

# How a change looks while it is younger than this many seconds.
FADING = ((0.6, "bold black on yellow"), (1.5, "bold yellow"), (3.0, "yellow"))
FADING_ROW = ((0.6, "bold black on green"), (1.5, "bold green"), (3.0, "green"))
GONE_S = 1.5
RATE_S = 5.0
# Title, rules, header and footer.
FRAME_LINES = 8
NUMBERS = frozenset("0123456789.-+eE")


class Status(Struct, frozen=True):
    """What the footer tells of the connection."""

    rows: int
    lsn: str | None
    trouble: str | None


@dataclass(slots=True, eq=False)
class Line:
    """A row of the table and when it changed."""

    row: Row
    born_s: float | None = None
    gone_s: float | None = None
    changed_s: dict[int, float] = field(default_factory=dict)

    @property
    def touched_s(self) -> float:
        return max((self.born_s or 0.0, self.gone_s or 0.0, *self.changed_s.values()))


class Board:
    """What is shown now; times are a clock's seconds, handed in."""

    def __init__(self, sql: str, columns: Sequence[str]) -> None:
        self._sql, self._columns = " ".join(sql.split()), columns
        self._lines: list[Line] = []
        self._at: dict[Row, list[Line]] = {}
        self._recent: deque[tuple[float, int]] = deque()
        self._total = 0
        self._note: tuple[float, str] | None = None

    def take(self, change: Change, now_s: float) -> None:
        match change:
            case Initial(rows=rows):
                for row in rows:
                    self._add(Line(row))
                return
            case Inserted(rows=rows):
                count = len(rows)
                self._insert(rows, now_s)
            case Deleted(rows=rows):
                count = len(rows)
                self._delete(rows, now_s)
            case Updated(rows=pairs):
                count = len(pairs)
                lines = [self._take_out(pair.old) for pair in pairs]
                for line, pair in zip(lines, pairs, strict=True):
                    changed = (place for place, old in enumerate(pair.old) if old != pair.new[place])
                    line.row, line.changed_s = pair.new, {**line.changed_s, **dict.fromkeys(changed, now_s)}
                    self._at.setdefault(line.row, []).append(line)
            case Renewed(inserted=inserted, deleted=deleted, because=because):
                count = len(inserted) + len(deleted)
                self._delete(deleted, now_s)
                self._insert(inserted, now_s)
                self._note = now_s, because
        self._total += count
        self._recent.append((now_s, count))

    def picture(self, now_s: float, status: Status, *, height: int) -> RenderableType:
        """Everything, within so many lines of a screen."""
        most = max(height - FRAME_LINES, 3)
        title = Text(self._sql, style="italic", overflow="ellipsis", no_wrap=True)
        return Group(title, self.table(now_s, most_rows=most), self._footer(now_s, status, most))

    def table(self, now_s: float, *, most_rows: int | None) -> Table:
        self._forget(now_s)
        lines = self._shown(most_rows)
        width = len(lines[0].row) if lines else len(self._columns)
        table = Table(box=box.SIMPLE_HEAD, header_style="bold")
        table.add_column("", width=1)
        for place, name in enumerate(names_of(self._columns, width)):
            table.add_column(Text(name), justify="right" if _is_numeric(lines, place) else "left", overflow="ellipsis")
        for line in lines:
            table.add_row(_mark(line, now_s), *(_cell(line, place, now_s) for place in range(len(line.row))))
        return table

    def _shown(self, most_rows: int | None) -> list[Line]:
        if most_rows is None or len(self._lines) <= most_rows:
            return self._lines
        # What changed last is what one looks for; the order stays, so that rows do not jump.
        last = set(sorted(self._lines, key=lambda line: line.touched_s, reverse=True)[:most_rows])
        return [line for line in self._lines if line in last]

    def _footer(self, now_s: float, status: Status, most_rows: int) -> Text:
        while self._recent and self._recent[0][0] < now_s - RATE_S:
            self._recent.popleft()
        rate = sum(count for _, count in self._recent) / RATE_S
        if status.trouble is None:
            footer = Text.assemble(("● live", "bold green"))
        else:
            footer = Text.assemble((f"○ connecting again: {status.trouble}", "bold red"))
        shown = f" ({most_rows} that changed last are shown)" * (len(self._lines) > most_rows)
        facts = [
            f"{status.rows:,} row{'s' * (status.rows != 1)}{shown}",
            f"{rate:.1f} changes/s",
            f"{self._total:,} so far",
        ]
        facts += [f"LSN {status.lsn}"] * (status.lsn is not None)
        footer.append("".join(f" · {fact}" for fact in facts), style="dim")
        footer.append(" · Ctrl-C ends", style="dim")
        if self._note is not None and now_s - self._note[0] < 2 * RATE_S:
            footer.append(f"\nrenewed: {self._note[1]}", style="blue")
        return footer

    def _add(self, line: Line) -> None:
        self._lines.append(line)
        self._at.setdefault(line.row, []).append(line)

    def _insert(self, rows: Sequence[Row], now_s: float) -> None:
        for row in rows:
            self._add(Line(row, born_s=now_s))

    def _delete(self, rows: Sequence[Row], now_s: float) -> None:
        for row in rows:
            self._take_out(row).gone_s = now_s

    def _take_out(self, row: Row) -> Line:
        """A line of this row; it is no longer found by it."""
        lines = self._at[row]
        line = lines.pop()
        if not lines:
            del self._at[row]
        return line

    def _forget(self, now_s: float) -> None:
        self._lines = [line for line in self._lines if line.gone_s is None or now_s - line.gone_s < GONE_S]


def _mark(line: Line, now_s: float) -> Text:
    if line.gone_s is not None:
        return Text("-", style="bold red")
    if line.born_s is not None and now_s - line.born_s < FADING[-1][0]:
        return Text("+", style="bold green")
    if any(now_s - changed_s < FADING[-1][0] for changed_s in line.changed_s.values()):
        return Text("~", style="yellow")
    return Text("")


def _cell(line: Line, place: int, now_s: float) -> Text:
    value = line.row[place]
    if line.gone_s is not None:
        return Text(value_text(value), style="dim strike red")
    style = "dim italic" if value is None else ""
    if line.born_s is not None:
        style = _faded(now_s - line.born_s, FADING_ROW) or style
    if place in line.changed_s:
        style = _faded(now_s - line.changed_s[place], FADING) or style
    return Text(value_text(value), style=style)


def _faded(age_s: float, steps: Sequence[tuple[float, str]]) -> str:
    return next((style for younger_than_s, style in steps if age_s < younger_than_s), "")


def _is_numeric(lines: Sequence[Line], place: int) -> bool:
    values = [str(line.row[place]) for line in lines if len(line.row) > place and line.row[place] is not None]
    return bool(values) and all(value and NUMBERS.issuperset(value) for value in values)
