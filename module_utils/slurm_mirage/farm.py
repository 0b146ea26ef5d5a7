"""The farm: the one supervisor of an instance's daemons on a host.

    python3 -m slurm_mirage.farm run DIRECTORY      supervise until SIGTERM (what the systemd unit starts)
    python3 -m slurm_mirage.farm status DIRECTORY   print the state as JSON

munged, slurmctld (on the head) and all slurmd of a host share this parent, because they inherit from it: the private host
name, the personality without address randomisation, the KSM flag, the clock. It starts them in parallel with a bound, restarts one
that dies, takes over what a killed farm has left, and stops exactly what it started.

It reads DIRECTORY/etc/farm.json (see `Spec`), reads it again on SIGHUP (daemons whose digest changed are restarted),
and writes DIRECTORY/run/farm.json (see `Farm.state`). It begins as root, where it can, for the host name, and goes on as the
instance's user.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import pwd
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import isolation, processes
from .files import file_digest, read_json, write_json
from .host_settings import HostSettings

SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
STOP_PATIENCE = 8.0  # seconds between SIGTERM and SIGKILL; slurmctld saves its state in this time
BACK_OFF_MAX = 30.0  # seconds between two starts of a daemon that keeps dying
SHAKY_FOR = 3.0  # seconds after its start for which a daemon that kept dying still counts as failing
SHOWN_FAILURES = 10
STABLE_AFTER = 20.0  # seconds after which a daemon's earlier deaths are forgotten
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # its children, and so every job, would ignore them too
DIGEST_VARIABLE = "SLURM_MIRAGE_DIGEST"  # in a daemon's environment: the digest that it was started with
KIND_ORDER = ("munged", "slurmctld", "slurmd")


@dataclass
class Daemon:
    """One daemon: what it is started with, and how it is doing. `digest` stands for all that it reads at its start."""

    name: str
    kind: str
    command: list[str]
    digest: str
    ready_file: str
    pid: int = 0
    started: int = 0
    born: float = 0.0
    ready: bool = False
    deaths: int = 0
    not_before: float = 0.0
    adopted: bool = False
    running_digest: str = ""

    def look(self) -> bool:
        """Whether it has said that it is ready, by its ready file, since its start."""
        self.ready = self.ready or (bool(self.pid) and Path(self.ready_file).exists())
        return self.ready


@dataclass
class Spec:
    """DIRECTORY/etc/farm.json: user, hostname, environment, parallel (daemons that may be starting at the same time) and daemons.

    `identity` stands for all that a farm cannot change while it runs (its code, user and host name), `digest` for the whole file.
    `daemons` is a list of {"kind", "name", "command", "digest", "ready_file"}; one entry with "count" and "first" stands for
    many: {i} in its name, command and ready_file is replaced by the number.
    """

    user: str
    hostname: str
    parallel: int
    environment: dict[str, str]
    identity: str
    digest: str
    daemons: dict[str, Daemon] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Spec:
        raw = json.loads(path.read_text())
        spec = cls(raw["user"], raw["hostname"], raw["parallel"], raw["environment"], raw["identity"], file_digest(path))
        for entry in raw["daemons"]:
            for i in range(entry.get("first", 0), entry.get("first", 0) + entry.get("count", 1)):
                name, ready_file = (entry[key].replace("{i}", str(i)) for key in ("name", "ready_file"))
                command = [word.replace("{i}", str(i)) for word in entry["command"]]
                start = json.dumps([command, spec.environment, entry["digest"]], sort_keys=True)
                digest = hashlib.sha256(start.encode()).hexdigest()[:16]
                spec.daemons[name] = Daemon(name, entry["kind"], command, digest, ready_file)
        return spec


class Farm:
    """Supervises the daemons of a `Spec`; all methods run in one thread, woken by signals."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.spec = Spec.load(directory / "etc/farm.json")
        self.daemons = self.spec.daemons
        self.by_pid: dict[int, Daemon] = {}
        self.queue: deque[Daemon] = deque()
        self.starting: set[str] = set()
        self.leaving: dict[int, float] = {}  # process ids of daemons that were asked to end, and when they are killed
        self.restarts = 0
        self.phase = "starting"
        self.refused: dict[str, str] = {}
        self.failing: dict[str, str] = {}
        self.started = processes.start_time(os.getpid())
        self.identity = self.spec.identity

    # --- life ------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._isolate()
        self._take_over()
        self._enqueue(self.daemons.values())
        last_written = 0.0
        while True:
            self._start_some()
            if time.monotonic() - last_written > (0.25 if self.starting else 1.0):
                self._write_state()
                last_written = time.monotonic()
            info = signal.sigtimedwait(SIGNALS, 0.02 if self.starting or self.queue else 1.0)
            self._reap()
            self._press()
            if info and info.si_signo in (signal.SIGTERM, signal.SIGINT):
                self._stop()
                return 0
            if info and info.si_signo == signal.SIGHUP:
                self._reload()

    def _isolate(self) -> None:
        """Ask the kernel for what the daemons inherit, then become the instance's user."""
        wishes: dict[str, Callable[[], object]] = {
            "private host name": lambda: isolation.take_hostname(self.spec.hostname),
            "open files": isolation.open_all_files,
            "memory merging (KSM)": isolation.merge_memory,
            "fixed addresses": isolation.fix_addresses,
            "orphans": isolation.adopt_orphans,
        }
        if os.getuid() == 0:
            wishes["kernel settings"] = lambda: HostSettings(self.directory.parent / "host-settings.json").renew()
        for wish, ask in wishes.items():
            try:
                ask()
            except OSError as error:
                self.refused[wish] = str(error)
        if os.getuid() == 0:
            account = pwd.getpwnam(self.spec.user)
            os.setgroups([])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
        os.chdir(self.directory)
        os.umask(0o022)

    def _take_over(self) -> None:
        """Go on with the daemons that a killed farm has left running; end those whose configuration has changed since."""
        wanted = {tuple(d.command): d for d in self.daemons.values()}
        daemon_files = {d.command[0] for d in self.daemons.values()}
        stale = []
        parent = processes.parents()
        commands = {pid: processes.command_line(pid) for pid in processes.of_instance(str(self.directory))}
        for pid, command in commands.items():
            if not command or command[0] not in daemon_files:
                continue
            if commands.get(parent.get(pid, 0)) == command:
                continue  # a daemon's fork, about to become another program (slurmd starts slurmstepd so)
            daemon = wanted.get(tuple(command))
            digest = processes.environment(pid).get(DIGEST_VARIABLE)
            if daemon is None or daemon.digest != digest or daemon.pid:
                stale.append(pid)
                continue
            daemon.pid, daemon.started = pid, processes.start_time(pid) or 0
            daemon.adopted, daemon.born = True, time.monotonic()
            daemon.running_digest = digest
            self.by_pid[pid] = daemon
        processes.end(stale, STOP_PATIENCE)

    def _reload(self) -> None:
        """Read the spec again: start what is new, stop what is gone, restart what is changed."""
        new = Spec.load(self.directory / "etc/farm.json")
        known = {**{d.name: d for d in self.by_pid.values()}, **self.daemons}
        for name in new.daemons.keys() & known.keys():
            daemon, old = new.daemons[name], known[name]
            old.command, old.digest, old.ready_file = daemon.command, daemon.digest, daemon.ready_file
            new.daemons[name] = old
        self.spec, self.daemons = new, new.daemons
        self.queue = deque(d for d in self.queue if d.name in self.daemons)
        self.failing.clear()
        self._let_go([d for d in self.by_pid.values() if d.name not in self.daemons or d.running_digest != d.digest])
        for daemon in self.daemons.values():
            daemon.not_before, daemon.deaths = 0.0, 0
        self.phase = "starting"
        self._enqueue(d for d in self.daemons.values() if not d.pid)

    def _let_go(self, daemons: Iterable[Daemon]) -> None:
        """Ask daemons to end. What shall run is started again with what it reads then."""
        for daemon in daemons:
            if daemon.pid not in self.leaving:
                self.leaving[daemon.pid] = time.monotonic() + STOP_PATIENCE
                processes.send(daemon.pid, daemon.started, signal.SIGTERM)

    def _press(self) -> None:
        """Kill the daemons that have not ended when asked to."""
        for pid, deadline in self.leaving.items():
            if time.monotonic() > deadline:
                processes.send(pid, self.by_pid[pid].started, signal.SIGKILL)

    def _stop(self) -> None:
        """End slurmctld first (it saves its state), then the slurmd and what they started, munged last."""
        self.phase = "stopping"
        self._write_state()
        for kind in ("slurmctld", "slurmd"):
            processes.end([d.pid for d in self.by_pid.values() if d.kind == kind], STOP_PATIENCE)
        mine = processes.of_instance(str(self.directory))
        munged = {d.pid for d in self.by_pid.values() if d.kind == "munged"}
        processes.end(mine - munged, STOP_PATIENCE)
        processes.end(munged, STOP_PATIENCE)
        (self.directory / "run/farm.json").unlink(missing_ok=True)

    # --- starting and reaping --------------------------------------------------------------------------------------

    def _enqueue(self, daemons: Iterable[Daemon]) -> None:
        waiting = {d.name for d in self.queue}
        fresh = [d for d in daemons if not d.pid and d.name not in waiting]
        self.queue.extend(sorted(fresh, key=lambda d: KIND_ORDER.index(d.kind)))

    def _start_some(self) -> None:
        for name in [n for n in self.starting if self._has_started(self.daemons.get(n))]:
            self.starting.discard(name)
        now = time.monotonic()
        waiting: deque[Daemon] = deque()
        for daemon in self.queue:
            if daemon.not_before > now or not self._may_start(daemon) or not self._start(daemon):
                waiting.append(daemon)
        self.queue = waiting
        if self.phase == "starting" and not self.queue and not self.starting:
            self.phase = "running"

    def _may_start(self, daemon: Daemon) -> bool:
        """munged first, for the others need it; slurmctld next; the many slurmd within the bound."""
        if daemon.kind == "munged":
            return True
        if any(self.daemons[name].kind == "munged" for name in self.starting if name in self.daemons):
            return False
        return daemon.kind == "slurmctld" or len(self.starting) < self.spec.parallel

    @staticmethod
    def _has_started(daemon: Daemon | None) -> bool:
        """Whether it holds up the others no longer."""
        return daemon is None or not daemon.pid or daemon.look() or time.monotonic() - daemon.born > STABLE_AFTER

    def _start(self, daemon: Daemon) -> bool:
        """Start a daemon; false when the kernel refuses (no such program, too many processes): it is tried again later."""
        daemon.born, daemon.ready, daemon.adopted = time.monotonic(), False, False
        try:
            Path(daemon.ready_file).unlink(missing_ok=True)
            daemon.pid = self._spawn(daemon)
        except OSError as error:
            self._died(daemon, f"cannot be started: {error}")
            return False
        daemon.started = processes.start_time(daemon.pid) or 0
        daemon.running_digest = daemon.digest
        self.by_pid[daemon.pid] = daemon
        self.starting.add(daemon.name)
        return True

    def _spawn(self, daemon: Daemon) -> int:
        # A slurmd has a log file of its own; what the two others say before they have one is kept for the error report.
        output = "/dev/null" if daemon.kind == "slurmd" else f"log/{daemon.name}.stderr"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        return os.posix_spawn(
            daemon.command[0],
            daemon.command,
            self._environment(daemon),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, output, flags, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setpgroup=0,
            setsigmask=[],
            setsigdef=IGNORED_BY_PYTHON,
        )

    def _environment(self, daemon: Daemon) -> dict[str, str]:
        marks = {processes.INSTANCE_VARIABLE: str(self.directory), DIGEST_VARIABLE: daemon.digest}
        # UTC: Slurm's record has local times without a zone, which would be ambiguous for an hour in autumn.
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TZ": "UTC", **self.spec.environment, **marks}

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._ended(ended[0], os.waitstatus_to_exitcode(ended[1]))
        for daemon in [d for d in self.by_pid.values() if d.adopted]:
            if not processes.is_alive(daemon.pid, daemon.started):
                self._ended(daemon.pid, 0)

    def _ended(self, pid: int, code: int) -> None:
        """A process is gone: a slurmstepd that was adopted from a slurmd, or a daemon, that is started again."""
        daemon = self.by_pid.pop(pid, None)
        if daemon is None:
            return
        daemon.pid, daemon.ready = 0, False
        self.starting.discard(daemon.name)
        if self.leaving.pop(pid, None) is None:
            self._died(daemon, f"exit {code}: {self._last_words(daemon)}")
        if daemon.name in self.daemons:
            self._enqueue([daemon])

    def _died(self, daemon: Daemon, why: str) -> None:
        self.restarts += 1
        daemon.deaths = 1 if time.monotonic() - daemon.born > STABLE_AFTER else daemon.deaths + 1
        daemon.not_before = time.monotonic() + min(BACK_OFF_MAX, 0.25 * 2**daemon.deaths)
        if daemon.deaths > 2:
            self.failing[daemon.name] = why

    def _last_words(self, daemon: Daemon) -> str:
        """The last fatal or error line that a daemon wrote: the reason for its death, most likely."""
        pattern = re.compile(r"(fatal|error): .*")
        for path in (f"log/{daemon.name}.stderr", f"log/{daemon.name}.log", f"log/slurmd.{daemon.name}.log"):
            with suppress(OSError):
                found = pattern.findall(text := Path(path).read_text(errors="replace")[-8000:])
                if found:
                    return next(m.group(0) for m in reversed(list(pattern.finditer(text))))
        return "no error in its log"

    # --- state -----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What `status` prints: pid, phase (starting, running, stopping), per kind {wanted, up, ready}, refusals, failures.

        `identity` is that of the specification with which the farm began, `specification` the digest of the one that it read last.
        """
        kinds = {}
        for kind in KIND_ORDER:
            members = [d for d in self.daemons.values() if d.kind == kind]
            if members:
                up = [d for d in members if d.pid]
                kinds[kind] = {"wanted": len(members), "up": len(up), "ready": sum(d.look() for d in up)}
        controller = self.daemons.get("slurmctld")
        return {
            "pid": os.getpid(),
            "start_time": self.started,
            "identity": self.identity,
            "specification": self.spec.digest,
            "phase": self.phase,
            "daemons": kinds,
            "slurmctld_pid": controller.pid if controller else 0,
            "restarts": self.restarts,
            "failing": dict(itertools.islice(self._failing(), SHOWN_FAILURES)),
            "failing_count": sum(1 for _ in self._failing()),
            "refused": self.refused,
        }

    def _failing(self) -> Iterator[tuple[str, str]]:
        """Names and last words of the daemons that died again and again, and have not lived for a while since."""
        for name, words in self.failing.items():
            daemon = self.daemons.get(name)
            if daemon and daemon.deaths > 2 and (not daemon.pid or time.monotonic() - daemon.born < SHAKY_FOR):
                yield name, words

    def _write_state(self) -> None:
        with suppress(OSError):  # on a full disk the state grows old, and the farm goes on
            write_json(self.directory / "run/farm.json", self.state())


def read_state(directory: Path) -> dict[str, Any] | None:
    """State of the farm of the instance in `directory`; None when it does not run."""
    state: dict[str, Any] | None = read_json(directory / "run/farm.json")
    if state is None or not processes.is_alive(state["pid"], state["start_time"]):
        return None
    return state


def main(arguments: list[str]) -> int:
    """Entry point; see the module's docstring."""
    if len(arguments) != 2 or arguments[0] not in ("run", "status"):
        print("usage: python3 -m slurm_mirage.farm run|status DIRECTORY", file=sys.stderr)
        return 2
    directory = Path(arguments[1]).resolve()
    if arguments[0] == "status":
        state = read_state(directory)
        print(json.dumps(state or {"phase": "stopped"}, indent=1))
        return 0 if state else 3
    # The folder is the instance's user's: root follows no link that he may have put there.
    lock = os.open(directory / "run/farm.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"farm: another farm runs in {directory}", file=sys.stderr)
        return 1
    return Farm(directory).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
