"""A broker that answers what a test says, on a real Unix socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tests.sigsleep.conftest import wait_until

CLOSES = None
SILENT = b""


class Broker:
    """Answers each request with the next of its answers: bytes as they are, CLOSES, or SILENT (the connection stays).

    After the last answer: `none` with the size that was asked. Requests to which no answer belongs (resumed) are kept like others.
    """

    def __init__(self, path: Path, answers: Iterable[bytes | None] = ()) -> None:
        self.path = path
        self._conversations: list[list[str]] = []
        self.answers = list(answers)
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                self._conversations.append([])
                thread = threading.Thread(target=self._talk, args=(connection, self._conversations[-1]), daemon=True)
                thread.start()
                self._threads.append(thread)

    @property
    def requests(self) -> list[str]:
        """All requests, in the order of their connections."""
        return [request for conversation in self._conversations for request in conversation]

    def all_requests(self) -> list[str]:
        """All requests, after the last connection has ended."""
        for thread in self._threads:
            thread.join()
        return self.requests

    def _talk(self, connection: socket.socket, requests: list[str]) -> None:
        with suppress(OSError), connection.makefile("rb") as lines:
            for line in lines:
                request = line.decode()
                requests.append(request)
                if request.startswith("mirage 1 resumed "):
                    continue
                answer = self.answers.pop(0) if self.answers else f"none {request.split()[4]}\n".encode()
                if answer is CLOSES:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(answer)

    def say(self, answer: bytes) -> None:
        """Send on the last connection."""
        wait_until(lambda: bool(self._connections), "a connection")
        self._connections[-1].sendall(answer)

    def hang_up(self) -> None:
        """Close the last connection."""
        self._connections[-1].shutdown(socket.SHUT_RDWR)

    def await_requests(self, number: int) -> None:
        wait_until(lambda: len(self.requests) >= number, f"request {number}")

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            connection.close()
