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


class Identity(Struct, frozen=True):
    """A client's role and database, and the settings that its results depend on."""

    connection_id: str
    role: str
    database: str
    settings: dict[str, str]

    def setting(self, name: str) -> str:
        return self.settings.get(name) or _DEFAULTS[name]

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
