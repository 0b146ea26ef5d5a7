"""The library of malleable programs in Python: asks the broker of the cluster whether the job should get more or fewer nodes.

The calls, their arguments and the environment are those of dmr.h: DMR_BROKER, SLURM_JOB_ID, DMR_NODES or SLURM_JOB_NUM_NODES,
DMR_INHIBITOR, DMR_CHECKED. One process of a job asks, between two iterations. Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

PATIENCE = 600.0  # seconds until a broker that does not answer counts as lost
LONGEST = 1 << 17  # bytes of an answer
COMPLETE = {"expanded": "expand", "shrunk": "shrink"}


@dataclass(frozen=True)
class Answer:
    """An answer of the broker of malleable jobs.

    action: `expand`: the job has `nodes` nodes now, `names` are all of them. `shrink` after a check: the job will have these nodes,
    end what runs on the others, then call `ready`; after `ready`: it has them. (After a check, Broker.nodes equal to `nodes` means
    that the job had lost the others: no `ready`.) `none`: nothing changes, and `reason` says why.
    lost: the broker could not be asked, or its answer is not complete.
    """

    action: str
    nodes: int
    names: tuple[str, ...] = ()
    reason: str = ""
    lost: bool = False


def _whole(text: str) -> int:
    """Return a number of nodes. Raises ValueError for anything else."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 10**9):
        raise ValueError(text)
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 <= value < 1e12 else 0.0


class Connection:
    """The connection to the broker, kept from request to request: the broker takes back a shrink whose connection ends."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket: socket.socket | None = None

    def send(self, line: bytes) -> None:
        """Send a request, with its end of line. Raises OSError; the next request connects again.

        What cannot be sent over a kept connection has not arrived: the broker was restarted, and is connected again.
        """
        is_kept = self._socket is not None
        try:
            self._connected().sendall(line)
        except OSError:
            self.close()
            if not is_kept:
                raise
            self.send(line)

    def ask(self, line: bytes) -> bytes:
        """Send a request; returns the answer, with its end of line. Raises OSError."""
        self.send(line)
        answer = b""
        try:
            while not answer.endswith(b"\n"):
                more = self._connected().recv(65536)
                answer += more
                if not more or len(answer) > LONGEST:
                    raise OSError("the broker is lost: its answer is not complete")
        except OSError:
            self.close()
            raise
        return answer

    def close(self) -> None:
        """End it, if there is one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            if not self._path:
                raise OSError("there is no broker: DMR_BROKER is not set")
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(PATIENCE)
            self._socket.connect(self._path)
        return self._socket


class Broker:
    """The calls of a job. `nodes`: how many it has; `checked`: when it last checked (seconds since the epoch, 0: never)."""

    def __init__(self, environment: Mapping[str, str] = os.environ, connection: Connection | None = None) -> None:
        self._connection = connection or Connection(environment.get("DMR_BROKER", ""))
        self._job = environment.get("SLURM_JOB_ID", "0")
        self._inhibitor = _seconds(environment.get("DMR_INHIBITOR", "0"))
        self.checked = _seconds(environment.get("DMR_CHECKED", "0"))
        self.nodes = 1
        for name in ("SLURM_JOB_NUM_NODES", "DMR_NODES"):
            try:
                self.nodes = _whole(environment.get(name, ""))
            except ValueError:
                continue

    def check_status(self, minimum: int, maximum: int, factor: int, preferred: int = 0) -> Answer:
        """Decide and act now; returns when the action is done. Sizes in nodes, preferred 0: none."""
        return self._check("check", minimum, maximum, factor, preferred)

    def icheck_status(self, minimum: int, maximum: int, factor: int, preferred: int = 0) -> Answer:
        """The same, asynchronous: do what the last call decided; the broker decides for the next call meanwhile."""
        return self._check("icheck", minimum, maximum, factor, preferred)

    def ready(self, to: int) -> Answer:
        """After `shrink` to that many nodes: nothing runs on the others any more."""
        return self._ask(f"ready {self._job} {to}")

    def resumed(self, seconds: float) -> None:
        """After a resize: the computation goes on, after it stood still for so many seconds (without the broker's answers)."""
        with suppress(OSError):
            self._connection.send(f"mirage 1 resumed {self._job} {seconds:.6f}\n".encode("ascii"))

    def _check(self, mode: str, minimum: int, maximum: int, factor: int, preferred: int) -> Answer:
        instant = time.time()
        if self._inhibitor > 0 and self.checked > 0 and self.checked <= instant < self.checked + self._inhibitor:
            return Answer("none", self.nodes)
        self.checked = instant
        return self._ask(f"{mode} {self._job} {self.nodes} {minimum} {maximum} {factor} {preferred}")

    def _ask(self, request: str) -> Answer:
        try:
            line = self._connection.ask(f"mirage 1 {request}\n".encode("ascii"))
        except OSError as error:
            return Answer("none", self.nodes, reason=str(error), lost=True)
        answer = self._understood(line.decode("ascii", errors="replace").rstrip("\n"))
        return answer or Answer("none", self.nodes, reason="the broker's answer cannot be understood", lost=True)

    def _understood(self, line: str) -> Answer | None:
        word, _, rest = line.partition(" ")
        if word == "refused":
            return Answer("none", self.nodes, reason=f"refused: {rest}")
        number, _, rest = rest.partition(" ")
        try:
            nodes = _whole(number)
        except ValueError:
            return None
        if word in ("none", "aborted"):
            self.nodes = nodes
            return Answer("none", nodes, reason=rest)
        names = tuple(rest.split(","))
        if word not in ("shrink", *COMPLETE) or len(names) != nodes or not all(names):
            return None
        if word in COMPLETE:
            self.nodes = nodes
        return Answer(COMPLETE.get(word, "shrink"), nodes, names)
