"""What PostgreSQL's own parser makes of a statement: types, and the objects that it names, found without running it.

PostgreSQL prints its parse tree to a session that sets debug_print_parse, before and after views and policies were put
in. That is the one exact answer to "which function is meant here"; nothing is planned or run for it. The tree is read
flat, by its fields: whatever a name in the query looks like, it can only add to what is found.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import psycopg
from msgspec import Struct
from psycopg import pq
from psycopg.errors import Diagnostic, error_from_result
from psycopg.sql import SQL

from services.chassis.refusal import ONLY_SELECT, Refused

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
# No type declared, and the pseudo-type of an undecorated literal.
_INFERRED = (0, 705)

_FUNCTION = re.compile(r":(?:funcid|opfuncid|aggfnoid|winfnoid|eqfuncid|negfuncid) (\d+)")
_OPERATOR = re.compile(r":(?:opno|eqop|sortop) (\d+)")
_OIDS = re.compile(r"\(o ([\d ]+)\)")
_RELATION = re.compile(r":relid (\d+)")
_NUMBER = re.compile(r"(?<=[ \[(])\d{5,10}(?=[ \])}])")
_COMMAND = re.compile(r":commandType (\d+)")
_VALUE_FUNCTION = re.compile(r"\{SQLVALUEFUNCTION :op (\d+)")
_SETTING = re.compile(
    r":funcid (?:2077|3294) [^{}]*?:args \(\{"
    r"(?:CONST :consttype 25 [^{}\[\]]*:constisnull false [^{}\[\]]*:constvalue \d+ \[ (?P<bytes>[-\d ]+) \]"
    r"|PARAM :paramkind 0 :paramid (?P<parameter>\d+) )"
)
_SETTING_CALLS = re.compile(r":funcid (?:2077|3294) ")
_VARLENA_HEADER = 4


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
        numbers = _numbers(_NUMBER, self.tree + " " + self.rewritten)
        return frozenset(number for number in numbers if FIRST_USER_OID <= number < 1 << 32)

    @cached_property
    def value_functions(self) -> frozenset[int]:
        """The SQLValueFunctionOp numbers: 0 CURRENT_DATE … 12 SESSION_USER … 14 CURRENT_SCHEMA."""
        return _numbers(_VALUE_FUNCTION, self.tree + self.rewritten)

    def settings_read(self, parameters: Sequence[bytes | None] = ()) -> frozenset[str]:
        """The names that current_setting() is asked for; Refused where one is not a literal."""
        found = [_setting(match, parameters) for match in _SETTING.finditer(self.rewritten)]
        if len(found) != len(_SETTING_CALLS.findall(self.rewritten)):
            raise Refused("0A000", "current_setting() of a name that is not a literal cannot be subscribed to")
        return frozenset(found)


def parse(connection: psycopg.Connection, sql: str, parameter_types: Sequence[int] = ()) -> Parsed:
    """Let PostgreSQL read one statement, in the open transaction, with its role and search_path.

    Raises psycopg.Error as PostgreSQL says it, and Refused if the statement is anything but a pure SELECT.
    """
    server = connection.pgconn
    declared = [0 if oid in _INFERRED else oid for oid in parameter_types]
    with _told(connection) as told:
        _good(server.prepare(b"", sql.encode(), declared))
        # At once: after a change of the search_path PostgreSQL would read the statement anew.
        described = _good(server.describe_prepared(b""))
    tree, rewritten = (" ".join(told.get(title, "").split()) for title in _TITLES)
    _refuse_unless_select(tree, rewritten)
    return Parsed(
        parameter_types=tuple(described.param_type(place) for place in range(described.nparams)),
        columns=tuple(
            ParsedColumn((described.fname(place) or b"").decode(), described.ftype(place), described.fmod(place))
            for place in range(described.nfields)
        ),
        tree=tree,
        rewritten=rewritten,
    )


def keep_out_of_the_server_log(connection: psycopg.Connection) -> bool:
    """Ask the server, outside a transaction and as ourselves, not to write the trees to its own log too.

    Needs a superuser or GRANT SET ON PARAMETER log_min_messages; without it every tree is logged, and False comes back.
    """
    try:
        connection.execute("SET log_min_messages = fatal")
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


def set_local(connection: psycopg.Connection, settings: Mapping[str, str]) -> None:
    """Set for the rest of the transaction, by statements that no search_path can lead elsewhere."""
    calls = ", ".join(["pg_catalog.set_config(%s, %s, true)"] * len(settings))
    pairs = [part for pair in settings.items() for part in pair]
    connection.execute(SQL("SELECT " + calls), pairs, prepare=False)


@contextmanager
def _told(connection: psycopg.Connection) -> Iterator[dict[str, str]]:
    """What the server tells of the trees inside the block."""
    told: dict[str, str] = {}

    def hear(diagnostic: Diagnostic) -> None:
        title = diagnostic.message_primary or ""
        if title in _TITLES:
            told[title] = diagnostic.message_detail or ""

    set_local(connection, _TELLING)
    connection.add_notice_handler(hear)
    try:
        yield told
    finally:
        connection.remove_notice_handler(hear)
        if connection.info.transaction_status is pq.TransactionStatus.INTRANS:
            set_local(connection, _SILENT)


def _refuse_unless_select(tree: str, rewritten: str) -> None:
    """CMD_SELECT is 1. A writing CTE has another command inside, SELECT INTO is a utility command, FOR UPDATE locks."""
    if not tree.startswith("{QUERY ") or not rewritten:
        raise Refused("0A000", ONLY_SELECT)
    commands = _numbers(_COMMAND, tree + rewritten)
    locks = "{ROWMARKCLAUSE " in tree or "{ROWMARKCLAUSE " in rewritten
    if commands != {1} or locks or ":hasModifyingCTE true" in tree:
        raise Refused("0A000", ONLY_SELECT)


def _setting(match: re.Match[str], parameters: Sequence[bytes | None]) -> str:
    if match["bytes"] is not None:
        stored = bytes(int(byte) % 256 for byte in match["bytes"].split())
        return stored[_VARLENA_HEADER:].decode().lower()
    place = int(match["parameter"]) - 1
    value = parameters[place] if place < len(parameters) else None
    return "" if value is None else value.decode().lower()


def _numbers(pattern: re.Pattern[str], text: str) -> frozenset[int]:
    return frozenset(int(number) for number in pattern.findall(text))


def _good(result: pq.abc.PGresult) -> pq.abc.PGresult:
    if result.status != pq.ExecStatus.COMMAND_OK:
        raise error_from_result(result)
    return result
