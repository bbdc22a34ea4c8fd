"""The binary door of one session: live messages F0, F1, F5 and F6 in, requests to the rest of the gateway out."""

import re
import time
from collections.abc import Callable, Coroutine
from typing import Protocol
from uuid import UUID

from msgspec import Struct

from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import Frame
from proto.pgwire.frontend import Startup
from proto.pgwire.live import (
    BACKEND_TYPES,
    FRONTEND_TYPES,
    ID_BYTES,
    NO_SUBSCRIPTION,
    PARTIAL,
    SUBSCRIBE,
    FromClient,
    Pause,
    Resume,
    Subscribe,
    Unsubscribe,
    decode_from_client,
    encode_error,
    encode_parameter_status,
)
from services.gateway.core.bounds import SubscribeLimits
from services.gateway.core.delivery.encoder import Encoder, Outlet
from services.gateway.core.encoders.binary import BinaryEncoder
from services.gateway.core.encoders.partial_rows import PartialRowRule
from services.gateway.core.principal import ProvenIdentity
from services.gateway.core.rate import SubscribeRate, TokenBucket
from services.gateway.core.requests import SubscribeRequest
from services.gateway.errors import Refusal, RefusalCode, SubscribeRefused

# Start-up parameters: a ParameterStatus with the LSN closes each batch; F4 names the key columns; which messages the
# client knows (VR3).
LSN, KEY, MESSAGES = "tidewire.lsn", "tidewire.key", "tidewire.messages"
SPOKEN = FRONTEND_TYPES | BACKEND_TYPES


class Session(Outlet, Protocol):
    """The session that the door belongs to."""

    connection_id: str

    async def proven(self, names: tuple[str, ...] = ()) -> ProvenIdentity: ...
    def reset_since(self, place: int) -> bool: ...


class Delivery(Protocol):
    """What becomes of subscriptions, as a door needs it."""

    def open(self, connection_id: str, outlet: Outlet) -> None: ...
    def close(self, connection_id: str) -> None: ...
    def drained(self, connection_id: str) -> None: ...
    def end_all(self, connection_id: str, refusal: Refusal) -> None: ...
    def unsubscribe(self, subscription_id: UUID, connection_id: str) -> None: ...
    def pause(self, subscription_id: UUID, connection_id: str) -> None: ...
    def resume(self, subscription_id: UUID, connection_id: str) -> None: ...


class Subscribing(Protocol):
    """Carries out a subscribe request: it ends as a subscription, or as a refusal that is sent to the session."""

    async def subscribe(self, request: SubscribeRequest, session: Session, encoder: Encoder, place: int) -> None: ...
    async def reprove(self, session: Session) -> bool: ...


class BinaryDoorParts(Struct, frozen=True):
    """What the doors of all sessions share."""

    delivery: Delivery
    subscribing: Subscribing
    rule: PartialRowRule
    limits: SubscribeLimits
    # Called for each request that is refused here.
    on_refused: Callable[[], None]


class LiveOptions(Struct, frozen=True, kw_only=True):
    """What a client said about live messages when it connected; one that said nothing has the defaults."""

    wants_lsn: bool = False
    wants_key: bool = False
    # The message types that it knows; None: it did not say, and knows all of the document.
    messages: frozenset[int] | None = None


def options_of(startup: Startup) -> LiveOptions:
    """From the start-up message; names of messages that nobody knows are passed over."""
    named = [name for value in startup.values_of(MESSAGES) for name in re.split(r"[^0-9A-Za-z]+", value) if name]
    known = frozenset(int(name, 16) for name in named if re.fullmatch("[Ff][0-9A-Fa-f]", name))
    return LiveOptions(
        wants_lsn=startup.asks_for(LSN), wants_key=startup.asks_for(KEY), messages=known if named else None
    )


