"""The farm: the supervisor of an instance's daemons on a host.

The farm is the parent of all daemons of the instance on the host. They inherit from it the private host name, the personality
without address space randomisation, the KSM flag and the clock. The farm starts a limited number of them in parallel, no faster
than the host has memory, restarts a daemon that ends, adopts the daemons of a killed farm, and stops only what belongs to its
instance.

It reads DIRECTORY/etc/farm.json (see `daemons.Spec`), reads it again on SIGHUP and then restarts the daemons whose digest has
changed, reads on SIGUSR1 which daemons a run takes away (see `absent`), and writes DIRECTORY/run/farm.json (see `Farm.state`) and
DIRECTORY/log/events.jsonl (see `events`). When started as root it isolates itself (see `Spawner.isolate`) and continues as the
instance's user. The main loop handles only daemons whose state may have changed; a loop over thousands of daemons would be slow.
"""

from __future__ import annotations

import heapq
import itertools
import math
import os
import pwd
import signal
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base import processes, user_folders
from ..base.disk import no_space, out_of_space
from ..base.errors import WrongUse
from ..base.files import write_json
from ..rm.daemon_kinds import CLOCK, DaemonKind, Role, leaving_order
from ..rm.managers import DAEMON_KINDS, NODE_KINDS
from . import absent, isolation, saved_state
from .absent import NAME_VARIABLE
from .clock_hold import ClockHold
from .daemons import Daemon, Spec
from .events import EventLog, FullFolders, OutOfMemory, full_folders, how_it_ended
from .last_words import NO_WORDS, advice, last_words
from .pacing import MemoryPace, Rate
from .pid_namespaces import HOLDER_COMMAND
from .spawner import DIGEST_VARIABLE, Spawner

SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1}
STOP_BATCH = (
    200  # daemons stopped at the same time: one that ends writes to pages that ksmd had merged and briefly needs more memory
)
STOP_TIMEOUT = 8.0  # seconds between SIGTERM and SIGKILL; the controller saves its state in this time
BACK_OFF_MAX = 30.0  # seconds between two starts of a daemon that keeps failing
FAILING_AFTER_START = 3.0  # seconds after a start during which a daemon that failed repeatedly still counts as failing
SHOWN_FAILURES = 10
STABLE_AFTER = 20.0  # seconds after which earlier failures of a daemon are forgotten, and an unready daemon no longer delays others
STOPPED_AFTER = 60.0  # seconds for which a daemon is stopped before that is a failure
CLOCK_STOPPED_AFTER = 5.0  # seconds for which the coordinator of an event clock is stopped before it is replaced
CLOCK_BACK_OFF_MAX = 1.0  # seconds between two starts of such a coordinator, because time stops meanwhile
ADOPTED_BATCH = 200  # adopted daemons checked each second: they are no children, so the kernel does not report when they end
STATE = "run/farm.json"
COUNTS = ("wanted", "up", "ready")
STATE_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("pid", "start_time", "leaving", "controller_pid", "restarts", "failing_count"), int),
    **dict.fromkeys(("daemons", "failing", "refused"), dict),
    **dict.fromkeys(("phase", "identity", "specification"), str),
    **dict.fromkeys(("rate", "waiting_for_memory"), (int, float, type(None))),
}
KINDS = list(DAEMON_KINDS.values())
LEAVING_ORDER = leaving_order(KINDS)
REQUIRED = {kind.name: [other for other in KINDS[:place] if other.is_prerequisite] for place, kind in enumerate(KINDS)}
"""Kinds of daemons that have to be ready before those of a kind are started, by its name."""


@dataclass(frozen=True)
class Process:
    """Command line, environment, and user ids of a process."""

    command: list[str]
    environment: dict[str, str]
    users: set[int]

    @classmethod
    def read(cls, pid: int) -> Process:
        """Read those of process `pid`; all are empty when it does not exist."""
        return cls(processes.command_line(pid), processes.environment(pid), processes.users_of(pid))


