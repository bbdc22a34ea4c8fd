"""The messages of PostgreSQL that the gateway reads while it passes them on, and the one it writes itself."""

from proto.pgwire.cursor import Cursor
from proto.pgwire.framing import Frame, encode_frame

AUTHENTICATION, PARAMETER_STATUS, ERROR_RESPONSE = b"RSE"


def is_authenticated(frame: Frame) -> bool:
    """Whether an Authentication message says that the client is who it says."""
    return frame.type == AUTHENTICATION and Cursor(frame.body).int32() == 0


def parameter_status(frame: Frame) -> tuple[str, str]:
    cursor = Cursor(frame.body)
    return cursor.string(), cursor.string()


def encode_fatal(sqlstate: str, message: str) -> bytes:
    """An ErrorResponse that ends the connection."""
    fields = (("S", "FATAL"), ("V", "FATAL"), ("C", sqlstate), ("M", message))
    body = b"".join(code.encode() + text.encode() + b"\0" for code, text in fields)
    return encode_frame(ERROR_RESPONSE, body + b"\0")
