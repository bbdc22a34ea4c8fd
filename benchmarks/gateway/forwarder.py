"""A bare forwarder on uvloop: nothing is looked at. `python -m benchmarks.gateway.forwarder PORT SERVER_PORT`."""

import asyncio
import sys

import uvloop


class Side(asyncio.Protocol):
    """One of two connections; what comes in goes out on the other."""

    def __init__(self) -> None:
        self.other: Side | None = None
        self.waiting: list[bytes] = []

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.waiting.append(data)
        else:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc) -> None:
        if self.other is not None:
            self.other.transport.close()

    def join(self, other: "Side") -> None:
        self.other, other.other = other, self
        other.transport.write(b"".join(self.waiting))


async def main(port: int, server_port: int) -> None:
    loop = asyncio.get_running_loop()

    async def open_behind(client: Side) -> None:
        _, server = await loop.create_connection(Side, "127.0.0.1", server_port)
        client.join(server)

    class Client(Side):
        def connection_made(self, transport):
            super().connection_made(transport)
            tasks.add(task := loop.create_task(open_behind(self)))
            task.add_done_callback(tasks.discard)

    tasks: set[asyncio.Task] = set()
    await loop.create_server(Client, "127.0.0.1", port, backlog=1024)
    print("ready", flush=True)
    await loop.create_future()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
