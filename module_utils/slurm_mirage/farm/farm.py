"""The farm: the one supervisor of an instance's daemons on a host.

munged, slurmctld (on the head; with accounting mariadbd and slurmdbd, too) and all slurmd of a host share this parent, because they
inherit from it: the private host name, the personality without address randomisation, the KSM flag, the clock. It starts them in
parallel with a bound, no faster than the host has memory for them, restarts one that dies, takes over what a killed farm has
left, and stops exactly what it started.

It reads DIRECTORY/etc/farm.json (see daemons.Spec), reads it again on SIGHUP (daemons whose digest changed are
restarted), and writes DIRECTORY/run/farm.json (see `Farm.state`). It begins as root, where it can, for the host name, and goes
on as the instance's user. Whatever it does each time that it wakes up is done for the daemons that have something to it, never
for all.
"""

from __future__ import annotations

import heapq
import itertools
import os
import re
import signal
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base import processes
from ..base.files import read_json, write_json
from . import isolation
from .daemons import FOUNDATIONS, KIND_ORDER, Daemon, Spec
from .pacing import MemoryPace, Rate
from .pid_namespaces import KEEPER
from .spawner import DIGEST_VARIABLE, Spawner

SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
STOP_AT_ONCE = 200  # daemons: one that ends writes to pages that ksmd had merged, and takes unmerged memory for a moment
STOP_PATIENCE = 8.0  # seconds between SIGTERM and SIGKILL; slurmctld saves its state in this time
BACK_OFF_MAX = 30.0  # seconds between two starts of a daemon that keeps dying
SHAKY_FOR = 3.0  # seconds after its start for which a daemon that kept dying still counts as failing
SHOWN_FAILURES = 10
STABLE_AFTER = 20.0  # seconds after which a daemon's earlier deaths are forgotten, and it holds up the start of others no longer
ADOPTED_AT_ONCE = 200  # adopted daemons that are looked at each second: the kernel does not tell when they end
LEAVING_ORDER = ("slurmctld", "slurmd", *reversed(FOUNDATIONS))


