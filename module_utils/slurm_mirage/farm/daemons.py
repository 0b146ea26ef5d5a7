"""The farm's specification, DIRECTORY/etc/farm.json, and the daemons in it."""

from __future__ import annotations

import hashlib
import json
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.errors import WrongUse
from ..base.files import file_digest
from ..clock import clock_page
from ..rm.daemon_kinds import CLOCK, DaemonKind
from ..rm.managers import DAEMON_KINDS


@dataclass
class Daemon:
    """One daemon: how it is started, and its current state.

    hostname: host name that it sees; digest: digest of everything that it reads when it starts; account: account that it runs as,
    empty for the instance's user; inside: user id that it has in the user namespace (`Spec.users`), None for a daemon outside of
    it; pid_namespace: name of its PID namespace, or empty (see `pid_namespaces`); pid, start_time: its
    process (see `base.processes`), pid 0 when it does not run; running_digest: `digest` at the time it was started; started_at,
    not_before: monotonic seconds; failures: unexpected exits in a row; is_queued: whether it is in a queue of the farm; adopted:
    whether another farm started it; log_sizes: its log file, with its size when this farm started or adopted the daemon; served: of
    an event clock's coordinator, when the one before had started; is_absent: whether a run keeps it from being started (absent.py)
    """

    name: str
    kind: DaemonKind
    hostname: str
    command: list[str]
    digest: str
    ready_file: str
    environment: dict[str, str] = field(default_factory=dict)
    ready_port: int = 0
    account: str = ""
    inside: int | None = None
    pid_namespace: str = ""
    pid: int = 0
    start_time: int = 0
    started_at: float = 0.0
    ready: bool = False
    failures: int = 0
    not_before: float = 0.0
    is_queued: bool = False
    adopted: bool = False
    running_digest: str = ""
    log_sizes: dict[Path, int] = field(default_factory=dict)
    served: int = 0
    is_absent: bool = False

    def check_ready(self) -> bool:
        """Update and return `ready`: its ready file, if it has one, exists, and its ready port, if it has one, accepts connections.
        The coordinator of an event clock is ready when it has written into the clock's page when it was started."""
        is_written = not self.ready_file or Path(self.ready_file).exists()
        is_ready = self._serves() if self.kind is CLOCK else is_written and self._accepts_connections()
        self.ready = self.ready or (bool(self.pid) and is_ready)
        return self.ready

    def last_coordinator(self) -> int:
        """Return when the coordinator that served the clock's page last was started (ns since the epoch); 0: none has."""
        try:
            return clock_page.figures(Path(self.ready_file).parents[1])["started"]
        except (OSError, WrongUse):
            return 0

    def _serves(self) -> bool:
        return self.last_coordinator() not in (0, self.served)

    def _accepts_connections(self) -> bool:
        if not self.ready_port:
            return True
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            probe.connect((self.hostname, self.ready_port))
            return True
        return False


@dataclass
class Spec:
    """The content of DIRECTORY/etc/farm.json.

    user, hostname: account and host name of the farm and its daemons
    parallel: number of nodes' daemons that may be starting at the same time
    environment: environment variables of all daemons
    clock: "speed" of the virtual clock, a number or "event"; "library", a digest of the preloaded library; with "event" "charge",
        whether the controller's processor time counts in virtual time; on hosts other than the head "line", the content of the
        head's clock file
    addresses: in a cluster of several hosts, the name of each host by its address
    identity: digest of what a running farm cannot change (its code, user, host name and network)
    network: of an instance with a network of its own, "address" and "mask" of its loopback device, and "ports", the first and the
        last one of outgoing connections; optionally "kept", an "address" and "ports", the first and the last one, which programs
        that ask for a port on all addresses do not get; else empty
    fresh: optional, a name for which the controller begins with a clean state: the farm restarts it once, and removes its saved
        state before (see `saved_state`)
    users: of an instance with a user namespace, whose root is the instance's user, "first" and "count" of the user ids that are the
        same in it as on the host; else empty
    saved_in: optional, the folder with `state` and `log` for the controller's saved state and records, if hosts share it; empty:
        they are in the instance's directory
    digest: digest of the whole file
    daemons: the daemons by name

    In the file, "daemons" is a list of {"kind", "name", "command", "digest", "ready_file"}. An entry with "count" and "first"
    describes several daemons: {i} in its name, command, environment and ready_file is replaced by the number. An empty ready_file
    is none. Optional keys of an entry: "hostname", the host name that its daemons see instead of the farm's (with
    CommunicationParameters=NoInAddrAny this determines the address on which they listen); "environment", additional variables;
    "ready_port", a port on which the daemon accepts connections when it is ready, and "ready_port_step", by which it grows from
    one number to the next; "account", the account that it runs as, if that is not the instance's user; "inside", its
    user id in the user namespace.
    """

    user: str
    hostname: str
    parallel: int
    environment: dict[str, str]
    clock: dict[str, Any]
    identity: str
    addresses: dict[str, str]
    digest: str
    network: dict[str, Any] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    fresh: str = ""
    saved_in: str = ""
    daemons: dict[str, Daemon] = field(default_factory=dict)

    @property
    def has_accounts(self) -> bool:
        """Whether some of the daemons run as other accounts than the instance's user."""
        return any(daemon.account for daemon in self.daemons.values())

    @property
    def manager(self) -> str:
        """The resource manager of the daemons, in messages."""
        return next((daemon.kind.manager for daemon in self.daemons.values() if daemon.kind.manager), "")

    @classmethod
    def load(cls, path: Path) -> Spec:
        """Read the specification file `path`. Raises OSError, ValueError and KeyError."""
        raw = json.loads(path.read_text())
        own = {key: raw[key] for key in ("user", "hostname", "parallel", "environment", "clock", "identity")}
        optional: dict[str, Any] = {key: raw.get(key, {}) for key in ("addresses", "network", "users")}
        optional |= {key: raw.get(key, "") for key in ("fresh", "saved_in")}
        spec = cls(**own, **optional, digest=file_digest(path))
        for entry in raw["daemons"]:
            hostname, kind = entry.get("hostname", spec.hostname), DAEMON_KINDS[entry["kind"]]
            for i in range(entry.get("first", 0), entry.get("first", 0) + entry.get("count", 1)):
                name, ready_file = (entry[key].replace("{i}", str(i)) for key in ("name", "ready_file"))
                command = [word.replace("{i}", str(i)) for word in entry["command"]]
                clock = spec.clock if kind.has_clock(spec.clock.get("speed")) or kind is CLOCK else None
                own = {key: value.replace("{i}", str(i)) for key, value in entry.get("environment", {}).items()}
                environment = {**spec.environment, **own}
                start = json.dumps([hostname, command, environment, entry["digest"], clock], sort_keys=True)
                digest = hashlib.sha256(start.encode()).hexdigest()[:16]
                # Determined by name and number, so that a node keeps its namespace and its jobs when other nodes come or go.
                neighbours = kind.nodes_per_namespace
                namespace = entry["name"].replace("{i}", str(i // neighbours)) if neighbours else ""
                port = entry.get("ready_port", 0) + entry.get("ready_port_step", 0) * i
                spec.daemons[name] = Daemon(
                    name,
                    kind,
                    hostname,
                    command,
                    digest,
                    ready_file,
                    environment,
                    port,
                    account=entry.get("account", ""),
                    inside=entry.get("inside"),
                    pid_namespace=namespace,
                )
        return spec
