"""Checks of subscribes on threads of their own; alike ones that have not begun yet are one, and logins take turns.

So that a storm of clients that come back to the same queries costs a few checks and barriers, and one login's slow ones
delay nobody else, whatever roles it sets. Whoever shares a check came before it began: it sees all that was committed
until then.
"""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
from msgspec import Struct

from proto.positions import Lsn
from services.chassis.postgres import PostgresRefused, PostgresUnreachable
from services.gateway.core.bounds import Bounds
from services.gateway.core.fair_queue import FairQueue, QueueFull
from services.gateway.core.principal import Principal
from services.gateway.core.requests import SubscribeRequest
from services.gateway.errors import RefusalCode, SubscribeRefused
from services.gateway.outbound.validation import CONNECTIONS, Checked, Validation

AT_ONCE_A_LOGIN = CONNECTIONS // 2
WAITING_A_LOGIN = 500
CAPTURED_S = 2.0
CROWDED = "Rate limited: too many subscribes of this login are being checked: retry after 1000ms"
UNREACHABLE = "Execution error: PostgreSQL does not answer: subscribe again"
# The session was ended from outside, or its connection: what was asked on it can be asked on another.
_SEVERED = ("57P01", "57P02", "57P03", "57P05", "25P03")


class Question(Struct, frozen=True):
    """All that the answer depends on."""

    query: str
    parameters: tuple[bytes | None, ...]
    filter: str | None
    login: str
    role: str
    database: str
    settings: frozenset[tuple[str, str]]
    certain: frozenset[str]


class _Job(Struct, frozen=True):
    question: Question
    request: SubscribeRequest
    principal: Principal
    answer: asyncio.Future[Checked]


class Checks:
    def __init__(self, validation: Validation, bounds: Bounds | None = None) -> None:
        self._validation, self._bounds = validation, bounds or Bounds()
        # A check may take seconds, and nothing else must wait for a thread behind it.
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="validation")
        self._turns: FairQueue[_Job] = FairQueue(
            at_once=CONNECTIONS, at_once_a_login=AT_ONCE_A_LOGIN, waiting_a_login=WAITING_A_LOGIN
        )
        self._waiting: dict[Question, asyncio.Future[Checked]] = {}

    async def check(self, request: SubscribeRequest, principal: Principal) -> Checked:
        """Raises SubscribeRefused."""
        question = _question(request, principal)
        answer = self._waiting.get(question)
        if answer is None:
            answer = asyncio.get_running_loop().create_future()
            try:
                self._turns.add(principal.login, _Job(question, request, principal, answer))
            except QueueFull:
                raise SubscribeRefused(RefusalCode.RATE_LIMITED, CROWDED) from None
            self._waiting[question] = answer
            self._begin()
        return await asyncio.shield(answer)

    async def captured(self) -> Lsn | None:
        """How far the log of changes has been written; None if PostgreSQL does not tell it soon."""
        asking = asyncio.get_running_loop().run_in_executor(self._threads, self._validation.captured)
        try:
            async with asyncio.timeout(CAPTURED_S):
                return await asking
        except TimeoutError:
            return None

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        while (turn := self._turns.take()) is not None:
            login, job = turn
            del self._waiting[job.question]
            running = self._threads.submit(self._run, job.request, job.principal)
            running.add_done_callback(
                lambda done, login=login, job=job: loop.call_soon_threadsafe(self._done, login, job, done)  # type: ignore[misc]
            )

    def _done(self, login: str, job: _Job, done: "Future[Checked]") -> None:
        self._turns.done(login)
        error = done.exception()
        if error is None:
            job.answer.set_result(done.result())
        else:
            job.answer.set_exception(error)
            job.answer.exception()  # whoever asked may have left
        self._begin()

    def _run(self, request: SubscribeRequest, principal: Principal) -> Checked:
        self._bounds.refuse_shape(request)
        try:
            return self._checked(request, principal)
        except SubscribeRefused as refusal:
            if isinstance(refusal.__cause__, PostgresUnreachable | PostgresRefused) or _is_severed(refusal.__cause__):
                # PostgreSQL's address, which the words may hold, is none of the client's business.
                raise SubscribeRefused(RefusalCode.UNAVAILABLE, UNREACHABLE) from refusal
            raise

    def _checked(self, request: SubscribeRequest, principal: Principal) -> Checked:
        try:
            return self._validation.check(request, principal)
        except SubscribeRefused as refusal:
            if not _is_severed(refusal.__cause__):
                raise
            # The connection had died while it was idle; the next check makes a new one.
            return self._validation.check(request, principal)


def _is_severed(cause: BaseException | None) -> bool:
    if not isinstance(cause, psycopg.OperationalError):
        return False
    return cause.sqlstate is None or cause.sqlstate.startswith("08") or cause.sqlstate in _SEVERED


def _question(request: SubscribeRequest, principal: Principal) -> Question:
    return Question(
        request.query,
        request.parameters,
        request.filter,
        principal.login,
        principal.role,
        principal.database,
        frozenset(principal.settings.items()),
        principal.certain,
    )