def user_of(account: str) -> int | None:
    """The user id of an account, "" for that of this process; None if there is no such account."""
    if not account:
        return os.getuid()
    try:
        return pwd.getpwnam(account).pw_uid
    except KeyError:
        return None


class Farm:
    """Supervises the daemons of a `Spec`. All methods run in one thread, which waits for signals.

    Each daemon of the specification is up (it has a process id), in one of `queues`, or, after a failure, in `later`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.spec = Spec.load(directory / "etc/farm.json")
        self.daemons = self.spec.daemons
        self.spawner = Spawner(directory, isolation.HostNames(self.spec.hostname))
        self.by_pid: dict[int, Daemon] = {}
        self.queues: dict[str, deque[Daemon]] = {name: deque() for name in DAEMON_KINDS}
        self.later: list[tuple[float, str, Daemon]] = []  # a heap, by the time (monotonic) of the next attempt
        self.unready: dict[int, Daemon] = {}  # up but not yet ready; by process id
        self.starting: list[Daemon] = []  # those of `unready` that delay the start of others
        self.departing: deque[Daemon] = deque()  # to be stopped, SIGTERM not yet sent
        self.leaving: dict[int, float] = {}  # SIGTERM was sent: process ids, and when SIGKILL follows (monotonic)
        self.adopted: deque[tuple[int, int]] = deque()  # process ids and start times of daemons that are not children
        self.adopted_looked = 0.0
        self.wanted: Counter[str] = Counter()
        self.up: Counter[str] = Counter()
        self.ready: Counter[str] = Counter()
        self.pace = MemoryPace()
        self.rate = Rate()
        self.restarts = 0
        self.phase = "starting"
        self.clock_is_set = False  # whether the clock has been set as specified
        self.failing: dict[str, str] = {}
        self.trouble = ""  # why no daemon can be started
        self.stopped_since: dict[int, float] = {}  # by process id, of stopped daemons other than those of nodes (monotonic)
        self.clock_stopped_since = math.inf  # monotonic seconds
        self.clock_hold = ClockHold(directory)
        self.events = EventLog(directory)
        self.full_folders = FullFolders(directory)
        self.out_of_memory = OutOfMemory()
        self.absent_digest = ""  # of the file with the daemons that a run has taken away
        self.silent: set[str] = set()  # names of those of them that are stopped
        self.started = processes.start_time(os.getpid())
        self.identity = self.spec.identity
        self.written: dict[str, Any] = {}
        self.written_status: tuple[int, int, int] | None = None
        self.write_after = 0.0

    # --- main loop -------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Supervise the daemons until SIGTERM or SIGINT; returns the exit code."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        # Before the farm becomes its user, who cannot read the environment of daemons that run as root.
        left = {pid: Process.read(pid) for pid in processes.of_instance(str(self.directory))}
        self.spawner.isolate(self.spec)
        self.spawner.complete(self.spec)
        if (self.directory / "run/farm.json").exists():
            # A farm that is stopped removes the file.
            self.events.add("ended", daemon="farm", kind="farm", exit=None, signal=None, out_of_memory=False, words="")
        self._adopt_daemons(left)
        self._count()
        self._read_absent()
        self._enqueue(self.daemons.values())
        while True:
            self._update_readiness()
            self._stop_departing()
            self._start_queued()
            self.clock_hold.update(CLOCK.name in self.daemons and bool(self.unready or self.later or any(self.queues.values())))
            self._write_state()
            info = signal.sigtimedwait(SIGNALS, self._poll_interval())
            self._kill_stopped_clock()
            self._reap()
            self._kill_overdue()
            if info and info.si_signo in (signal.SIGTERM, signal.SIGINT):
                self._stop()
                return 0
            if info and info.si_signo == signal.SIGHUP:
                self._reload()
            if info and info.si_signo == signal.SIGUSR1:
                self._read_absent()
                self.write_after = 0.0

    def _poll_interval(self) -> float:
        """Return the seconds to wait for a signal. The end of a child causes a signal; readiness, free memory and time do not."""
        if self.starting:
            return 0.02
        clock = self.daemons.get(CLOCK.name)
        if clock is not None and clock.adopted:  # the kernel does not report its end
            return 0.1
        return 0.1 if self.leaving or self.later or any(self.queues.values()) else 1.0

    def _adopt_daemons(self, left: Mapping[int, Process]) -> None:
        """Adopt the daemons that a killed farm has left running; stop those whose configuration has changed since.

        left: the processes of the instance by process id
        """
        daemon_files = {d.command[0] for d in self.daemons.values()}
        users = {account: user_of(account) for account in {d.account for d in self.daemons.values()}}
        stale = []
        parent = processes.parents()
        commands = {pid: process.command for pid, process in left.items()}
        self.spawner.find_namespaces(self.spec, [pid for pid, command in commands.items() if command == HOLDER_COMMAND])
        for pid, command in commands.items():
            if not command or command[0] not in daemon_files:
                continue
            if commands.get(parent.get(pid, 0)) == command:
                continue  # a fork of a daemon that is about to execute another program, such as slurmstepd
            environment = left[pid].environment
            daemon = self.daemons.get(environment.get(NAME_VARIABLE, ""))
            digest = environment.get(DIGEST_VARIABLE, "")
            # A process of the instance's user may look like a daemon of root.
            is_own = daemon is not None and left[pid].users == {daemon.inside or users[daemon.account]}
            is_outdated = daemon is not None and (daemon.digest != digest or self._has_old_state(daemon))
            if daemon is None or not is_own or daemon.command != command or is_outdated or daemon.pid:
                stale.append(pid)
                continue
            daemon.adopted, daemon.started_at, daemon.log_sizes = True, float("-inf"), self._log_sizes(daemon)
            self._note_started(daemon, pid, digest)
            self.adopted.append((pid, daemon.start_time))
        processes.end(stale, STOP_TIMEOUT)

    def _reload(self) -> None:
        """Read the specification again: start new daemons, stop removed ones, restart changed ones.

        Daemons are stopped a few at a time. None is started before all of these have ended, because ports may have moved from one
        daemon to another.
        """
        new = Spec.load(self.directory / "etc/farm.json")
        self.spawner.complete(new)
        known = {**{d.name: d for d in self.by_pid.values()}, **self.daemons}
        for name in new.daemons.keys() & known.keys():
            daemon, old = new.daemons[name], known[name]
            if old.command != daemon.command:
                old.running_digest = ""  # causes a restart, like a changed digest
            old.command, old.digest = daemon.command, daemon.digest
            old.ready_file, old.ready_port, old.hostname = daemon.ready_file, daemon.ready_port, daemon.hostname
            old.environment = daemon.environment
            new.daemons[name] = old
        self.spec, self.daemons = new, new.daemons
        self.spawner.update_hosts_file(new.addresses)
        self._clear_queues()
        self.failing.clear()
        outdated = [d for d in self.by_pid.values() if self._must_stop(d)]
        self.departing = deque(sorted(outdated, key=lambda d: (d.kind is CLOCK, LEAVING_ORDER.index(d.kind))))
        for daemon in self.daemons.values():
            daemon.not_before, daemon.failures = 0.0, 0
        self.phase = "starting"
        self.clock_is_set = False
        self.pace.restart()
        self._count()
        self._enqueue(d for d in self.daemons.values() if not d.pid)

    def _must_stop(self, daemon: Daemon) -> bool:
        """Return whether a running daemon is not specified as it runs, and has not been sent SIGTERM yet."""
        if not daemon.pid or daemon.pid in self.leaving:
            return False
        return daemon.name not in self.daemons or daemon.running_digest != daemon.digest or self._has_old_state(daemon)

    def _has_old_state(self, daemon: Daemon) -> bool:
        """Return whether this is the controller, and its saved state has to be removed before it is started."""
        return daemon.kind.is_controller and not saved_state.is_fresh_for(self.directory, self.spec.fresh)

    def _stop_departing(self) -> None:
        """Send SIGTERM to departing daemons, a limited number at a time. Those still specified are started again when they end."""
        while self.departing and len(self.leaving) < self.spec.parallel:
            daemon = self.departing.popleft()
            if daemon.kind is CLOCK and self.leaving:
                # The others need it to end.
                self.departing.append(daemon)
                return
            if self._must_stop(daemon):
                self.leaving[daemon.pid] = time.monotonic() + STOP_TIMEOUT
                processes.send(daemon.pid, daemon.start_time, daemon.kind.end_signal)

    def _kill_overdue(self) -> None:
        """Send SIGKILL to the daemons that have not ended STOP_TIMEOUT seconds after SIGTERM."""
        for pid, deadline in self.leaving.items():
            if time.monotonic() > deadline:
                processes.send(pid, self.by_pid[pid].start_time, signal.SIGKILL)

    def _kill_stopped_clock(self) -> None:
        """End the coordinator of an event clock that has been stopped (SIGSTOP) for some time: the whole cluster waits for it."""
        clock = self.daemons.get(CLOCK.name)
        if clock is None or not clock.pid or not processes.is_stopped(clock.pid):
            self.clock_stopped_since = math.inf
            return
        self.clock_stopped_since = min(self.clock_stopped_since, time.monotonic())
        if time.monotonic() - self.clock_stopped_since >= CLOCK_STOPPED_AFTER:
            processes.send(clock.pid, clock.start_time, signal.SIGKILL)

    def _stop(self) -> None:
        """Stop the controller first (it saves its state), then the nodes' daemons and their descendants, then the prerequisites, in
        the reverse of the order in which they were started."""
        self.phase = "stopping"
        self._write_state()
        for kind in (kind for kind in LEAVING_ORDER if kind.role in (Role.SCHEDULER, Role.CONTROLLER, Role.NODE)):
            pids = [d.pid for d in self.by_pid.values() if d.kind is kind]
            for first in range(0, len(pids), STOP_BATCH):
                processes.end(pids[first : first + STOP_BATCH], STOP_TIMEOUT)
        members = processes.of_instance(str(self.directory))
        last = [kind for kind in LEAVING_ORDER if kind.is_prerequisite]
        prerequisites = [(kind, {d.pid for d in self.by_pid.values() if d.kind is kind}) for kind in last]
        kept = self.spawner.namespace_holders.union(*(pids for _, pids in prerequisites))
        processes.end({pid: started for pid, started in members.items() if pid not in kept}, STOP_TIMEOUT)
        self.spawner.end_namespaces()
        for kind, pids_of_kind in prerequisites:
            if kind.end_signal != signal.SIGTERM:
                processes.send_all(((pid, self.by_pid[pid].start_time) for pid in pids_of_kind), [kind.end_signal])
            processes.end(pids_of_kind, STOP_TIMEOUT)
        user_folders.remove(self.directory, STATE)

    # --- daemons that a run takes away ---------------------------------------------------------------------------------

    def _read_absent(self) -> None:
        """End or stop the daemons that are to be absent now, with all that they started, and start the others of them again."""
        text = absent.read(self.directory)
        gone, silent = absent.parse(text)
        leaving = {name for name in gone if name in self.daemons and not self.daemons[name].is_absent}
        returning = [daemon for daemon in self.daemons.values() if daemon.is_absent and daemon.name not in gone]
        for daemon in self.daemons.values():
            daemon.is_absent = daemon.name in gone
        if leaving:
            self._end_absent(leaving)
        for name, number in (
            *((name, signal.SIGSTOP) for name in silent - self.silent),
            *((name, signal.SIGCONT) for name in self.silent - silent),
        ):
            if name in self.daemons and self.daemons[name].pid:
                processes.send(self.daemons[name].pid, self.daemons[name].start_time, number)
        self.silent = silent
        for daemon in returning:
            daemon.not_before, daemon.failures = 0.0, 0
        self._enqueue(returning)
        self.absent_digest = absent.digest_of(text)
        self._count()

    def _end_absent(self, names: set[str]) -> None:
        """Kill daemons with all that they started, until none is left: one of them may start a program meanwhile."""
        self._clear_queues()
        logs, is_any_left = {name: self._log_file(self.daemons[name]) for name in names}, True
        while is_any_left:
            alive = absent.processes_of(logs, processes.of_instance(str(self.directory)))
            processes.send_all(alive.items(), [signal.SIGKILL])
            self._reap()
            own = [daemon for daemon in self.by_pid.values() if daemon.name in names]
            for daemon in own:
                if daemon.adopted and not processes.is_alive(daemon.pid, daemon.start_time):
                    self._note_ended(daemon.pid, None)
            is_any_left = bool(alive or own)
        self._enqueue(self.daemons.values())

    # --- starting and reaping --------------------------------------------------------------------------------------

    def _enqueue(self, daemons: Iterable[Daemon]) -> None:
        """Put the daemons that neither run nor are queued into the queue of their kind, or into `later` until `not_before`."""
        now = time.monotonic()
        for daemon in daemons:
            if daemon.pid or daemon.is_queued or daemon.is_absent:
                continue
            daemon.is_queued = True
            if daemon.not_before > now:
                heapq.heappush(self.later, (daemon.not_before, daemon.name, daemon))
            else:
                self.queues[daemon.kind.name].append(daemon)

    def _clear_queues(self) -> None:
        for daemon in itertools.chain((d for _, _, d in self.later), *self.queues.values()):
            daemon.is_queued = False
        self.later.clear()
        for queue in self.queues.values():
            queue.clear()

    def _start_queued(self) -> None:
        """Start queued daemons as far as order, parallelism and memory permit; none while others have to end."""
        while self.later and self.later[0][0] <= time.monotonic():
            daemon = heapq.heappop(self.later)[2]
            self.queues[daemon.kind.name].append(daemon)
        if self.departing or self.leaving:
            return
        if not (self.clock_is_set or self._set_clock()):
            return
        for name, queue in self.queues.items():
            while queue and self._may_start(DAEMON_KINDS[name]):
                self._start(queue.popleft())
        self.spawner.restore_hostname()
        if self.phase == "starting" and not (self.starting or self.later or any(self.queues.values())):
            self.phase = "running"

    def _set_clock(self) -> bool:
        """Set the virtual clock; returns whether that succeeded. On an error, `trouble` says why."""
        self.trouble = ""
        try:
            self.spawner.set_clock(self.spec.clock)
        except OSError as error:
            self.trouble = out_of_space(error, [self.directory / "state"]) or f"the virtual clock cannot be set: {error}"
        except WrongUse as error:
            self.trouble = f"the virtual clock cannot be read, run `make teardown`: {error}"
        self.clock_is_set = not self.trouble
        return self.clock_is_set

    def _may_start(self, kind: DaemonKind) -> bool:
        """Return whether a daemon of this kind may be started now: its prerequisites are ready, and for nodes the limits hold."""
        required = REQUIRED[kind.name]
        if any(self.queues[other.name] for other in required) or any(daemon.kind in required for daemon in self.starting):
            return False
        return not kind.is_node or (len(self.starting) < self.spec.parallel and self.pace.allows(len(self.starting)))

    def _update_readiness(self) -> None:
        """Check which daemons have become ready, and update `starting`."""
        self.starting = []
        for daemon in list(self.unready.values()):
            if daemon.check_ready():
                del self.unready[daemon.pid]
                self.ready[daemon.kind.name] += daemon.name in self.daemons
            elif time.monotonic() - daemon.started_at < STABLE_AFTER:
                self.starting.append(daemon)

    def _start(self, daemon: Daemon) -> None:
        """Start a daemon. On an error (no such program, too many processes) it is queued for another attempt."""
        daemon.started_at, daemon.ready, daemon.adopted, daemon.is_queued = time.monotonic(), False, False, False
        daemon.log_sizes = self._log_sizes(daemon)
        try:
            if daemon.kind.is_controller:
                saved_in = Path(self.spec.saved_in or self.directory)
                saved_state.remove(self.directory, self.spec.fresh, daemon.kind.records, saved_in)
            pid = self.spawner.start(daemon)
        except OSError as error:
            self._note_failure(daemon, f"cannot be started: {error}")
            self._enqueue([daemon])
            return
        if daemon.kind.is_node:
            self.pace.started()
        self._note_started(daemon, pid, daemon.digest)
        self.starting.append(daemon)

    def _note_started(self, daemon: Daemon, pid: int, digest: str) -> None:
        daemon.pid, daemon.start_time, daemon.running_digest = pid, processes.start_time(pid) or 0, digest
        self.by_pid[pid] = self.unready[pid] = daemon
        self.up[daemon.kind.name] += 1

    def _reap(self) -> None:
        """Handle the children that have ended, and adopted daemons, which are no children."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._note_ended(ended[0], os.waitstatus_to_exitcode(ended[1]))
        for pid in [pid for pid in self.leaving if self.by_pid[pid].adopted]:
            if not processes.is_alive(pid, self.by_pid[pid].start_time):
                self._note_ended(pid, None)
        if self.adopted and time.monotonic() - self.adopted_looked >= 1.0:
            self.adopted_looked = time.monotonic()
            self._check_adopted()

    def _check_adopted(self) -> None:
        for pid, start_time in [self.adopted.popleft() for _ in range(min(ADOPTED_BATCH, len(self.adopted)))]:
            daemon = self.by_pid.get(pid)
            if daemon is None or daemon.start_time != start_time:
                continue  # it was stopped and has ended
            if processes.is_alive(pid, start_time):
                self.adopted.append((pid, start_time))
            else:
                self._note_ended(pid, None)

    def _note_ended(self, pid: int, code: int | None) -> None:
        """Handle the end of a process: a daemon is queued for a restart; others, such as a reparented slurmstepd, are ignored.

        code: exit code, or the negative number of the signal that ended it; None if it is not known
        """
        daemon = self.by_pid.pop(pid, None)
        if daemon is None:
            return
        is_wanted = daemon.name in self.daemons
        self.silent.discard(daemon.name)
        self.up[daemon.kind.name] -= is_wanted
        self.ready[daemon.kind.name] -= is_wanted and daemon.ready
        self.unready.pop(pid, None)
        was_ready = daemon.ready or (daemon.kind is CLOCK and daemon.check_ready())
        daemon.pid, daemon.ready = 0, False
        if self.leaving.pop(pid, None) is None and not daemon.is_absent:
            # A controller that works is not killed because of what it does: each run on an event clock begins with it (phase.py).
            is_first = was_ready and (daemon.kind is CLOCK or (daemon.kind.is_controller and code == -signal.SIGKILL))
            self._note_failure(daemon, self._record_end(daemon, code), is_first)
        if is_wanted:
            self._enqueue([daemon])

    def _note_failure(self, daemon: Daemon, reason: str, is_first: bool = False) -> None:
        """Count an unexpected end of a daemon and set the time of its next start. `is_first`: those before it do not matter."""
        self.restarts += 1
        if daemon.kind is not CLOCK:
            is_first = is_first or time.monotonic() - daemon.started_at > STABLE_AFTER
        daemon.failures = 1 if is_first else daemon.failures + 1
        back_off = min(BACK_OFF_MAX, 0.25 * 2**daemon.failures)
        if daemon.kind is CLOCK:
            back_off = 0.0 if is_first else min(CLOCK_BACK_OFF_MAX, back_off)
        daemon.not_before = time.monotonic() + back_off
        if daemon.failures > 2:
            self.failing[daemon.name] = reason

    def _record_end(self, daemon: Daemon, code: int | None) -> str:
        """Record the unexpected end of a daemon as an event; returns how it ended."""
        ended = {
            "daemon": daemon.name,
            "kind": daemon.kind.name,
            "exit": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "out_of_memory": code == -signal.SIGKILL and self.out_of_memory.look(),
            "words": "" if code == -signal.SIGKILL else self._last_words(daemon),
        }
        self.events.add("ended", **ended)
        return how_it_ended(ended)

    def _last_words(self, daemon: Daemon) -> str:
        """Return the last error message of a daemon that has ended; if it has none, the reason may be a full disk."""
        # The file of the standard error is begun anew at each start.
        stderr = self.directory / f"log/{daemon.name}.stderr"
        words = last_words([(stderr, 0), *daemon.log_sizes.items()])
        full = next(iter(full_folders(self.directory).values()), None)
        return no_space(full) if words == NO_WORDS and full else words

    def _log_file(self, daemon: Daemon) -> Path:
        name = f"{daemon.kind.name}.{daemon.name}" if daemon.kind.is_node else daemon.name
        return self.directory / f"log/{name}.log"

    def _log_sizes(self, daemon: Daemon) -> dict[Path, int]:
        """Return the daemon's log file and its size now."""
        path = self._log_file(daemon)
        try:
            return {path: path.stat().st_size}
        except OSError:
            return {path: 0}

    # --- state -----------------------------------------------------------------------------------------------------

    def _count(self) -> None:
        """Count the daemons that are wanted, up and ready. Other methods update the counters. Absent ones are not wanted."""
        self.wanted = Counter(d.kind.name for d in self.daemons.values() if not d.is_absent)
        self.up = Counter(d.kind.name for d in self.daemons.values() if d.pid)
        self.ready = Counter(d.kind.name for d in self.daemons.values() if d.ready)

    def state(self) -> dict[str, Any]:
        """Return the farm's state, the content of DIRECTORY/run/farm.json.

        pid, start_time: the farm's process; identity: that of the specification with which the farm was started; specification:
        digest of the specification that it read last; phase: starting, running or stopping; daemons: {wanted, up, ready} by kind;
        leaving: number of daemons that have to end before others start; rate: nodes' daemons that become ready per second, or
        null; waiting_for_memory: seconds for which none of them could be started and the available memory has not grown, or null;
        controller_pid: process of the first controller that is not absent; standby_pid: that of a second one beside it, or 0;
        restarts: number of unexpected ends; failing: last error by name of at most SHOWN_FAILURES failing daemons; failing_count:
        number of all; trouble: why no daemon can be started, or empty; stopped: process ids by name of the daemons other than
        nodes' that somebody has stopped (SIGSTOP) for STOPPED_AFTER seconds; refused: reason by isolation measure that the kernel
        refused; absent: digest of the file with the daemons that a run takes away (absent.py), empty without any
        """
        kinds = [name for name in DAEMON_KINDS if self.wanted[name]]
        controllers = [self.daemons[kind.name] for kind in KINDS if kind.is_controller and kind.name in self.daemons]
        controller = next((daemon for daemon in controllers if not daemon.is_absent), None)
        is_starting = self.phase == "starting"
        nodes = sum(self.ready[name] for name in NODE_KINDS)
        rate = self.rate.note(nodes, time.monotonic()) if is_starting and not self.leaving else None
        return {
            "pid": os.getpid(),
            "start_time": self.started,
            "identity": self.identity,
            "specification": self.spec.digest,
            "phase": self.phase,
            "daemons": {name: {"wanted": self.wanted[name], "up": self.up[name], "ready": self.ready[name]} for name in kinds},
            "leaving": len(self.departing) + len(self.leaving),
            "rate": rate and round(rate, 1),
            "waiting_for_memory": self.pace.waiting if any(self.queues[name] for name in NODE_KINDS) else None,
            "controller_pid": controller.pid if controller else 0,
            absent.STANDBY_KEY: next((daemon.pid for daemon in controllers[1:] if daemon is not controller), 0),
            "restarts": self.restarts,
            "failing": dict(itertools.islice(self._failing(), SHOWN_FAILURES)),
            "failing_count": sum(1 for _ in self._failing()),
            "trouble": self.trouble,
            "stopped": self._stopped(),
            "refused": self.spawner.refused,
            absent.STATE_KEY: self.absent_digest,
        }

    def _stopped(self) -> dict[str, int]:
        """Return the process ids of daemons that have been stopped (SIGSTOP) for some time, by name, as in `state`.

        Nodes are left out: the controller notices those that do not answer.
        """
        daemons = [self.daemons[kind.name] for kind in KINDS if not kind.is_node and kind.name in self.daemons]
        stopped = {daemon.pid: daemon.name for daemon in daemons if daemon.pid and processes.is_stopped(daemon.pid)}
        now = time.monotonic()
        self.stopped_since = {pid: self.stopped_since.get(pid, now) for pid in stopped}
        return {stopped[pid]: pid for pid, since in self.stopped_since.items() if now - since >= STOPPED_AFTER}

    def _failing(self) -> Iterator[tuple[str, str]]:
        """Yield name and last error of each daemon that has failed repeatedly and has not run for long since."""
        for name, message in self.failing.items():
            daemon = self.daemons.get(name)
            if daemon and daemon.failures > 2 and (not daemon.pid or time.monotonic() - daemon.started_at < FAILING_AFTER_START):
                yield name, message

    def _write_state(self) -> None:
        """Write the state when it has changed: a new phase immediately, other changes at limited intervals."""
        if time.monotonic() < self.write_after and self.phase == self.written.get("phase"):
            return
        self.write_after = time.monotonic() + (0.25 if self.starting or self.leaving else 1.0)
        self.out_of_memory.look()
        for path in self.full_folders.look():
            self.events.add("full", path=str(path))
        self.events.write()
        if (state := self.state()) != self.written or self._file_status() != self.written_status:
            with suppress(OSError):  # on a full disk the file is outdated, and the farm continues
                write_json(self.directory / STATE, state, durable=False)
                self.written, self.written_status = state, self._file_status()

    def _file_status(self) -> tuple[int, int, int] | None:
        """Inode, size and time of the last change of the state's file, by which a change by another process is known."""
        with suppress(OSError):
            status = (self.directory / STATE).lstat()
            return status.st_ino, status.st_size, status.st_ctime_ns
        return None


