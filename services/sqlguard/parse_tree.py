"""What PostgreSQL's own parser makes of a statement: types, and the objects that it names, found without running it.

PostgreSQL prints its parse tree to a session that sets debug_print_parse, before and after views and policies were put
in. That is the one exact answer to "which function is meant here"; nothing is planned or run for it. The tree is read
flat, by its fields: whatever a name in the query looks like, it can only add to what is found.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import psycopg
from msgspec import Struct
from psycopg import pq
from psycopg.errors import Diagnostic
from psycopg.sql import SQL

from proto.rows import ResultRow
from services.sqlguard.refusal import ONLY_SELECT, Refused

FIRST_USER_OID = 16384
# Settings under which the server tells the tree; pretty printing would cost three times the bytes.
_TELLING = {
    "debug_pretty_print": "off",
    "debug_print_parse": "on",
    "debug_print_rewritten": "on",
    "client_min_messages": "log",
}
_SILENT = {"debug_print_parse": "off", "debug_print_rewritten": "off", "client_min_messages": "error"}
_TITLES = ("parse tree:", "rewritten parse tree:")
_PRINTER = "elog_node_display"
_LINE_BYTES = 78
_STILL_TELLING = b"""
SELECT pg_catalog.current_setting('debug_print_parse'), pg_catalog.current_setting('debug_print_rewritten'),
       pg_catalog.current_setting('client_min_messages')
"""

_FUNCTION = re.compile(r":(?:funcid|opfuncid|aggfnoid|winfnoid|eqfuncid|negfuncid) (\d+)")
_OPERATOR = re.compile(r":(?:opno|eqop|sortop) (\d+)")
_OIDS = re.compile(r"\(o ([\d ]+)\)")
_RELATION = re.compile(r":relid (\d+)")
_NUMBER = re.compile(r"(?<=[ \[(])\d{5,10}(?=[ \])}])")
# Where something stands in the text, or how long it is.
_PLACE = re.compile(r":\w*(?:location|stmt_len|_start|_end) -?\d+")
_COMMAND = re.compile(r":commandType (\d+)")
_VALUE_FUNCTION = re.compile(r"\{SQLVALUEFUNCTION :op (\d+)")
_SETTING = re.compile(
    r":funcid (?:2077|3294) [^{}]*?:args \(\{"
    r"(?:CONST :consttype 25 [^{}\[\]]*:constisnull false [^{}\[\]]*:constvalue \d+ \[ (?P<bytes>[-\d ]+) \]"
    r"|PARAM :paramkind 0 :paramid (?P<parameter>\d+) )"
)
_SETTING_CALLS = re.compile(r":funcid (?:2077|3294) ")
_VARLENA_HEADER = 4
_TARGET = re.compile(
    r"\{TARGETENTRY :expr \{VAR :varno 1 :varattno \d+ :vartype (?P<type>\d+) :vartypmod (?P<modifier>-?\d+) [^{}]*\}"
    r" :resno \d+ :resname (?P<name>(?:[^\\ ]|\\.)+) :ressortgroupref"
)
# A node's brackets, the list that a query sorts by ("<>" if it has none), and what only looks like either.
_SORTING = re.compile(r"\\.|[{}]|:sortClause (?:<>)?", re.DOTALL)
_UNESCAPED = re.compile(r"\\(.)", re.DOTALL)

# Runs a statement of our own with these parameters of these types.
Ask = Callable[[bytes, Sequence[bytes | None], Sequence[int]], list[ResultRow]]


class ParsedColumn(Struct, frozen=True):
    name: str
    type_oid: int
    type_modifier: int


class Parsed(Struct, frozen=True, dict=True):
    """A SELECT that PostgreSQL has read: nothing of it was run."""

    parameter_types: tuple[int, ...]
    columns: tuple[ParsedColumn, ...]
    # As written, and with views and the policies that bind the role put in.
    tree: str
    rewritten: str

    @cached_property
    def functions(self) -> frozenset[int]:
        return _numbers(_FUNCTION, self.tree + self.rewritten)

    @cached_property
    def operators(self) -> frozenset[int]:
        listed = (int(oid) for text in _OIDS.findall(self.tree + self.rewritten) for oid in text.split())
        return _numbers(_OPERATOR, self.tree + self.rewritten) | frozenset(listed)

    @cached_property
    def relations(self) -> frozenset[int]:
        """Those that the statement itself names; what views read is not among them."""
        return _numbers(_RELATION, self.tree) - {0}

    @cached_property
    def rewritten_relations(self) -> frozenset[int]:
        """Those that are read in the end, by views and policies too."""
        return _numbers(_RELATION, self.rewritten) - {0}

    @cached_property
    def user_objects(self) -> frozenset[int]:
        """Every number that may be the oid of an object that did not come with PostgreSQL."""
        numbers = _numbers(_NUMBER, _PLACE.sub("", self.tree + " " + self.rewritten))
        return frozenset(number for number in numbers if FIRST_USER_OID <= number < 1 << 32)

    @cached_property
    def value_functions(self) -> frozenset[int]:
        """The SQLValueFunctionOp numbers: 0 CURRENT_DATE … 12 SESSION_USER … 14 CURRENT_SCHEMA."""
        return _numbers(_VALUE_FUNCTION, self.tree + self.rewritten)

    @cached_property
    def is_ordered(self) -> bool:
        """Whether the statement itself has ORDER BY; one inside a subquery or a view orders nothing."""
        depth = 0
        for found in _SORTING.finditer(self.tree):
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if depth == 1 and found[0].startswith(":"):
                return not found[0].endswith("<>")
        return False

    def settings_read(self, parameters: Sequence[bytes | None] = ()) -> frozenset[str]:
        """The names that current_setting() is asked for; Refused where one is not a literal."""
        found = [_setting(match, parameters) for match in _SETTING.finditer(self.rewritten)]
        if len(found) != len(_SETTING_CALLS.findall(self.rewritten)):
            raise Refused("0A000", "current_setting() of a name that is not a literal cannot be subscribed to")
        return frozenset(found)


def set_local(connection: psycopg.Connection, settings: Mapping[str, str]) -> None:
    """Set for the rest of the transaction, by statements that no search_path can lead elsewhere."""
    calls = ", ".join(["pg_catalog.set_config(%s, %s, true)"] * len(settings))
    pairs = [part for pair in settings.items() for part in pair]
    connection.execute(SQL("SELECT " + calls), pairs, prepare=False)


class Told:
    """The trees that the server has printed, in their order."""

    def __init__(self) -> None:
        self._trees: list[tuple[str, str]] = []

    def hear(self, diagnostic: Diagnostic) -> None:
        """Only what the server's own printer says: a function can raise a message with the same title."""
        title = diagnostic.message_primary or ""
        if title in _TITLES and diagnostic.source_function == _PRINTER:
            self._trees.append((title, diagnostic.message_detail or ""))

    def last(self, ask: Ask) -> tuple[str, str]:
        """The tree of the statement that was prepared last, as written and rewritten.

        PostgreSQL prints both when the statement is read, and runs nothing after that. Code that ran while it was read
        could have printed other trees before, and silenced this one: then the settings tell it.
        """
        found = [next((text for said, text in reversed(self._trees) if said == title), "") for title in _TITLES]
        if ask(_STILL_TELLING, (), ())[0] != (b"on", b"on", b"log"):
            raise Refused("42501", "the statement runs code while PostgreSQL reads it: it cannot be subscribed to")
        self._trees.clear()
        tree, rewritten = map(_unwrapped, found)
        return tree, rewritten


