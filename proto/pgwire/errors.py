"""What is wrong with bytes from the other side."""


class MalformedMessage(Exception):
    """The bytes are not the message that they claim to be; the connection cannot be trusted to be in step."""

    sqlstate = "08P01"
