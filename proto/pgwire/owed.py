"""What PostgreSQL owes a client, by sections 54.2 and 54.7 of its manual, and by its code where they are silent.

PostgreSQL reads a client's messages one after the other. So which ReadyForQuery answers what is decided by their order
alone, but for a COPY that fails: how far it had read by then cannot be seen. What cannot be seen makes the account
unsure, for the rest of the session.
"""

from collections import deque

# What waits for PostgreSQL, in the order in which it will read it.
ASK = 1  # answered by one ReadyForQuery: Query, FunctionCall, and the start of the session
BATCH = 2  # a batch of the extended protocol begins; it lasts until its SYNC
SYNC = 3  # answered by one ReadyForQuery, together with the BATCH before it
END = 4  # CopyDone or CopyFail: ends the copy that runs when it is read; else it is ignored


class Owed:
    """Tell it what both sides say; `nothing` says whether PostgreSQL has answered all of it."""

    __slots__ = ("_batch", "_copying", "_line", "_skipping", "_swallowed", "answered", "place", "plain", "unsure")

    def __init__(self) -> None:
        self._line: deque[int] = deque([ASK])
        # The client's last BATCH has no SYNC yet.
        self._batch = False
        # PostgreSQL failed in that batch, and passes over everything up to its Sync.
        self._skipping = False
        # PostgreSQL takes rows in, as far as we know.
        self._copying = False
        # A Sync was left out of the account because PostgreSQL ignores it while it copies.
        self._swallowed = False
        self.unsure = False
        # How often PostgreSQL was ready, and how often it will have been when all that was said so far is answered.
        self.answered, self.place = 0, 1
        # In a batch to which another message of the extended protocol adds nothing: need not be told.
        self.plain = False

    @property
    def nothing(self) -> bool:
        return not self._line and not self.unsure

    @property
    def in_batch(self) -> bool:
        """A batch of the extended protocol is open: PostgreSQL is not ready before its Sync."""
        return self._batch

    # What the client says.

    def extended(self) -> None:
        """Parse, Bind, Describe, Execute, Close or Flush."""
        if self._copying:
            self.unsure = True
        elif not self._batch:
            self._batch = True
            self._line.append(BATCH)
        elif self._line and self._line[-1] == END and not self._skipping:
            # Whether a copy that begins in this batch begins before or behind that end is not known here.
            self.unsure = True
        self.plain = not self._copying

    def asks(self) -> None:
        """Query or FunctionCall."""
        if self._copying or (self._batch and not self._skipping):
            # In a copy it is an error or not, and in a batch it is skipped or not, by what happened before.
            self.unsure = True
        elif not self._batch:
            self.place += 1
            self._line.append(ASK)

    def syncs(self) -> None:
        if self._copying:
            self._swallowed = True
            return
        self._batch = self._skipping = self.plain = False
        self.place += 1
        self._line.append(SYNC)

    def ends_copy(self) -> None:
        """CopyDone or CopyFail."""
        self.plain = False
        if self._copying:
            self._copying = False
        elif self._line and not self._skipping:
            self._line.append(END)

    def leaves(self) -> None:
        """Terminate, or what PostgreSQL ends the session for: nothing is certain any more."""
        self.unsure = True

    # What PostgreSQL says.

    def ready(self) -> None:
        """ReadyForQuery."""
        line = self._line
        self.answered += 1
        head = line.popleft() if line else 0
        if head == BATCH:
            while line and line[0] == END:
                line.popleft()
            head = line.popleft() if line else 0
        if head not in (ASK, SYNC):
            self.unsure = True
        while line and line[0] == END:
            line.popleft()  # of a copy that never began, or had failed before
        self._copying = self._swallowed = False

    def copy_begins(self) -> None:
        """CopyInResponse: what comes next in the line is read by the copy."""
        line, self.plain = self._line, False
        if not line or line[0] not in (ASK, BATCH) or self._copying:
            self.unsure = True
            return
        head = line.popleft()
        while line and line[0] == SYNC:
            line.popleft()
            self.place -= 1
            self._swallowed = True
        if line and line[0] == END:
            line.popleft()
        elif line:
            self.unsure = True  # the session ends, unless the copy failed before it read this
        else:
            self._copying = True
        if head == BATCH:
            self._go_on_with_batch()
        line.appendleft(head)

    def fails(self) -> None:
        """ErrorResponse."""
        if self._swallowed:
            # Was that Sync read by the copy, or after it had failed?
            self.unsure = True
        self._copying = False
        if self._batch and self._line and self._line[0] == BATCH and SYNC not in self._line:
            self._skipping = True

    def _go_on_with_batch(self) -> None:
        """Its Sync may have been read by the copy: then what follows still belongs to it."""
        line = self._line
        following = next((one for one in line if one != END), None)
        if following is None:
            self._batch = True
        elif following == BATCH and line[0] == BATCH:
            line.popleft()
        elif following != SYNC:
            self.unsure = True