def failure_of(state: Mapping[str, Any], directory: Path, kinds: Collection[str] = ()) -> str:
    """Return why the farm in `state` cannot start a daemon, or which one is stopped, and what to do; empty when none fails.

    Of several failing daemons it is the one that others depend on most. With `kinds`, only daemons of these names count.
    """
    if state.get("trouble"):
        return str(state["trouble"])
    stopped = state.get("stopped")
    for name in DAEMON_KINDS:
        if isinstance(stopped, dict) and isinstance(pid := stopped.get(name), int):
            return f"{name} has been stopped by a signal: let it go on with `kill -CONT {pid}`"
    failing = {name: reason for name, reason in state["failing"].items() if not kinds or name in kinds}
    if not failing:
        return ""
    order = list(DAEMON_KINDS)
    name = min(failing, key=lambda name: order.index(name) if name in order else len(order))
    others = f" (of {state['failing_count']} daemons)" if state["failing_count"] > 1 else ""
    what_to_do = advice(failing[name], directory) or f"; see {directory}/log"
    return f"{name}{others} does not start: {failing[name]}{what_to_do}"


def read_state(directory: Path) -> dict[str, Any] | None:
    """Return the state of the farm of the instance in `directory` (see `Farm.state`); None when no farm runs.

    The file belongs to the instance's user: one that cannot be read, or that has something else in it, is no farm's state.
    """
    try:
        state = user_folders.read_json(directory, STATE)
    except (WrongUse, PermissionError):
        return None
    if state is None or not _is_state(state) or not processes.is_alive(state["pid"], state["start_time"]):
        return None
    return state


def _is_state(state: dict[str, Any]) -> bool:
    """Whether this has the keys of a farm's state, with values of their types."""
    if any(not isinstance(state.get(key), kind) for key, kind in STATE_TYPES.items()):
        return False
    counts = [kind.get(key) if isinstance(kind, dict) else None for kind in state["daemons"].values() for key in COUNTS]
    return state["pid"] > 0 and all(isinstance(count, int) for count in counts)