@contextmanager
def told(connection: psycopg.Connection, set_: Callable[[Mapping[str, str]], None]) -> Iterator[Told]:
    """What the server tells of the trees inside the block; `set_` sets for the rest of the transaction."""
    trees = Told()
    set_(_TELLING)
    connection.add_notice_handler(trees.hear)
    try:
        yield trees
    finally:
        connection.remove_notice_handler(trees.hear)
        if connection.info.transaction_status is pq.TransactionStatus.INTRANS:
            set_(_SILENT)


def refuse_unless_select(tree: str, rewritten: str) -> None:
    """CMD_SELECT is 1. A writing CTE has another command inside, SELECT INTO is a utility command, FOR UPDATE locks."""
    if not tree.startswith("{QUERY ") or not rewritten:
        raise Refused("0A000", ONLY_SELECT)
    commands = _numbers(_COMMAND, tree + rewritten)
    locks = "{ROWMARKCLAUSE " in tree or "{ROWMARKCLAUSE " in rewritten
    if commands != {1} or locks or ":hasModifyingCTE true" in tree:
        raise Refused("0A000", ONLY_SELECT)


def outer_columns(tree: str) -> tuple[ParsedColumn, ...]:
    """The columns of `SELECT * FROM (…) AS result`: its own target list stands last and holds nothing but variables."""
    targets = tree[tree.rindex(":targetList ") :]
    return tuple(
        ParsedColumn(_UNESCAPED.sub(r"\1", found["name"]), int(found["type"]), int(found["modifier"]))
        for found in _TARGET.finditer(targets)
    )


def _unwrapped(text: str) -> str:
    """The dump in one line, as it was before PostgreSQL cut it (format_node_dump).

    A line ends at a space, which is left out, or in the middle of a word that fills it.
    """
    whole: list[str] = []
    for line in text.strip("\n").split("\n"):
        is_cut_word = len(line.encode()) == _LINE_BYTES and " " not in line[1:]
        whole += (line, "" if is_cut_word else " ")
    return "".join(whole).strip()


def _setting(match: re.Match[str], parameters: Sequence[bytes | None]) -> str:
    if match["bytes"] is not None:
        stored = bytes(int(byte) % 256 for byte in match["bytes"].split())
        return stored[_VARLENA_HEADER:].decode().lower()
    place = int(match["parameter"]) - 1
    value = parameters[place] if place < len(parameters) else None
    return "" if value is None else value.decode().lower()


def _numbers(pattern: re.Pattern[str], text: str) -> frozenset[int]:
    return frozenset(int(number) for number in pattern.findall(text))
