"""What the farm runs: the daemons of a specification, DIRECTORY/etc/farm.json."""

from __future__ import annotations

import hashlib
import json
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.files import file_digest
from . import pid_namespaces as cells

FOUNDATIONS = ("munged", "mariadbd", "slurmdbd")
"""Kinds that those after them need, and wait for."""

KIND_ORDER = (*FOUNDATIONS, "slurmctld", "slurmd")
"""Kinds of daemons, in the order in which they are started."""

ON_THE_CLOCK = ("slurmdbd", "slurmctld", "slurmd")
"""Kinds that live in virtual time. munged does not: its credentials are checked against real time, wherever they are made. Nor does
mariadbd, whose own time only comes into columns that nothing is computed from (docs/accounting.md).
"""


@dataclass
class Daemon:
    """One daemon: what it is started with, and how it is doing. `digest` stands for all that it reads at its start.

    `hostname` is the host name that it sees, `cell` the cell that it lives in, if any (see `cells`); `born` and
    `not_before` are monotonic seconds; `waits` says that it is in one of the farm's queues.
    """

    name: str
    kind: str
    hostname: str
    command: list[str]
    digest: str
    ready_file: str
    environment: dict[str, str] = field(default_factory=dict)
    ready_port: int = 0
    cell: str = ""
    pid: int = 0
    started: int = 0
    born: float = 0.0
    ready: bool = False
    deaths: int = 0
    not_before: float = 0.0
    waits: bool = False
    adopted: bool = False
    running_digest: str = ""

    def look(self) -> bool:
        """Whether it has said that it is ready since its start: by its ready file and, if it has one, on its port."""
        self.ready = self.ready or (bool(self.pid) and Path(self.ready_file).exists() and self._answers())
        return self.ready

    def _answers(self) -> bool:
        if not self.ready_port:
            return True
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            probe.connect((self.hostname, self.ready_port))
            return True
        return False


@dataclass
class Spec:
    """DIRECTORY/etc/farm.json: user, hostname, environment, parallel (daemons that may be starting at the same time), clock
    ("speed" of the virtual clock, and "library", which stands for what puts a program on it; "line", on a host that is not the
    head, the head's clock itself), addresses (of the hosts of a cluster of several, each with its name) and daemons.

    `identity` stands for all that a farm cannot change while it runs (its code, user and host name), `digest` for the whole file.
    `daemons` is a list of {"kind", "name", "command", "digest", "ready_file"}; one entry with "count" and "first" stands for
    many: {i} in its name, command and ready_file is replaced by the number. An entry's own "hostname" is what its daemons see
    instead of the farm's: with CommunicationParameters=NoInAddrAny the address that they listen on. Its own "environment" comes
    over that of all. With "ready_port" it is ready when it accepts connections there, too.
    """

    user: str
    hostname: str
    parallel: int
    environment: dict[str, str]
    clock: dict[str, Any]
    identity: str
    addresses: dict[str, str]
    digest: str
    daemons: dict[str, Daemon] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Spec:
        """Read the specification `path`."""
        raw = json.loads(path.read_text())
        own = {key: raw[key] for key in ("user", "hostname", "parallel", "environment", "clock", "identity")}
        spec = cls(**own, addresses=raw.get("addresses", {}), digest=file_digest(path))
        for entry in raw["daemons"]:
            hostname = entry.get("hostname", spec.hostname)
            for i in range(entry.get("first", 0), entry.get("first", 0) + entry.get("count", 1)):
                name, ready_file = (entry[key].replace("{i}", str(i)) for key in ("name", "ready_file"))
                command = [word.replace("{i}", str(i)) for word in entry["command"]]
                clock = spec.clock if entry["kind"] in ON_THE_CLOCK else None
                environment = {**spec.environment, **entry.get("environment", {})}
                start = json.dumps([hostname, command, environment, entry["digest"], clock], sort_keys=True)
                digest = hashlib.sha256(start.encode()).hexdigest()[:16]
                # By name and number, so that a node stays in its cell, with its jobs, whatever nodes come or go.
                cell = entry["name"].replace("{i}", str(i // cells.SIZE)) if entry["kind"] == "slurmd" else ""
                port = entry.get("ready_port", 0)
                spec.daemons[name] = Daemon(name, entry["kind"], hostname, command, digest, ready_file, environment, port, cell)
        return spec
