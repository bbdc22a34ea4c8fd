"""Proves who a session's client is: by what PostgreSQL reported, and by one query when nothing else is under way."""

import asyncio
import secrets
from collections.abc import Callable, Iterable

from msgspec import Struct

from proto.pgwire import backend
from proto.pgwire.conversation import Answer, Conversation
from proto.pgwire.framing import Frame
from proto.pgwire.frontend import Startup
from services.gateway.core.identity_question import IdentityQuestion, SessionFacts, Unprovable, askable
from services.gateway.core.principal import Backend, Principal, ProvenIdentity
from services.gateway.errors import RefusalCode, SubscribeRefused

LOGIN = "session_authorization"
IDLE, IN_TRANSACTION, FAILED = b"I", b"T", b"E"
# A server that reads its configuration anew may change settings without a word.
BELIEVED_S = 5.0
NONCE_BYTES = 16

_NOT_PROVEN = "Execution error: who you are cannot be proven on this connection now: "
UNSURE = "this session has mixed its messages in a way that hides it: connect again to subscribe"
REPLICATION = "a replication connection cannot subscribe: connect without the parameter replication"
NOT_REPORTED = "PostgreSQL does not report session_authorization here: connect without a pooler in between"
CANCELLED = "the question was cancelled or failed: subscribe again"
IN_FAILED = "its transaction has failed: ROLLBACK and subscribe again"
UNDER_WAY = "statements are under way: wait for their answers, or send Sync, and subscribe again"


class _Waiter(Struct, frozen=True, eq=False):
    """A subscribe that waits for a proof, with the values of these settings."""

    names: tuple[str, ...]
    future: asyncio.Future[SessionFacts]


class IdentityProof:
    """Of one session; whatever the client sends to PostgreSQL makes what was proven before it void."""

    def __init__(self, connection_id: str, startup: Startup, conversation: Conversation, *, wait_s: float) -> None:
        self._connection_id, self._startup, self._conversation = connection_id, startup, conversation
        self._wait_s = wait_s
        self.ask_by: Callable[[bytes], None]
        # The process of PostgreSQL that serves the session.
        self.backend_pid = 0
        self._reported: dict[str, str] = {}
        # In the order in which they came.
        self.wanted: dict[_Waiter, None] = {}
        self._proof: IdentityQuestion | None = None
        self._waiting: list[_Waiter] = []
        self._facts: SessionFacts | None = None
        self._believed_until_s = 0.0
        self._overtaken = False

    def reported(self, status: Frame) -> str:
        """A ParameterStatus; returns the name of the setting in small letters."""
        if not status.body:
            self._reported = {LOGIN: self._reported[LOGIN]} if LOGIN in self._reported else {}
            return ""
        name, value = backend.parameter_status(status)
        name = name.lower()
        try:
            self._reported[name] = value.decode() if self._speaks_utf8 else value.decode("ascii")
        except UnicodeDecodeError:
            self._reported.pop(name, None)  # in another encoding: as if it had not been told
        return name

    def overtaken(self) -> None:
        """The client has sent PostgreSQL something."""
        self._facts, self._overtaken = None, True

    def end(self) -> None:
        """The session is over: nobody gets an answer any more."""
        for one in (*self.wanted, *self._waiting):
            one.future.cancel()
        self.wanted, self._waiting = {}, []

    async def proven(self, names: tuple[str, ...]) -> ProvenIdentity:
        names = askable(names)
        if self._startup.for_replication:
            raise refusal(REPLICATION)
        if LOGIN not in self._reported:
            raise refusal(NOT_REPORTED)
        facts = self._facts
        if facts is None or not self._is_believed(facts, names):
            facts = await self._asked(names)
        reported = {name: value for name, value in self._reported.items() if name != LOGIN}
        return ProvenIdentity(
            Principal(
                self._connection_id,
                facts.role,
                self._startup.database,
                {**reported, **facts.settings},
                frozenset(reported) | frozenset(facts.settings) | facts.asked,
                login=facts.login,
            ),
            facts.temporaries,
            Backend(self.backend_pid, self._startup.user),
            facts.channels,
        )

    def _is_believed(self, facts: SessionFacts, names: tuple[str, ...]) -> bool:
        fresh = asyncio.get_running_loop().time() < self._believed_until_s
        # In a transaction nothing more could be asked.
        return fresh and (self._conversation.status == IN_TRANSACTION or facts.asked.issuperset(names))

    async def _asked(self, names: tuple[str, ...]) -> SessionFacts:
        wanted = _Waiter(names, asyncio.get_running_loop().create_future())
        self.wanted[wanted] = None
        self.try_asking()
        try:
            async with asyncio.timeout(self._wait_s):
                return await wanted.future
        except TimeoutError:
            raise refusal(IN_FAILED if self._conversation.status == FAILED else UNDER_WAY) from None
        finally:
            self.wanted.pop(wanted, None)

    def try_asking(self) -> None:
        """Ask for all who wait, if nothing is under way."""
        if self._conversation.unsure:
            self._refuse(self.wanted, UNSURE)
            self.wanted = {}
        if not self.wanted or not self._conversation.at_rest or self._conversation.status == FAILED:
            return
        in_transaction = self._conversation.status != IDLE
        names = () if in_transaction else tuple(sorted({name for one in self.wanted for name in one.names}))
        self._proof = IdentityQuestion(secrets.token_hex(NONCE_BYTES), in_transaction, names)
        self._waiting, self.wanted, self._overtaken = list(self.wanted), {}, False
        self.ask_by(self._conversation.ask(self._proof.statements, f"_tidewire_{self._proof.nonce}"))

    def answered(self, answer: Answer) -> None:
        """Believe it only if it begins with the nonce; an answer that does not says that we have lost count."""
        proof, waiting, self._proof, self._waiting = self._proof, self._waiting, None, []
        assert proof is not None
        if answer.rows is None:
            self._refuse(waiting, CANCELLED)
            return
        try:
            facts = proof.read(answer.rows)
        except Unprovable as words:
            self._refuse(waiting, str(words))
            return
        if facts is None or not self._agrees(facts):
            self._conversation.doubt()
            self._refuse(waiting, UNSURE)
            return
        if not self._overtaken:
            self._facts = facts
            self._believed_until_s = asyncio.get_running_loop().time() + BELIEVED_S
        for one in waiting:
            if not one.future.done():
                one.future.set_result(facts)

    def _agrees(self, facts: SessionFacts) -> bool:
        """With what PostgreSQL reported unasked, and with the database that the client came to."""
        return facts.login == self._reported.get(LOGIN) and facts.database in (None, self._startup.database)

    @property
    def _speaks_utf8(self) -> bool:
        return self._reported.get("client_encoding") == "UTF8"

    @staticmethod
    def _refuse(waiting: Iterable[_Waiter], words: str) -> None:
        for one in waiting:
            if not one.future.done():
                one.future.set_exception(refusal(words))


def refusal(words: str) -> SubscribeRefused:
    return SubscribeRefused(RefusalCode.NOT_PROVEN, _NOT_PROVEN + words)
