"""The question on a client's own connection that proves who it is there, and with which settings.

Its answer counts only if it begins with a nonce that nobody could know before: rows of a statement of the client's can
never be taken for it. In a transaction nothing may take a snapshot, so that only SHOW is asked there.
"""

import json
import re
from collections.abc import Sequence

from msgspec import Struct

from services.sqlguard.meaning import BROUGHT

SETTINGS = (
    "role",
    "search_path",
    "bytea_output",
    "extra_float_digits",
    "timezone",
    "datestyle",
    "intervalstyle",
    "client_encoding",
    "standard_conforming_strings",
    *BROUGHT,
)
_ENCODING = 2 + SETTINGS.index("client_encoding")
_STRINGS = 2 + SETTINGS.index("standard_conforming_strings")
NO_ROLE = "none"
# A value goes with every command about a query; longer ones are refused.
VALUE_LIMIT_BYTES = 8 * 1024
ENCODINGS = ("UTF8", "SQL_ASCII")
TEMPORARIES_SEEN = 1000
# Names of settings that can stand in a literal, whatever the client has made of backslashes there.
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)*", re.ASCII)
_WORD = re.compile(r"[\w$]+")
# Names may be spelt by the code points of their letters.
_CODE_POINTS = 'u&"'
NAME_BYTES, LONGEST_LETTER_BYTES = 63, 4
# It runs under the client's search_path and operators, so everything is qualified.
_TEMPORARIES = (
    "(SELECT pg_catalog.json_agg(t.relname)::pg_catalog.text FROM (SELECT c.relname FROM pg_catalog.pg_class c"
    " WHERE c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()"
    " UNION SELECT y.typname FROM pg_catalog.pg_type y"
    " WHERE y.typnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()"
    f" LIMIT {TEMPORARIES_SEEN + 1}) t)"
)


_CHANNELS = "(SELECT pg_catalog.json_agg(c)::pg_catalog.text FROM pg_catalog.pg_listening_channels() c)"


class SessionFacts(Struct, frozen=True):
    """What PostgreSQL says of a session."""

    login: str
    role: str
    settings: dict[str, str]
    # Settings of the user's own that were asked for; one that was never set has no value.
    asked: frozenset[str]
    # The relations and types in its temporary schema; None if that could not be asked.
    temporaries: frozenset[str] | None = None
    database: str | None = None
    # The channels that it listens to; None if that could not be asked.
    channels: frozenset[str] | None = None


class Unprovable(Exception):
    """The answer is genuine, but the session cannot subscribe; the message is for the client."""


class IdentityQuestion(Struct, frozen=True):
    """One question, and how its answer is read."""

    nonce: str
    in_transaction: bool
    names: tuple[str, ...] = ()

    @property
    def statements(self) -> tuple[str, ...]:
        if self.in_transaction:
            shown = (f"SHOW {name}" for name in ("tidewire.nonce", "session_authorization", *SETTINGS))
            return f"SET LOCAL tidewire.nonce = '{self.nonce}'", *shown
        values = [f"'{self.nonce}'", "session_user", *map(_current, SETTINGS)]
        values += ["pg_catalog.current_database()", _TEMPORARIES, _CHANNELS, *map(_current, self.names)]
        return (f"SELECT {', '.join(values)}",)

    def read(self, rows: Sequence[tuple[bytes | None, ...]]) -> SessionFacts | None:
        """What it proves; None if these rows are not the answer to this question."""
        values = self._values(rows)
        if values is None or values[0] != self.nonce.encode():
            return None
        if (values[_ENCODING] or b"").decode("ascii", "replace") not in ENCODINGS:
            raise Unprovable("live queries speak UTF-8: SET client_encoding = 'UTF8' and subscribe again")
        if values[_STRINGS] != b"on":
            raise Unprovable(
                "backslashes mean something else here: SET standard_conforming_strings = on and subscribe again"
            )
        try:
            return self._facts([None if value is None else value.decode() for value in values[1:]])
        except UnicodeDecodeError:
            raise Unprovable("a setting or a name of this session is not UTF-8") from None

    def _values(self, rows: Sequence[tuple[bytes | None, ...]]) -> list[bytes | None] | None:
        if not self.in_transaction:
            wanted = 2 + len(SETTINGS) + 3 + len(self.names)
            return list(rows[0]) if len(rows) == 1 and len(rows[0]) == wanted else None
        fits = len(rows) == 2 + len(SETTINGS) and all(len(row) == 1 for row in rows)
        return [row[0] for row in rows] if fits else None

    def _facts(self, values: list[str | None]) -> SessionFacts:
        login, shown = values[0] or "", values[1 : 1 + len(SETTINGS)]
        settings = {name: value or "" for name, value in zip(SETTINGS, shown, strict=True)}
        own = dict(zip(self.names, values[4 + len(SETTINGS) :], strict=True)) if not self.in_transaction else {}
        for name, value in {**settings, **own}.items():
            if value is not None and len(value.encode()) > VALUE_LIMIT_BYTES:
                raise Unprovable(f"the setting {name!r} is longer than {VALUE_LIMIT_BYTES} bytes: shorten it")
        role = settings.pop("role")
        settings |= {name: value for name, value in own.items() if value is not None}
        facts = SessionFacts(login, login if role == NO_ROLE else role, settings, frozenset(own))
        if self.in_transaction:
            return facts
        temporaries = frozenset(json.loads(values[2 + len(SETTINGS)] or "[]"))
        channels = frozenset(json.loads(values[3 + len(SETTINGS)] or "[]"))
        database = values[1 + len(SETTINGS)]
        return SessionFacts(facts.login, facts.role, settings, facts.asked, temporaries, database, channels)


def askable(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the settings that can be asked for safely."""
    return tuple(name for name in names if _PLAIN_NAME.fullmatch(name) and len(name) < 200)


def shadowing(temporaries: frozenset[str], text: str) -> str | None:
    """A temporary relation or type that the statement may mean, however it spells it."""
    if len(temporaries) > TEMPORARIES_SEEN:
        return "one of very many"
    text = text.lower().replace('""', '"')
    spells_out, words = _CODE_POINTS in text, frozenset(_WORD.findall(text))
    # PostgreSQL cuts a name that is too long: then only its beginning stands in the text.
    return next((name for name in sorted(temporaries) if spells_out or _is_in(name.lower(), text, words)), None)


def _is_in(name: str, text: str, words: frozenset[str]) -> bool:
    is_cut = len(name.encode()) > NAME_BYTES - LONGEST_LETTER_BYTES
    return name in text if is_cut or not _WORD.fullmatch(name) else name in words


def _current(name: str) -> str:
    return f"pg_catalog.current_setting('{name}', true)"
