"""The messages of PostgreSQL that the gateway reads while it passes them on, and those it writes itself."""

from struct import Struct as Packed

from proto.pgwire.cursor import Cursor
from proto.pgwire.framing import Frame, encode_frame

AUTHENTICATION, PARAMETER_STATUS, ERROR_RESPONSE, DATA_ROW, READY_FOR_QUERY, COMMAND_COMPLETE = b"RSEDZC"
BACKEND_KEY, NOTIFICATION = b"KA"
PARSE, BIND, EXECUTE, CLOSE, SYNC = b"PBECS"

# AuthenticationOk, and the kinds of proof that PostgreSQL asks a client for: section 54.7 of its manual.
AUTHENTICATED, CLEAR_TEXT, MD5, GSS, SSPI, SASL = 0, 3, 5, 7, 9, 10
# What passes through a gateway between the two: the client's proof does not depend on the connection.
PASSABLE = frozenset({AUTHENTICATED, CLEAR_TEXT, MD5, SASL, 11, 12})
FORBIDDEN = {GSS: "GSSAPI", 8: "GSSAPI", SSPI: "SSPI", 2: "Kerberos"}

DISCARDED_ALL = b"DISCARD ALL\0"
# Of SET and RESET of anything, the role included.
SETTING_CHANGED = frozenset((b"SET\0", b"RESET\0"))
# What a session listens to may be another behind these.
LISTENING_CHANGED = frozenset((b"LISTEN\0", b"UNLISTEN\0", DISCARDED_ALL))
_INT16 = Packed("!h")


def authentication_kind(frame: Frame) -> int:
    return Cursor(frame.body).int32()


def sasl_mechanism(body: bytes) -> str:
    """The mechanism in a client's first answer to SASL."""
    return Cursor(body).string()


def without_mechanism(frame: Frame, name: str) -> Frame:
    """AuthenticationSASL that does not offer one of its mechanisms."""
    kind, mechanisms = frame.body[:4], frame.body[4:].removesuffix(b"\0\0").split(b"\0")
    left = b"".join(mechanism + b"\0" for mechanism in mechanisms if mechanism != name.encode())
    return Frame(frame.type, kind + left + b"\0")


def backend_pid(key: Frame) -> int:
    """Of a BackendKeyData: the process that serves the session."""
    return int.from_bytes(key.body[:4])


def parameter_status(frame: Frame) -> tuple[str, bytes]:
    """Name and value; the value is in the client's encoding, whatever that is."""
    name, _, value = frame.body.partition(b"\0")
    return name.decode("ascii", "replace"), value.removesuffix(b"\0")


def row_values(data_row: bytes) -> tuple[bytes | None, ...]:
    cursor = Cursor(data_row)
    return tuple(cursor.value() for _ in range(cursor.count()))


def is_fatal(error_response: bytes) -> bool:
    """Whether PostgreSQL ends the session with this error; the field V is never translated."""
    return any(field in error_response for field in (b"VFATAL\0", b"VPANIC\0"))


def encode_fatal(sqlstate: str, message: str) -> bytes:
    """An ErrorResponse that ends the connection."""
    fields = (("S", "FATAL"), ("V", "FATAL"), ("C", sqlstate), ("M", message))
    body = b"".join(code.encode() + text.encode() + b"\0" for code, text in fields)
    return encode_frame(ERROR_RESPONSE, body + b"\0")


def encode_question(statements: tuple[str, ...], name: str, leftover: str = "") -> bytes:
    """Each statement by the extended protocol under `name`, and one Sync: the client's unnamed one stays as it is.

    What a question that failed has left behind under its name is closed first: to close what is not there is no error.
    """
    ours = name.encode() + b"\0"
    parts = [encode_frame(CLOSE, b"S" + leftover.encode() + b"\0")] if leftover else []
    for statement in statements:
        parts += [
            encode_frame(PARSE, ours + statement.encode() + b"\0" + _INT16.pack(0)),
            encode_frame(BIND, ours + ours + _INT16.pack(0) * 3),
            encode_frame(EXECUTE, ours + bytes(4)),
            encode_frame(CLOSE, b"P" + ours),
            encode_frame(CLOSE, b"S" + ours),
        ]
    return b"".join(parts) + encode_frame(SYNC, b"")


def notified_channel(notification: Frame) -> bytes:
    """The channel of a NotificationResponse: it stands behind the notifier's process id."""
    return notification.body[4:].partition(b"\0")[0]


def encode_notification(channel: str, payload: bytes) -> bytes:
    """A NotificationResponse of nobody's process."""
    return encode_frame(NOTIFICATION, bytes(4) + channel.encode() + b"\0" + payload + b"\0")
