"""The topic `commands`, in batches: what arrived while a batch was written is the next batch."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import faust

from proto.tidewire.v1.commands_pb2 import Command
from services.registry.errors import Superseded

WAITING = 2
# How long a command may wait for others, to be executed in one batch.
GATHER_S = 0.01


class CarryOut(Protocol):
    def __call__(self, commands: Sequence[Command], *, tenure: int, end: int) -> Awaitable[None]: ...


def listen(
    app: faust.App,
    channel: Any,
    *,
    carry_out: CarryOut,
    decode: Callable[[bytes], Command | None],
    tenure: Callable[[], int],
    batch_commands: int,
) -> None:
    """Let the app carry out what comes in; an offset is committed only when its command has been carried out."""

    @app.agent(channel)
    async def commands(stream: Any) -> None:
        inbox: asyncio.Queue[tuple[int, Any]] = asyncio.Queue(WAITING * batch_commands)

        async def work() -> None:
            while True:
                events = [await inbox.get()]
                await asyncio.sleep(GATHER_S)
                while len(events) < batch_commands and not inbox.empty() and events[0][0] == tenure():
                    events.append(inbox.get_nowait())
                await _settle([event for since, event in events if since == tenure()])

        async def _settle(events: list[Any]) -> None:
            if not events:
                return  # the partition was lost: its next owner reads them
            try:
                batch = [command for event in events if (command := decode(event.value)) is not None]
                await carry_out(batch, tenure=tenure(), end=events[-1].message.offset + 1)
            except Superseded:
                return
            for event in events:
                event.ack()

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(work(), name="work")
                async for event in stream.noack().events():
                    await inbox.put((tenure(), event))
        except* Exception as errors:
            # Faust would start the agent anew without the commands that it took; a new process reads them again.
            await app.crash(errors.exceptions[0])