class Farm:
    """Supervises the daemons of a `Spec`; all methods run in one thread, woken by signals.

    A daemon that shall run is up (it has a process id), or in one of `queues`, or, after a death, in `later`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.spec = Spec.load(directory / "etc/farm.json")
        self.daemons = self.spec.daemons
        self.spawner = Spawner(directory, isolation.HostNames(self.spec.hostname))
        self.by_pid: dict[int, Daemon] = {}
        self.queues: dict[str, deque[Daemon]] = {kind: deque() for kind in KIND_ORDER}
        self.later: list[tuple[float, str, Daemon]] = []  # a heap, by the instant (monotonic) of the next attempt
        self.unready: dict[int, Daemon] = {}  # up, but they have not said that they are ready; by process id
        self.starting: list[Daemon] = []  # those of them that hold up the start of others
        self.departing: deque[Daemon] = deque()  # to be asked to end
        self.leaving: dict[int, float] = {}  # process ids of daemons that were asked to end, and when they are killed
        self.adopted: deque[tuple[int, int]] = deque()  # process ids and start times of daemons that are no children
        self.adopted_looked = 0.0
        self.wanted: Counter[str] = Counter()
        self.up: Counter[str] = Counter()
        self.ready: Counter[str] = Counter()
        self.pace = MemoryPace()
        self.rate = Rate()
        self.restarts = 0
        self.phase = "starting"
        self.on_time = False  # whether the clock runs as the specification has it
        self.failing: dict[str, str] = {}
        self.started = processes.start_time(os.getpid())
        self.identity = self.spec.identity
        self.written: dict[str, Any] = {}
        self.write_after = 0.0

    # --- life ------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self.spawner.isolate(self.spec)
        self._take_over()
        self._count()
        self._enqueue(self.daemons.values())
        while True:
            self._look()
            self._let_go_some()
            self._start_some()
            self._write_state()
            info = signal.sigtimedwait(SIGNALS, self._patience())
            self._reap()
            self._press()
            if info and info.si_signo in (signal.SIGTERM, signal.SIGINT):
                self._stop()
                return 0
            if info and info.si_signo == signal.SIGHUP:
                self._reload()

    def _patience(self) -> float:
        """Seconds to wait for a signal: the ends of children are told by one, but neither readiness nor memory nor time."""
        if self.starting:
            return 0.02
        return 0.1 if self.leaving or self.later or any(self.queues.values()) else 1.0

    def _take_over(self) -> None:
        """Go on with the daemons that a killed farm has left running; end those whose configuration has changed since."""
        wanted = {tuple(d.command): d for d in self.daemons.values()}
        daemon_files = {d.command[0] for d in self.daemons.values()}
        stale = []
        parent = processes.parents()
        commands = {pid: processes.command_line(pid) for pid in processes.of_instance(str(self.directory))}
        self.spawner.find_cells(self.spec, [pid for pid, command in commands.items() if command == KEEPER])
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
            daemon.adopted, daemon.born = True, float("-inf")
            self._is_up(daemon, pid, digest)
            self.adopted.append((pid, daemon.started))
        processes.end(stale, STOP_PATIENCE)

    def _reload(self) -> None:
        """Read the spec again: start what is new, stop what is gone, restart what is changed.

        Those that have to end are asked to a few at a time, as they are started; and nothing is started before they are gone,
        because ports may have moved from one to another.
        """
        new = Spec.load(self.directory / "etc/farm.json")
        known = {**{d.name: d for d in self.by_pid.values()}, **self.daemons}
        for name in new.daemons.keys() & known.keys():
            daemon, old = new.daemons[name], known[name]
            if old.command != daemon.command:
                old.running_digest = ""  # it has to go, as with another digest
            old.command, old.digest = daemon.command, daemon.digest
            old.ready_file, old.ready_port, old.hostname = daemon.ready_file, daemon.ready_port, daemon.hostname
            old.environment = daemon.environment
            new.daemons[name] = old
        self.spec, self.daemons = new, new.daemons
        self.spawner.keep_names(new.addresses)
        self._clear_queues()
        self.failing.clear()
        going = [d for d in self.by_pid.values() if self._has_to_go(d)]
        self.departing = deque(sorted(going, key=lambda d: LEAVING_ORDER.index(d.kind)))
        for daemon in self.daemons.values():
            daemon.not_before, daemon.deaths = 0.0, 0
        self.phase = "starting"
        self.on_time = False
        self.pace.restart()
        self._count()
        self._enqueue(d for d in self.daemons.values() if not d.pid)

    def _has_to_go(self, daemon: Daemon) -> bool:
        """Whether a daemon that is up is not wanted as it is, and was not asked to end yet."""
        if not daemon.pid or daemon.pid in self.leaving:
            return False
        return daemon.name not in self.daemons or daemon.running_digest != daemon.digest

    def _let_go_some(self) -> None:
        """Ask daemons to end, a bounded number at a time. What shall run is started again with what it reads then."""
        while self.departing and len(self.leaving) < self.spec.parallel:
            daemon = self.departing.popleft()
            if self._has_to_go(daemon):
                self.leaving[daemon.pid] = time.monotonic() + STOP_PATIENCE
                processes.send(daemon.pid, daemon.started, signal.SIGTERM)

    def _press(self) -> None:
        """Kill the daemons that have not ended when asked to."""
        for pid, deadline in self.leaving.items():
            if time.monotonic() > deadline:
                processes.send(pid, self.by_pid[pid].started, signal.SIGKILL)

    def _stop(self) -> None:
        """End slurmctld first (it saves its state), then the slurmd and what they started, then what those need, munged last."""
        self.phase = "stopping"
        self._write_state()
        for kind in ("slurmctld", "slurmd"):
            pids = [d.pid for d in self.by_pid.values() if d.kind == kind]
            for first in range(0, len(pids), STOP_AT_ONCE):
                processes.end(pids[first : first + STOP_AT_ONCE], STOP_PATIENCE)
        mine = processes.of_instance(str(self.directory))
        needed = [{d.pid for d in self.by_pid.values() if d.kind == kind} for kind in reversed(FOUNDATIONS)]
        processes.end(mine.difference(self.spawner.keepers, *needed), STOP_PATIENCE)
        self.spawner.end_cells()
        for those in needed:
            processes.end(those, STOP_PATIENCE)
        (self.directory / "run/farm.json").unlink(missing_ok=True)

    # --- starting and reaping --------------------------------------------------------------------------------------

    def _enqueue(self, daemons: Iterable[Daemon]) -> None:
        now = time.monotonic()
        for daemon in daemons:
            if daemon.pid or daemon.waits:
                continue
            daemon.waits = True
            if daemon.not_before > now:
                heapq.heappush(self.later, (daemon.not_before, daemon.name, daemon))
            else:
                self.queues[daemon.kind].append(daemon)

    def _clear_queues(self) -> None:
        for daemon in itertools.chain((d for _, _, d in self.later), *self.queues.values()):
            daemon.waits = False
        self.later.clear()
        for queue in self.queues.values():
            queue.clear()

    def _start_some(self) -> None:
        while self.later and self.later[0][0] <= time.monotonic():
            daemon = heapq.heappop(self.later)[2]
            self.queues[daemon.kind].append(daemon)
        if self.departing or self.leaving:
            return
        if not self.on_time:
            self.spawner.keep_clock(self.spec.clock)
            self.on_time = True
        for kind, queue in self.queues.items():
            while queue and self._may_start(kind):
                self._start(queue.popleft())
        self.spawner.come_home()
        if self.phase == "starting" and not (self.starting or self.later or any(self.queues.values())):
            self.phase = "running"

    def _may_start(self, kind: str) -> bool:
        """What others rely on first, one after the other; slurmctld next; the many slurmd within the bounds."""
        needed = FOUNDATIONS[: KIND_ORDER.index(kind)]
        if any(self.queues[other] for other in needed) or any(daemon.kind in needed for daemon in self.starting):
            return False
        return kind != "slurmd" or (len(self.starting) < self.spec.parallel and self.pace.allows(len(self.starting)))

    def _look(self) -> None:
        """See which daemons have become ready, and which hold up the others still."""
        self.starting = []
        for daemon in list(self.unready.values()):
            if daemon.look():
                del self.unready[daemon.pid]
                self.ready[daemon.kind] += daemon.name in self.daemons
            elif time.monotonic() - daemon.born < STABLE_AFTER:
                self.starting.append(daemon)

    def _start(self, daemon: Daemon) -> None:
        """Start a daemon. When the kernel refuses (no such program, too many processes), it is tried again later."""
        daemon.born, daemon.ready, daemon.adopted, daemon.waits = time.monotonic(), False, False, False
        try:
            pid = self.spawner.start(daemon)
        except OSError as error:
            self._died(daemon, f"cannot be started: {error}")
            self._enqueue([daemon])
            return
        if daemon.kind == "slurmd":
            self.pace.started()
        self._is_up(daemon, pid, daemon.digest)
        self.starting.append(daemon)

    def _is_up(self, daemon: Daemon, pid: int, digest: str) -> None:
        daemon.pid, daemon.started, daemon.running_digest = pid, processes.start_time(pid) or 0, digest
        self.by_pid[pid] = self.unready[pid] = daemon
        self.up[daemon.kind] += 1

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._ended(ended[0], os.waitstatus_to_exitcode(ended[1]))
        for pid in [pid for pid in self.leaving if self.by_pid[pid].adopted]:
            if not processes.is_alive(pid, self.by_pid[pid].started):
                self._ended(pid, 0)
        if self.adopted and time.monotonic() - self.adopted_looked >= 1.0:
            self.adopted_looked = time.monotonic()
            self._look_at_adopted()

    def _look_at_adopted(self) -> None:
        for pid, started in [self.adopted.popleft() for _ in range(min(ADOPTED_AT_ONCE, len(self.adopted)))]:
            daemon = self.by_pid.get(pid)
            if daemon is None or daemon.started != started:
                continue  # it was asked to end, and did
            if processes.is_alive(pid, started):
                self.adopted.append((pid, started))
            else:
                self._ended(pid, 0)

    def _ended(self, pid: int, code: int) -> None:
        """A process is gone: a slurmstepd that was adopted from a slurmd, or a daemon, that is started again."""
        daemon = self.by_pid.pop(pid, None)
        if daemon is None:
            return
        is_wanted = daemon.name in self.daemons
        self.up[daemon.kind] -= is_wanted
        self.ready[daemon.kind] -= is_wanted and daemon.ready
        self.unready.pop(pid, None)
        daemon.pid, daemon.ready = 0, False
        if self.leaving.pop(pid, None) is None:
            self._died(daemon, f"exit {code}: {self._last_words(daemon)}")
        if is_wanted:
            self._enqueue([daemon])

    def _died(self, daemon: Daemon, why: str) -> None:
        self.restarts += 1
        daemon.deaths = 1 if time.monotonic() - daemon.born > STABLE_AFTER else daemon.deaths + 1
        daemon.not_before = time.monotonic() + min(BACK_OFF_MAX, 0.25 * 2**daemon.deaths)
        if daemon.deaths > 2:
            self.failing[daemon.name] = why

    def _last_words(self, daemon: Daemon) -> str:
        """The last fatal or error line that a daemon wrote: the reason for its death, most likely."""
        pattern = re.compile(r"(?:(?:fatal|error): |\[ERROR\] ).*")
        for path in (f"log/{daemon.name}.stderr", f"log/{daemon.name}.log", f"log/slurmd.{daemon.name}.log"):
            with suppress(OSError):
                found = pattern.findall(text := Path(path).read_text(errors="replace")[-8000:])
                if found:
                    return next(m.group(0) for m in reversed(list(pattern.finditer(text))))
        return "no error in its log"

    # --- state -----------------------------------------------------------------------------------------------------

    def _count(self) -> None:
        """Count the daemons that are wanted, up and ready, as they are counted one by one from here on."""
        self.wanted = Counter(d.kind for d in self.daemons.values())
        self.up = Counter(d.kind for d in self.daemons.values() if d.pid)
        self.ready = Counter(d.kind for d in self.daemons.values() if d.ready)

    def state(self) -> dict[str, Any]:
        """What `status` prints: pid, phase (starting, running, stopping), per kind {wanted, up, ready}, refusals, failures.

        `identity` is that of the specification with which the farm began, `specification` the digest of the one that it read last.
        `leaving` is the number of daemons that have to end before others start, `rate` that of slurmd that become ready a second,
        `waiting_for_memory` that of seconds for which the host had no memory for another one, nor got any.
        """
        kinds = [kind for kind in KIND_ORDER if self.wanted[kind]]
        controller = self.daemons.get("slurmctld")
        is_starting = self.phase == "starting"
        rate = self.rate.note(self.ready["slurmd"], time.monotonic()) if is_starting and not self.leaving else None
        return {
            "pid": os.getpid(),
            "start_time": self.started,
            "identity": self.identity,
            "specification": self.spec.digest,
            "phase": self.phase,
            "daemons": {kind: {"wanted": self.wanted[kind], "up": self.up[kind], "ready": self.ready[kind]} for kind in kinds},
            "leaving": len(self.departing) + len(self.leaving),
            "rate": rate and round(rate, 1),
            "waiting_for_memory": self.pace.waiting if self.queues["slurmd"] else None,
            "slurmctld_pid": controller.pid if controller else 0,
            "restarts": self.restarts,
            "failing": dict(itertools.islice(self._failing(), SHOWN_FAILURES)),
            "failing_count": sum(1 for _ in self._failing()),
            "refused": self.spawner.refused,
        }

    def _failing(self) -> Iterator[tuple[str, str]]:
        """Names and last words of the daemons that died again and again, and have not lived for a while since."""
        for name, words in self.failing.items():
            daemon = self.daemons.get(name)
            if daemon and daemon.deaths > 2 and (not daemon.pid or time.monotonic() - daemon.born < SHAKY_FOR):
                yield name, words

    def _write_state(self) -> None:
        """Write the state when it is another one than that in the file; not too often, but a new phase at once."""
        if time.monotonic() < self.write_after and self.phase == self.written.get("phase"):
            return
        self.write_after = time.monotonic() + (0.25 if self.starting or self.leaving else 1.0)
        path = self.directory / "run/farm.json"
        if (state := self.state()) != self.written or not path.exists():
            with suppress(OSError):  # on a full disk the state grows old, and the farm goes on
                write_json(path, state)
                self.written = state


def read_state(directory: Path) -> dict[str, Any] | None:
    """State of the farm of the instance in `directory`; None when it does not run."""
    state: dict[str, Any] | None = read_json(directory / "run/farm.json")
    if state is None or not processes.is_alive(state["pid"], state["start_time"]):
        return None
    return state
