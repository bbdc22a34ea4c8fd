"""Whether a client's proof of who it is can pass through a gateway, and whether there was any."""

from proto.pgwire import backend
from proto.pgwire.framing import Frame
from services.gateway.errors import ClientRefused

CHANNEL_BINDING = "SCRAM-SHA-256-PLUS"


class Admission:
    """Watches one login: PostgreSQL asks, the client answers, and both are passed on unless they cannot be."""

    def __init__(self, *, may_trust: bool, by_tls: bool, binds_to_us: bool) -> None:
        """`may_trust`: PostgreSQL may let this client in unasked. `by_tls`: the client's own leg is encrypted.
        `binds_to_us`: channel binding would bind to our certificate, not to PostgreSQL's."""
        self._may_trust, self._by_tls, self._binds_to_us = may_trust, by_tls, binds_to_us
        self._was_asked = self._by_sasl = False

    def asked(self, frame: Frame) -> bool:
        """Take PostgreSQL's Authentication message in; True if the client is in."""
        kind = backend.authentication_kind(frame)
        if kind == backend.AUTHENTICATED:
            if not (self._was_asked or self._may_trust):
                raise ClientRefused(
                    "PostgreSQL asks clients of this gateway for no password (trust or peer in pg_hba.conf): "
                    "let it ask for scram-sha-256, or set TIDEWIRE_GATEWAY_ALLOW_TRUST=true"
                )
            return True
        if kind not in backend.PASSABLE:
            name = backend.FORBIDDEN.get(kind, f"method {kind}")
            raise ClientRefused(
                f"{name} authentication cannot pass through this gateway: let pg_hba.conf ask for scram-sha-256, "
                "or connect to PostgreSQL directly"
            )
        self._was_asked, self._by_sasl = True, kind == backend.SASL
        return False

    def shown(self, frame: Frame) -> Frame:
        """PostgreSQL's message as this client may see it: one without TLS is offered no channel to bind.

        libpq hangs up on such an offer. Nothing is weakened by it: the client says that it cannot bind, which is true.
        """
        if self._by_tls or backend.authentication_kind(frame) != backend.SASL:
            return frame
        return backend.without_mechanism(frame, CHANNEL_BINDING)

    def answer(self, frame: Frame) -> None:
        """Look at what a client sends before it is in."""
        if frame.type != ord("p"):
            raise ClientRefused("a live message came before authentication", sqlstate="08P01")
        if self._by_sasl and self._binds_to_us and backend.sasl_mechanism(frame.body) == CHANNEL_BINDING:
            raise ClientRefused(
                "channel binding cannot pass through this gateway, since TLS ends here with another certificate than "
                "PostgreSQL's: connect with channel_binding=disable, or give the gateway PostgreSQL's own certificate"
            )
        self._by_sasl = False
