"""Checks of subscribes on threads of their own; alike ones that have not begun yet are one.

So that a storm of clients that come back to the same queries costs a few checks and barriers. Whoever shares a check
came before it began: it sees all that was committed until then.
"""

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from msgspec import Struct

from proto.pgwire.live import Subscribe
from services.gateway.core.identity import Identity
from services.gateway.outbound.validation import CONNECTIONS, Checked, Validation


class Question(Struct, frozen=True):
    """All that the answer depends on."""

    query: str
    parameters: tuple[bytes | None, ...]
    filter: str | None
    role: str
    database: str
    settings: frozenset[tuple[str, str]]
    certain: frozenset[str]


class Checks:
    def __init__(self, validation: Validation) -> None:
        self._validation = validation
        # A check may take seconds, and nothing else must wait for a thread behind it.
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="validation")
        self._waiting: dict[Question, Future[Checked]] = {}
        self._guard = threading.Lock()

    async def check(self, subscribe: Subscribe, client: Identity) -> Checked:
        """Raises SubscribeRefused with the words for the client."""
        question = _question(subscribe, client)
        with self._guard:
            future = self._waiting.get(question)
            if future is None:
                future = self._waiting[question] = self._threads.submit(self._run, question, subscribe, client)
        return await asyncio.shield(asyncio.wrap_future(future))

    def _run(self, question: Question, subscribe: Subscribe, client: Identity) -> Checked:
        with self._guard:
            del self._waiting[question]
        return self._validation.check(subscribe, client)


def _question(subscribe: Subscribe, client: Identity) -> Question:
    return Question(
        subscribe.query,
        subscribe.parameters,
        subscribe.filter,
        client.role,
        client.database,
        frozenset(client.settings.items()),
        client.certain,
    )
