"""Who a client is: made of what PostgreSQL reported and proved, never of what the client said of itself."""

from collections.abc import Iterator

from msgspec import Struct

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.sqlguard.meaning import BROUGHT

_DEFAULTS = {
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "search_path": '"$user", public',
}
PG_DOOR = "pg"


class Principal(Struct, frozen=True):
    """Whose rights bind, by which door it came, and the settings that its results depend on."""

    connection_id: str
    # Proven on its connection, or the login where that can be no other role.
    role: str
    database: str
    settings: dict[str, str]
    # The settings whose value is certain: PostgreSQL tells each change of them, or they were proven just now.
    certain: frozenset[str] = frozenset()
    # What PostgreSQL reports as session_authorization.
    login: str = ""
    door: str = PG_DOOR
    # On the monotonic clock, when a caller over HTTP has to prove anew who it is. None: never, as on the PG port, where
    # each subscribe is proven for itself.
    expires_s: float | None = None

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
    def meaning(self) -> dict[str, str]:
        """The settings by which the same text means something else, as far as they are certain."""
        return {name: self.settings[name] for name in BROUGHT if name in self.settings and name in self.certain}

    @property
    def search_path(self) -> list[str]:
        """The schemas by name, the role's own among them."""
        return [self.role if name == "$user" else name for name in schemas_of(self.setting("search_path"))]


class Backend(Struct, frozen=True):
    """The process of PostgreSQL that serves a session, and who logged in there."""

    pid: int
    user: str


class ProvenIdentity(Struct, frozen=True):
    """A principal, and what is in the temporary schema of its session; None if that could not be asked there."""

    principal: Principal
    temporaries: frozenset[str] | None
    backend: Backend = Backend(0, "")
    # The channels that the session listens to; None if that could not be asked.
    channels: frozenset[str] | None = None


def schemas_of(path: str) -> Iterator[str]:
    """The parts of a search path: quoted, with doubled quotes inside, or plain; each letter is looked at once."""
    for index, piece in enumerate(_unquoted(path)):
        if index % 2:
            yield piece
        else:
            yield from (name.lower() for part in piece.split(",") if (name := part.strip()))


def _unquoted(path: str) -> list[str]:
    """What stands outside of quotes and what inside, by turns."""
    pieces, at = [""], 0
    inside = False
    while at < len(path):
        end = path.find('"', at)
        if end < 0:
            pieces[-1] += path[at:]
            break
        pieces[-1] += path[at:end]
        if inside and path[end + 1 : end + 2] == '"':
            pieces[-1] += '"'
            at = end + 2
            continue
        inside = not inside
        pieces.append("")
        at = end + 1
    return pieces
