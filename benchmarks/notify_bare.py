"""A bare server of `websockets` on uvloop: welcomes everybody, and sends each line of stdin to all of them."""

import asyncio
import sys

import uvloop
from websockets.asyncio.server import ServerConnection, broadcast, serve


async def main(port: int, welcome: str) -> None:
    connections: set[ServerConnection] = set()

    async def welcomed(connection: ServerConnection) -> None:
        connections.add(connection)
        await connection.send(welcome)
        await connection.wait_closed()
        connections.discard(connection)

    loop = asyncio.get_running_loop()
    async with serve(welcomed, "127.0.0.1", port, compression=None, ping_interval=None, backlog=4096):
        print("ready", flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            broadcast(connections, line.rstrip("\n"))


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2]))
