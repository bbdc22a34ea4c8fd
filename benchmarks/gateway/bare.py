"""A bare server on uvloop that writes messages of a size to every connection. `python -m benchmarks.gateway.bare …`."""

import asyncio
import os
import sys

import uvloop

# Type, length, subscription, kind and count differ from subscription to subscription; the rows are shared.
HEAD_BYTES = 26


async def main(port: int, each: int, message_bytes: int) -> None:
    """Writes to every connection as often as the last one says; the message is put together for each, as ours is."""
    heads = [os.urandom(HEAD_BYTES) for _ in range(each)]
    rest = os.urandom(message_bytes - HEAD_BYTES)
    clients: list[asyncio.Transport] = []

    class Client(asyncio.Protocol):
        def connection_made(self, transport):
            clients.append(transport)
            self._transport = transport

        def data_received(self, data: bytes) -> None:
            tasks.add(task := asyncio.get_running_loop().create_task(write(self._transport, int(data))))
            task.add_done_callback(tasks.discard)

    async def write(control: asyncio.Transport, rounds: int) -> None:
        for _ in range(rounds):
            for client in clients:
                if client is not control:
                    for head in heads:
                        client.write(head + rest)
            await asyncio.sleep(0)

    tasks: set[asyncio.Task] = set()
    await asyncio.get_running_loop().create_server(Client, "127.0.0.1", port, backlog=1024)
    print("ready", flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    uvloop.run(main(*map(int, sys.argv[1:])))
