"""What each message of either side does to a session, by its type byte; as tables, for the walk over the frames."""

from collections.abc import Mapping
from enum import IntEnum

from proto.pgwire.live import FRONTEND_TYPES


class Act(IntEnum):
    """What a message of the client does to the session: sections 54.2 and 54.7 of PostgreSQL's manual."""

    PASSES = 0
    OPENS = 1  # a message of the extended protocol: a batch is open until its Sync
    RUNS = 6  # likewise, and a query runs
    ASKS = 2  # PostgreSQL owes a ReadyForQuery
    SYNCS = 3  # likewise, and the batch is closed
    ENDS_COPY = 4
    TAKEN = 5  # ours: it is not passed on
    LEAVES = 7
    STATES = 8  # as OPENS (Parse) or ASKS (Query), and has the text of a statement


class Sign(IntEnum):
    """What a message of PostgreSQL tells of the session."""

    PASSES = 0
    AUTHENTICATION = 1  # taken: the gateway decides whether it goes on
    PARAMETER = 2
    READY = 3
    COPY_BEGINS = 4
    FAILURE = 5
    COPY_BOTH = 6
    COMPLETION = 7  # noted only where somebody has a use for its tag
    KEY = 8
    NOTICE = 9  # looked at only where a statement of ours was sent
    NOTIFICATION = 10  # taken: whose channel it is decides whether it goes on


def _table(meanings: Mapping[Act, bytes] | Mapping[Sign, bytes]) -> bytes:
    table = bytearray(256)
    for meaning, types in meanings.items():
        for type_byte in types:
            table[type_byte] = meaning
    return bytes(table)


_COMMON = {
    Act.OPENS: b"BDCH",
    Act.STATES: b"PQ",
    Act.RUNS: b"E",
    Act.ASKS: b"F",
    Act.SYNCS: b"S",
    Act.ENDS_COPY: b"cf",
    Act.LEAVES: b"X",
}
# What comes behind the last message of a log-in is read by PostgreSQL after it, so it counts from the first byte.
LOGGING_IN = _table(_COMMON | {Act.TAKEN: b"p" + bytes(FRONTEND_TYPES)})
LOGGED_IN = _table(_COMMON | {Act.TAKEN: bytes(FRONTEND_TYPES), Act.LEAVES: b"Xp"})
_PLAIN = {
    Sign.AUTHENTICATION: b"R",
    Sign.PARAMETER: b"S",
    Sign.READY: b"Z",
    Sign.COPY_BEGINS: b"G",
    Sign.COPY_BOTH: b"W",
    Sign.FAILURE: b"E",
    Sign.KEY: b"K",
    Sign.COMPLETION: b"C",
    Sign.NOTIFICATION: b"A",
}
SIGNS = _table(_PLAIN)
SIGNS_WITH_TOPICS = _table(_PLAIN | {Sign.NOTICE: b"N"})
