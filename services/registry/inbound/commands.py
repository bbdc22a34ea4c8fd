"""The topic `commands`, one after the other; Faust commits an offset when its command has been carried out."""

from collections.abc import Awaitable, Callable
from typing import Any

import faust

from proto.tidewire.v1.commands_pb2 import Command
from proto.topics import COMMANDS


def listen(app: faust.App, channel: Any, carry_out: Callable[[Command], Awaitable[None]]) -> None:
    """Let the app carry out what comes in."""

    @app.agent(channel)
    async def commands(stream: Any) -> None:
        async for value in stream:
            await carry_out(COMMANDS.decode(value))
