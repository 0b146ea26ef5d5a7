"""The broker as a process: its socket, a thread for each connection, and one that cleans up after changes of size."""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ....clock import instance_clock, real_time
from ....clock.clock import Clock
from ....rm.api import ResourceManagerError
from ..sizes import Sizes
from . import protocol
from .broker import Broker, Client
from .journal import Journal

NAME = "mirage-broker"
"""Name of the process, in ps."""
JOB_VARIABLE = "SLURM_JOB_ID"
CLEAN_AFTER = 30.0
"""Virtual seconds after a change of size at which the queue is looked at again. slurmctld saves its state within 5 s: the loss of a
change by a killed slurmctld is visible by then."""
RECOUNT_AFTER, RECOUNT_AFTER_REAL = 2.5, 0.25
"""Virtual seconds between a change of size and the count that a shrink makes necessary; real ones on a clock of constant speed. A
slurmctld that reads its configuration again refuses messages meanwhile, and the nodes that were given up have answered by then."""
STACK = 512 * 1024
"""Bytes of a thread's stack."""

_TOO_LONG = f"a request has at most {protocol.LONGEST} bytes"
_CREDENTIALS = struct.Struct("3i")


def job_of_process(pid: int) -> int | None:
    """The job in whose environment a process was started; None if there is none."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    match = re.search(rb"(?:\A|\0)" + JOB_VARIABLE.encode() + rb"=(\d{1,10})(?:\0|\Z)", environment)
    return int(match[1]) if match else None


class Server:
    """Serves the instance in `directory` at the socket `path`, until the process ends. Raises WrongUse and OSError."""

    def __init__(self, directory: Path, path: Path, sizes: Sizes) -> None:
        clock = instance_clock.current(directory)
        speed = clock.speed if isinstance(clock, Clock) else 1.0
        self._broker = Broker(sizes, Journal(directory), speed)
        self._recount_after = max(RECOUNT_AFTER, RECOUNT_AFTER_REAL * speed)
        self._to_clean = threading.Event()
        self._broker.on_action = self._to_clean.set
        self._path = path

    def serve(self) -> None:
        """Answer requests for ever."""
        real_time.name_thread(NAME)
        threading.stack_size(STACK)
        threading.Thread(target=self._clean, name="cleaner", daemon=True).start()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            self._path.unlink(missing_ok=True)
            listener.bind(str(self._path))
            self._path.chmod(0o600)
            listener.listen(socket.SOMAXCONN)
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        """Answer the requests of one connection, one after the other, until it ends."""
        with connection, suppress(OSError):
            client, refusal = _client_of(connection)
            if client is None:
                _send(connection, protocol.refused(refusal))
                return
            try:
                for line in _lines(connection):
                    answer = self._answer(client, line)
                    if answer is not None:
                        _send(connection, answer)
                    self._broker.prepare(client)
            except protocol.BadRequest as error:
                _send(connection, protocol.refused(str(error)))
            finally:
                self._broker.leave(client)

    def _answer(self, client: Client, line: bytes) -> str | None:
        try:
            request = protocol.parse(line)
        except protocol.BadRequest as error:
            return protocol.refused(str(error))
        return self._broker.answer(client, request)

    def _clean(self) -> None:
        """Clean up at the start, and some time after each change of size, until there is nothing left to do."""
        while True:
            try:
                is_clean = not self._broker.clean()
            except ResourceManagerError:
                is_clean = False
            if is_clean:
                self._to_clean.wait()
            self._to_clean.clear()
            time.sleep(self._recount_after)
            with suppress(ResourceManagerError):  # the next round counts
                self._broker.recount()
            time.sleep(CLEAN_AFTER)


def _client_of(connection: socket.socket) -> tuple[Client | None, str]:
    """The job at the other end of a connection, or why it gets no answer."""
    pid, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if user != os.geteuid():
        return None, "the process runs as another user than the broker"
    job = job_of_process(pid)
    return (None, f"the process is in no job: it was started without {JOB_VARIABLE}") if job is None else (Client(job), "")


def _lines(connection: socket.socket) -> Iterator[bytes]:
    """The lines that arrive, without their ends; a line that is cut off by the end of the connection is left out. Raises BadRequest
    for one that is too long."""
    rest = b""
    while data := connection.recv(protocol.LONGEST):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if len(line) >= protocol.LONGEST:
                raise protocol.BadRequest(_TOO_LONG)
            yield line
        if len(rest) >= protocol.LONGEST:
            raise protocol.BadRequest(_TOO_LONG)


def _send(connection: socket.socket, answer: str) -> None:
    connection.sendall(answer.encode("ascii", "replace") + b"\n")
