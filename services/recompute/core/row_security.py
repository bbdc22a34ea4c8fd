"""Row-level security as a condition over a table's own columns, for one role and the settings that it had."""

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

# The deparser writes keywords in capitals and quotes every name that is not in small letters, so a bare CURRENT_USER in
# its text is the keyword. What is quoted is stepped over.
_TOKENS = re.compile(
    r"""(?P<name>"(?:[^"]|"")*")
      | (?<![\w".])current_setting\('(?P<setting>(?:[^']|'')*)'::text(?:,\ (?:true|false))?\)
      | (?P<text>'(?:[^']|'')*')
      | \b(?P<user>CURRENT_USER|CURRENT_ROLE|USER)\b
      | \b(?P<subquery>SELECT)\b""",
    re.VERBOSE,
)


class Policy(Struct, frozen=True):
    """The USING condition, as PostgreSQL deparses it."""

    is_permissive: bool
    condition: str


class Visible(Struct, frozen=True):
    # SQL over the table's columns.
    condition: str
    # Why the condition cannot stand beside the table alone; empty if it can.
    obstacle: str = ""


def visible(policies: Iterable[Policy], *, role: str, settings: Mapping[str, str]) -> Visible:
    """One condition for all policies: any permissive one (none: no rows) and every restrictive one."""
    found = list(policies)
    opening = [f"({policy.condition})" for policy in found if policy.is_permissive]
    closing = [f"({policy.condition})" for policy in found if not policy.is_permissive]
    condition = " AND ".join([f"({' OR '.join(opening)})" if opening else "false", *closing])
    obstacle = ""

    def replaced(token: re.Match[str]) -> str:
        nonlocal obstacle
        if token["user"]:
            return f"{_quoted(role)}::name"
        if token["setting"] is not None:
            value = settings.get(token["setting"].replace("''", "'").lower())
            return token[0] if value is None else f"{_quoted(value)}::text"
        if token["subquery"]:
            obstacle = "a policy with a subquery"
        return token[0]

    return Visible(_TOKENS.sub(replaced, condition), obstacle)


def _quoted(text: str) -> str:
    """As the deparser writes it: a backslash makes an escape string, whatever standard_conforming_strings says."""
    doubled = text.replace("'", "''")
    return f"E'{doubled.replace(chr(92), chr(92) * 2)}'" if "\\" in text else f"'{doubled}'"
