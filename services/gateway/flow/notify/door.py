"""Who is let in to a registered query over HTTP: the token first, then the registration, then the audience."""

from json import dumps

from services.gateway.core.http_identity import HttpIdentity
from services.gateway.core.notify.audience import TRUSTED, satisfied
from services.gateway.core.notify.meta import Meta
from services.gateway.errors import RegistrationsUnknown
from services.gateway.flow.notify.hub import HttpSocket, NotifyHub, Recheck
from services.gateway.flow.notify.results import Results
from services.gateway.inbound.http_port.notify import Socket
from services.gateway.inbound.http_port.refusals import HttpRefusal
from services.gateway.outbound.registrations import Registrations

NOT_FOUND = "no such query is registered"
LONGEST_QUERY_ID = 128


class Admission:
    def __init__(self, registrations: Registrations, hub: NotifyHub, results: Results, *, most_sockets: int) -> None:
        self._registrations, self._hub, self._results = registrations, hub, results
        self._most_sockets = most_sockets

    async def open(self, query_id: str, caller: HttpIdentity, recheck: Recheck) -> Socket:
        """A socket, bound to the gen that is committed now."""
        meta = await self._admitted(query_id, caller)
        if self._hub.open_sockets >= self._most_sockets:
            raise HttpRefusal(503, "this gateway has as many sockets as it may: try again", retry_after_s=5.0)
        return self._hub.enter(query_id, meta.gen, caller, recheck)

    def leave(self, socket: Socket) -> None:
        assert isinstance(socket, HttpSocket)
        self._hub.leave(socket)

    async def result(self, query_id: str, caller: HttpIdentity) -> bytes:
        """The rows with their seq and gen; of a gen that this caller was let in to."""
        meta = await self._admitted(query_id, caller)
        try:
            found = await self._results.fetch(query_id, meta.gen)
        except TimeoutError:
            raise HttpRefusal(503, "the query has no result now: try again", retry_after_s=1.0) from None
        head = f'{{"query_id":{dumps(query_id)},"gen":{found.gen},"seq":{found.seq},"rows":['
        return head.encode() + found.rows + b"]}"

    async def _admitted(self, query_id: str, caller: HttpIdentity) -> Meta:
        try:
            # The same question whatever the id is: an answer's time tells nothing.
            meta = await self._registrations.meta(query_id[: LONGEST_QUERY_ID + 1].replace("\0", " "))
        except RegistrationsUnknown:
            raise HttpRefusal(503, "registrations cannot be read now: try again", retry_after_s=1.0) from None
        if meta is None:
            raise HttpRefusal(404, NOT_FOUND)
        if not satisfied(meta.audience, caller):
            if caller.service_role in TRUSTED:
                raise HttpRefusal(403, "the audience of this query is another")
            raise HttpRefusal(404, NOT_FOUND)
        return meta
