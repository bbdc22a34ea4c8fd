"""Who a client is, as its startup message and PostgreSQL's answers tell."""

import re
from collections.abc import Mapping

from msgspec import Struct

from proto.tidewire.v1.commands_pb2 import TextSettings

# A part of a search path: quoted, with doubled quotes inside, or plain.
_PART = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",\s]+))\s*(?:,|$)')
_DEFAULTS = {
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "search_path": '"$user", public',
}
# What a result depends on and PostgreSQL does not tell unasked: read on the client's connection when nothing is under
# way there. SHOW takes no snapshot, so that it may stand in an open transaction.
UNREPORTED = ("role", "search_path", "bytea_output", "extra_float_digits")
NO_ROLE = "none"


class Identity(Struct, frozen=True):
    """A client's role and database, and the settings that its results depend on."""

    connection_id: str
    role: str
    database: str
    settings: dict[str, str]
    # The settings whose value is certain: PostgreSQL tells each change of them, or they were read just now.
    certain: frozenset[str] = frozenset()

    def setting(self, name: str) -> str:
        return self.settings.get(name) or _DEFAULTS[name]

    def known(self, name: str) -> str | None:
        """The value that a setting has now on the client's connection, if that is known."""
        return self.settings.get(name) if name in self.certain else None

    @property
    def text_settings(self) -> TextSettings:
        return TextSettings(
            time_zone=self.setting("timezone"),
            date_style=self.setting("datestyle"),
            interval_style=self.setting("intervalstyle"),
            bytea_output=self.setting("bytea_output"),
            extra_float_digits=int(self.setting("extra_float_digits")),
        )

    @property
    def search_path(self) -> list[str]:
        """The schemas by name, the role's own among them."""
        found = _PART.findall(self.setting("search_path"))
        names = [quoted.replace('""', '"') if quoted else plain.lower() for quoted, plain in found]
        return [self.role if name == "$user" else name for name in names]


def role_of(user: str, settings: Mapping[str, str]) -> str:
    """Whose rights bind: of SET ROLE, else of SET SESSION AUTHORIZATION, else of the login."""
    role = settings.get("role", NO_ROLE)
    return settings.get("session_authorization", user) if role == NO_ROLE else role
