"""The refusal of a query: what must not be subscribed to, in words for the subscriber."""

ONLY_SELECT = "Only SELECT queries can be subscribed to"


class Refused(Exception):
    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate, self.message = sqlstate, message
