"""A forwarder between clients and a gateway that looks for forbidden bytes in everything that comes back."""

import contextlib
import socket
import threading

CHUNK_BYTES = 1 << 16
KEPT_BYTES = 200


class Tap:
    """Listens on a port of its own; `leaks` holds what stood around each forbidden value that left the gateway."""

    def __init__(self, gateway_port: int, forbidden: tuple[bytes, ...]) -> None:
        self._gateway_port, self._forbidden = gateway_port, forbidden
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.leaks: list[bytes] = []
        self.bytes_seen = 0
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                gateway = socket.create_connection(("127.0.0.1", self._gateway_port))
                self._sockets += [client, gateway]
                threading.Thread(target=self._forward, args=(client, gateway), daemon=True).start()
                threading.Thread(target=self._forward_and_look, args=(gateway, client), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _forward_and_look(self, source: socket.socket, sink: socket.socket) -> None:
        tail = b""
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                self._look(tail + data, len(tail))
                tail = (tail + data)[-KEPT_BYTES:]
                self.bytes_seen += len(data)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def _look(self, seen: bytes, old: int) -> None:
        """A value that was cut by the network is found too, and one that was found before is not counted again."""
        for value in self._forbidden:
            at = seen.find(value, max(0, old - len(value) + 1))
            if at >= 0:
                self.leaks.append(seen[max(0, at - KEPT_BYTES) : at + KEPT_BYTES])
