"""All parts of the NOTIFY door of one gateway: made, run and closed together."""

import asyncio

from structlog.typing import FilteringBoundLogger

from services.chassis.health import PartProgress
from services.gateway.core.notify.sockets import Sockets
from services.gateway.flow.notify.door import Admission
from services.gateway.flow.notify.hub import NotifyHub
from services.gateway.flow.notify.results import Results
from services.gateway.inbound.http_port.app import Door
from services.gateway.inbound.http_port.notify import NotifyDoor
from services.gateway.inbound.notifications import NotificationLog
from services.gateway.outbound.registrations import Registrations
from services.gateway.outbound.result_requests import ResultRequests
from services.gateway.outbound.roles import Roles
from services.gateway.settings import Settings


class NotifyParts:
    def __init__(self, settings: Settings, roles: Roles, *, gateway_id: str, log: FilteringBoundLogger) -> None:
        own = settings.notify
        self._log = NotificationLog(settings.kafka, log=log)
        self._registrations = Registrations(settings.postgres)
        self._requests = ResultRequests(settings.kafka, settings.seal, gateway_id=gateway_id)
        self._results = Results(self._requests, wait_s=own.result_wait_s)
        self.hub = NotifyHub(
            Sockets(own.socket_limits),
            self._results,
            self._registrations,
            roles,
            reader_role=own.reader_role,
            log=log,
        )
        admission = Admission(self._registrations, self.hub, self._results, most_sockets=own.sockets)
        self.doors: tuple[Door, ...] = (NotifyDoor(admission, unread_timeout_s=settings.gateway.http.unread_timeout_s),)

    async def run(self, progress: PartProgress) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.hub.follow(self._log, progress))
            group.create_task(self.hub.keep())
            group.create_task(self._results.ask_again())

    def close(self) -> None:
        for part in (self._log, self._registrations, self._requests):
            part.close()
