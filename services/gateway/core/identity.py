"""Who a client is, as its startup message and PostgreSQL's answers tell."""

import re

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
# What PostgreSQL tells unasked whenever it changes; others that the startup message names may have changed since.
_REPORTED = frozenset(
    {
        "application_name",
        "client_encoding",
        "datestyle",
        "default_transaction_read_only",
        "integer_datetimes",
        "intervalstyle",
        "is_superuser",
        "server_encoding",
        "server_version",
        "session_authorization",
        "standard_conforming_strings",
        "timezone",
    }
)
_REPORTS_SEARCH_PATH = 18


class Identity(Struct, frozen=True):
    """A client's role and database, and the settings that its results depend on."""

    connection_id: str
    role: str
    database: str
    settings: dict[str, str]

    def setting(self, name: str) -> str:
        return self.settings.get(name) or _DEFAULTS[name]

    def reported(self, name: str) -> str | None:
        """The value that a setting has now on the client's connection, if that is known."""
        major = self.settings.get("server_version", "").split(".")[0]
        if name == "search_path" and major.isdigit() and int(major) >= _REPORTS_SEARCH_PATH:
            return self.settings.get(name)
        return self.settings.get(name) if name in _REPORTED else None

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