class BinaryDoor:
    """Opens with the first live message, so that clients that send none cost nothing."""

    def __init__(
        self,
        session: Session,
        parts: BinaryDoorParts,
        spawn: Callable[[Coroutine[None, None, None]], object],
        *,
        options: LiveOptions,
    ) -> None:
        self._session, self._parts, self._spawn, self._options = session, parts, spawn, options
        self._opened = self._closed = False
        self._encoder: BinaryEncoder
        self._rate: SubscribeRate
        self._flow: TokenBucket
        # Refusals of messages that came in one read: they go out in one write.
        self._refusals: list[bytes] = []

    @property
    def is_open(self) -> bool:
        return self._opened and not self._closed

    def take(self, frame: Frame, place: int) -> None:
        """One live message of the client; `place` is where in its stream it stood."""
        if self._closed:
            return  # something before it in the same read has ended the session
        if not self._opened:
            self._open()
        if frame.type != SUBSCRIBE and not self._flow.admits(time.monotonic()):
            known = frame.body if len(frame.body) == ID_BYTES else NO_SUBSCRIPTION.bytes
            self._refusals.append(encode_error(known, self._flow.refusal().message))
            return
        try:
            message = decode_from_client(frame)
        except MalformedMessage as error:
            # The frame is whole, so the stream is in step: only this message is refused.
            self._refuse(Refusal(RefusalCode.PARSE_ERROR, f"Parse error: {error}"))
            return
        self._carry_out(message, place)

    def flush_refusals(self) -> None:
        """Call when all that came in one read has been taken."""
        if self._refusals:
            refusals, self._refusals = self._refusals, []
            self._session.send(b"".join(refusals))

    def close(self) -> None:
        """The session is over, and its subscriptions with it."""
        if self.is_open:
            self._parts.delivery.close(self._session.connection_id)
        self._closed = True

    def drained(self) -> None:
        """The client reads again."""
        if self.is_open:
            self._parts.delivery.drained(self._session.connection_id)

    def end_all(self, message: str) -> None:
        """The session was reset: what it had ends, as the next user of a pooled connection would want."""
        if self.is_open:
            self._parts.delivery.end_all(self._session.connection_id, Refusal(RefusalCode.ENDED, message))

    async def reprove(self) -> bool:
        """Look whether the client has another role now, which ends what the former one had; false: look again."""
        return not self.is_open or await self._parts.subscribing.reprove(self._session)

    def _open(self) -> None:
        limits = self._parts.limits
        self._opened = True
        self._encoder = self._encoder_by(self._parts.rule)
        self._rate = SubscribeRate(limits.subscribes_per_s, limits.subscribes_under_way)
        self._flow = TokenBucket(limits.messages_per_s)
        self._parts.delivery.open(self._session.connection_id, self._session)
        if self._options.messages is not None:
            known = sorted(SPOKEN & self._options.messages)
            self._session.send(encode_parameter_status(MESSAGES, ",".join(f"{kind:02X}" for kind in known)))

    def _carry_out(self, message: FromClient, place: int) -> None:
        connection_id, delivery = self._session.connection_id, self._parts.delivery
        match message:
            case Subscribe():
                self._begin_subscribe(message, place)
            case Unsubscribe(subscription=subscription_id):
                delivery.unsubscribe(subscription_id, connection_id)
            case Pause(subscription=subscription_id):
                delivery.pause(subscription_id, connection_id)
            case Resume(subscription=subscription_id):
                delivery.resume(subscription_id, connection_id)

    def _begin_subscribe(self, message: Subscribe, place: int) -> None:
        request = SubscribeRequest(message.query, message.parameters, message.filter)
        try:
            self._parts.limits.bounds.refuse_size(request)
            self._rate.take(time.monotonic())
        except SubscribeRefused as refused:
            self._parts.on_refused()
            self._refuse(refused.refusal)
            return
        encoder = self._encoder
        if message.selective is not None:
            encoder = self._encoder_by(self._parts.rule.overlaid(message.selective))
        self._spawn(self._subscribe(request, encoder, place))

    def _encoder_by(self, rule: PartialRowRule) -> BinaryEncoder:
        known = self._options.messages
        if known is not None and PARTIAL not in known:
            rule = rule.disabled()
        return BinaryEncoder(rule, self._options.wants_lsn, self._options.wants_key)

    async def _subscribe(self, request: SubscribeRequest, encoder: BinaryEncoder, place: int) -> None:
        try:
            await self._parts.subscribing.subscribe(request, self._session, encoder, place)
        finally:
            self._rate.done()

    def _refuse(self, refusal: Refusal) -> None:
        self._session.send(self._encoder.refusal(NO_SUBSCRIPTION.bytes, refusal))
