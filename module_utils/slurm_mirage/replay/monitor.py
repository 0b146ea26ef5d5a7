"""Monitors a replay: writes progress.json, metrics.prom, samples.csv, suspended.jsonl, the diagnostics and, with fair share,
shares.csv, and notices stalls.

There are two threads. One rewrites progress.json about once a second, in any case: its time stamp shows when the replay was last
alive; every few seconds it writes metrics.prom, too. The other asks the resource manager and may be held up by it. Neither submits
or cancels jobs, nor writes the journal.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..base import csv_text
from ..base.files import write_json
from ..clock import real_time
from ..clock.clock import Clock
from ..clock.time_source import TimeSource
from ..jobs.plan import PlanRow
from ..rm.api import (
    CompletionReader,
    Controller,
    DiagnosticMetric,
    JobState,
    QueuedJob,
    ResourceManager,
    ResourceManagerError,
)
from . import prometheus
from .details import end_torn_line, keep_details, kept_details
from .halts import Halts
from .real_left import Costs, RealLeft
from .time_left import ActiveJob, TimeLeftEstimator

log = logging.getLogger("replay")

POLL_INTERVAL = 1.0
"""Real seconds between two queries of the queue, at least."""
EVENT_POLL_INTERVAL = 5.0
"""The same on an event clock, which such a look from outside holds up."""
EVENT_LOOK_INTERVAL = 0.2
"""Real seconds between two looks at the record of ended jobs meanwhile, which costs the cluster nothing."""
EVENT_DESCRIBED_WITHIN = 10_000.0
"""Virtual seconds after the last look at the queue, if jobs have ended since, until the next one: what the manager knows of them it
forgets some time later (EVENT_CLOCK_LEAST of rm/slurm/clock_settings.py)."""
POLL_SHARE = 0.05
"""Part of the time that these queries may take: a long queue is queried less often."""
LONGEST_POLL_INTERVAL = 30.0
"""Real seconds between two rounds of queries at most. After one without an answer the next follows after POLL_INTERVAL."""
ESTIMATE_SHARE = 0.01
"""Part of the time that estimates of the time left may take."""
UNACCOUNTED_AFTER = 5.0
"""Real seconds for which a job is neither in the queue nor in the completion log before other records are asked for it."""
DESCRIBED_WITHIN = 60.0
"""Real seconds after the end of a job within which its details are asked for: the manager forgets ended jobs some time later."""
MANY, FEW = 5, 20
"""The details of ended jobs are asked for when these are one in MANY of all jobs; in one answer with those of all jobs if they are
one in FEW."""
STALL_AFTER = 60.0
"""A stall is this many real seconds, and the longest time limit of the running jobs, without a start or an end of a job."""
IDLE_STATES = frozenset({JobState.PENDING, JobState.SUSPENDED})
"""States in which a job keeps no processor busy."""
OVERDUE_AFTER = 600.0
"""Seconds of the cluster's time, and 60 real ones at a constant speed, for which a job has run longer than its limit before it is
ended: the manager does not do it any more."""
MAX_RELEASES = 5
"""How often a job that the manager put on hold after a failed launch is released."""


@dataclass
class Status:
    """The content of progress.json. Lengths are real seconds; `real` is the instant at which it was written, `virtual` that instant
    on the cluster's clock. On an event clock lengths are virtual seconds, and `pace` is the number of these in a real second since
    the replay began; it is null otherwise.

    `running` is the number of jobs that have started and not ended, whatever their state. `states` counts the jobs that have not
    ended by state, `ended` the others. The time left is a range, and why it became longer (time_left.py); on an event clock there
    is one in real seconds besides (real_left.py). Nodes, scheduler and host are as of the last sample.
    """

    run: str
    jobs: int
    cluster: str = ""
    speed: float = 1.0
    pace: float | None = None
    pid: int = field(default_factory=os.getpid)
    phase: str = "waiting"
    submitted: int = 0
    running: int = 0
    pending: int = 0
    done: int = 0
    lag: float = 0.0
    retries: int = 0
    resubmitted: int = 0
    elapsed: float = 0.0
    time_left_least: float | None = None
    time_left_most: float | None = None
    time_left_cause: str = ""
    real_left_least: float | None = None
    real_left_most: float | None = None
    nodes_not_responding: int | None = None
    states: Mapping[str, int] = field(default_factory=dict)
    ended: Mapping[str, int] = field(default_factory=dict)
    processors: int | None = None
    processors_busy: int | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)
    scheduler: Mapping[str, int | None] = field(default_factory=dict)
    cpu_busy: float | None = None
    memory_available_bytes: int | None = None
    message: str = ""
    real: float = 0.0
    virtual: float = 0.0

    def write(self, path: Path, clock: Clock, time: TimeSource) -> None:
        """Rewrite progress.json."""
        self.virtual = clock.virtual_at(time.now_ns()) / 1e9
        self.real = time.real_now()
        write_json(path, asdict(self), durable=False)


class Heartbeat(threading.Thread):
    """Writes the status once a second (of real time) until it is stopped, and a last time then."""

    def __init__(
        self,
        status: Status,
        folder: Path,
        clock: Clock,
        began: Callable[[], float | None],
        diagnostics: Sequence[DiagnosticMetric],
        halts: Halts,
        time: TimeSource,
    ) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._time = time
        self._diagnostics, self._halts = diagnostics, halts
        self._status, self._clock, self._began = status, clock, began
        self._path, self._metrics = folder / "progress.json", folder / prometheus.NAME
        self._over = threading.Event()
        self._first = (time.real_now(), time.now()) if real_time.is_preloaded() else None

    def begin(self) -> None:
        """The run begins: count the pace of an event clock from now on."""
        if self._first is not None:
            self._first = (self._time.real_now(), self._time.now())

    def run(self) -> None:
        """The thread's work."""
        real_time.become_observer()
        beats = 0
        while not self._over.is_set():
            self.beat(beats % prometheus.EVERY == 0)
            beats += 1
            self._time.pause(self._over, 1.0)

    def beat(self, with_metrics: bool) -> None:
        """Write the status now."""
        if self._first is None:
            self._halts.beat()
        else:
            real, virtual = self._first
            self._status.pace = round((self._time.now() - virtual) / max(self._time.real_now() - real, 1e-3), 3)
        began = self._began()
        self._status.elapsed = round(self._time.now() - began, 3) if began else 0.0
        try:
            self._status.write(self._path, self._clock, self._time)
            if with_metrics:
                prometheus.write(self._metrics, asdict(self._status), self._diagnostics)
        except OSError as error:
            log.error("cannot write %s: %s", error.filename or self._path, error.strerror)

    def stop(self) -> None:
        """End the thread and write the status a last time."""
        self._over.set()
        self.join()
        self.beat(with_metrics=True)


class Monitor(threading.Thread):
    """Queries the queue, the completion log and the nodes. `poke` is called after each round.

    `answered` gets the real instant of the last answer of each controller, by the controller's start. `known` has the submitted
    jobs by index; another thread adds to it. `position`: real seconds of the schedule that have passed at a real instant. `held`:
    ids of the jobs that are to stay held. `costs`: of the replay on an event clock, else None.
    """

    def __init__(
        self,
        folder: Path,
        manager: ResourceManager,
        completion_log: CompletionReader,
        plan: Sequence[PlanRow],
        clock: Clock,
        sample_interval: float,
        status: Status,
        answered: MutableMapping[int | None, float],
        known: Mapping[int, int],
        position: Callable[[float], float],
        halts: Halts,
        time: TimeSource,
        poke: Callable[[], None],
        held: Callable[[], Set[int]] = frozenset,
        costs: Costs | None = None,
    ) -> None:
        super().__init__(name="monitor", daemon=True)
        self._held_by_events = held
        self._answered, self._known, self._halts, self._time = answered, known, halts, time
        self._folder, self._manager, self._completions = folder, manager, completion_log
        self._plan, self._clock, self._sample_interval = plan, clock, sample_interval
        self._status, self._poke = status, poke
        self._indices: Mapping[str, int] = {row.name: row.index for row in plan}
        self._over = threading.Event()
        self._position = position
        self._estimator = TimeLeftEstimator(plan, clock)
        self._estimate_at = 0.0
        self._costs, self._real_left = costs, None if costs is None else RealLeft(costs)
        self._seen: dict[int, str] = {}
        self._runs: Counter[int] = Counter()
        self._lines = 0
        end_torn_line(folder)
        self._described = Counter(job.job_id for job in kept_details(folder, manager.records))
        self._described_at = time.monotonic()
        self._releases: Counter[int] = Counter()
        self._startless: dict[int, float] = {}
        """Virtual instants at which running jobs that the manager knows no start of were seen first, by their ids."""
        self._processor = ProcessorTime()
        self._controller_memory = ControllerMemory(manager.records.names.controller)
        self._stall = StallDetector()
        self._next_sample = 0.0
        self.controller: Controller | None = None
        self.ended: frozenset[int] = frozenset()
        """Indices of jobs that have ended, as of `looked_at`."""
        self.ended_for_good: frozenset[int] = frozenset()
        """Those of them that the manager never runs again by itself."""
        self._for_good: set[int] = set()
        self.looked_at = 0.0
        """Real instant at which the last complete round of queries began."""
        self.unaccounted: frozenset[int] = frozenset()
        """Indices of jobs that have been neither in the queue nor in the completion log for UNACCOUNTED_AFTER."""
        self._gone: dict[int, float] = {}
        """When a round found first that a job was in neither, by index."""
        self.released = 0
        self.highest_number = 0
        """The highest number that the manager gave to a job, as far as was seen: tasks of arrays get theirs when they start."""
        self.failure: Exception | None = None
        """What ended the monitor before its time."""

    def run(self) -> None:
        """The thread's work. What ends it is in `failure`: without the monitor the replay would wait for ever."""
        try:
            self._watch()
        except Exception as error:  # unexpected
            self.failure = error
            self._poke()

    def _watch(self) -> None:
        real_time.become_observer()
        while not self._over.is_set():
            began, real, took = self._time.monotonic(), self._time.now(), 0.0
            try:
                self.look()
                took = self._time.monotonic() - began if self._halts.ended_at < real else 0.0
            except ResourceManagerError as error:
                log.warning("monitor: %s", error)
            except OSError as error:
                log.error("monitor: %s", error)
            self._poke()
            if real_time.is_preloaded():
                self._pause_beside_event_clock()
            else:
                self._time.wait(self._over, pause_after(took))

    def _pause_beside_event_clock(self) -> None:
        """Wait for the next round: some real seconds, until all jobs have ended, or until the manager may forget some that have."""
        looked, lines = self._time.now(), self._lines
        for _ in range(round(EVENT_POLL_INTERVAL / EVENT_LOOK_INTERVAL)):
            if self._time.pause(self._over, EVENT_LOOK_INTERVAL):
                return
            with suppress(OSError):
                self._read_completions()
            all_ended = len(self._seen) == len(self._plan)
            if self._lines > lines and (all_ended or self._time.now() - looked > EVENT_DESCRIBED_WITHIN):
                return

    def stop(self) -> None:
        """End the thread after the present round."""
        self._over.set()
        self.join()

    def look(self) -> None:
        """One round of all queries that are due. Raises ResourceManagerError."""
        now = self._time.now()
        known, wanted = frozenset(self._known), self._held_by_events()
        self.controller = self._halts.ask("controller", self._manager.controller)
        self._answered[self.controller.boot_time] = now
        active = [job for job in self._halts.ask("queue", self._manager.queue) if job.name in self._indices]
        self._read_completions()
        self.highest_number = max([self.highest_number, *(job.number for job in active)])
        queued = {self._indices[job.name] for job in active}
        self.ended = frozenset(self._seen.keys() - queued)
        self.ended_for_good = frozenset(self._for_good - queued)
        self._note_gone(known - self._seen.keys() - queued, now)
        self.looked_at = now
        self._count(active)
        self._estimate_time_left(active, now)
        self._watch_for_stall(active, now)
        # A job that was held or released meanwhile is in one of the two; of one that was submitted meanwhile that is not known.
        submitted = [job for job in active if self._indices[job.name] in known]
        self._release_held(submitted, wanted | self._held_by_events())
        self._end_overdue(active, now)
        self._describe({job.job_id for job in active})
        if now >= self._next_sample:
            self._next_sample = now + self._sample_interval
            self._sample(now, active)

    def _virtual(self, now: float) -> float:
        """Virtual seconds since the epoch at a real instant."""
        return self._clock.virtual_at(int(now * 1e9)) / 1e9

    def _read_completions(self) -> None:
        for job in self._completions.read():
            if job.name in self._indices and not job.is_part:
                self._lines += 1
                index = self._indices[job.name]
                self._seen[index] = job.state
                (self._for_good.add if job.ended_for_good else self._for_good.discard)(index)
                self._runs[job.job_id] += 1

    def _note_gone(self, gone: Set[int], now: float) -> None:
        self._gone = {index: self._gone.get(index, now) for index in gone}
        self.unaccounted = frozenset(index for index, since in self._gone.items() if now - since >= UNACCOUNTED_AFTER)

    def _count(self, active: Sequence[QueuedJob]) -> None:
        states = Counter(job.state for job in active)
        self._status.pending = states[JobState.PENDING]
        self._status.running = len(active) - states[JobState.PENDING]
        self._status.done = len(self.ended)
        self._status.states = dict(Counter(job.state.value for job in active))
        self._status.ended = dict(Counter(self._seen[index].lower() for index in self.ended))
        self._status.processors_busy = _busy_processors(active)

    def _estimate_time_left(self, active: Sequence[QueuedJob], now: float) -> None:
        """Estimate the time left, once the first sample has the size of the machine; with a long plan not in each round."""
        began = self._time.real_now()  # the cluster's time hardly passes while the processors are busy
        if not self._status.processors or began < self._estimate_at:
            return
        virtual_now = self._virtual(now)
        jobs = []
        for job in active:
            has_run = job.start is not None and job.state is not JobState.PENDING
            ran = self._clock.virtual_to_real(max(0.0, virtual_now - job.start)) if has_run and job.start is not None else None
            jobs.append(ActiveJob(self._indices[job.name], ran))
        left = self._estimator.look(
            now,
            self._position(now),
            jobs,
            list(self._known),
            self._status.processors,
            sum(self._status.nodes.values()),
            self._status.processors_busy or 0,
        )
        self._status.time_left_least, self._status.time_left_most = round(left.least, 1), round(left.most, 1)
        self._status.time_left_cause = left.cause
        if self._costs is not None and self._real_left is not None:
            queue = self._estimator.rest(self._position(now), jobs, self._status.processors, self._costs.cycles)
            played = (len(self._known) + self._status.done) / 2
            to_come = (len(self._plan) - played, min(max(queue.end, left.least), left.most), queue.tested)
            tested = self._costs.cycles.tests(self._status.pending, self._status.running)
            real = self._real_left.look(self._time.real_now(), now, played, tested, to_come)
            self._status.real_left_least, self._status.real_left_most = (round(seconds, 1) for seconds in real)
        self._estimate_at = began + (self._time.real_now() - began) / ESTIMATE_SHARE

    def _watch_for_stall(self, active: Sequence[QueuedJob], now: float) -> None:
        limits = [self._plan[self._indices[job.name]].limit_minutes for job in active if job.state is not JobState.PENDING]
        patience = STALL_AFTER + self._clock.virtual_to_real(60.0 * max(limits, default=0))
        message = self._stall.look(active, len(self.ended), now, patience)
        if message and not self._status.message:
            log.warning("%s", message)
        if message or self._status.message.startswith(StallDetector.PREFIX):
            self._status.message = message

    def _release_held(self, active: Sequence[QueuedJob], wanted: Set[int]) -> None:
        """Release jobs that the manager itself holds, after a launch that failed on a node. wanted: ids of those held on purpose"""
        held = [job for job in active if job.held and job.job_id not in wanted]
        again = [job.job_id for job in held if self._releases[job.job_id] < MAX_RELEASES]
        if again:
            self._manager.release(again)
            self._releases.update(again)
            self.released += len(again)
            log.warning("released %d jobs that the resource manager held (%s)", len(again), held[0].reason)

    def _end_overdue(self, active: Sequence[QueuedJob], now: float) -> None:
        """End jobs that the manager lets run far beyond their limits, as a node's daemon was killed while they ended."""
        virtual = self._virtual(now)
        patience = max(OVERDUE_AFTER, self._clock.real_to_virtual(60.0))
        running = [job for job in active if job.state is JobState.RUNNING]
        self._startless = {job.job_id: self._startless.get(job.job_id, virtual) for job in running if job.start is None}
        late = []
        for job in running:
            start = self._startless[job.job_id] if job.start is None else job.start
            if virtual - start > 60.0 * self._plan[self._indices[job.name]].limit_minutes + patience:
                late.append(job)
        if late and (ended := self._manager.end_overdue([job.job_id for job in late], patience)):
            names = ", ".join(job.name for job in late if job.job_id in ended)
            log.warning("ended jobs that the resource manager let run beyond their limits by more than %.0f s: %s", patience, names)

    def _describe(self, active: set[int]) -> None:
        """Keep the details of each run of a job that has ended. Each is asked for once, whatever the answer."""
        wanted = sorted(job_id for job_id, runs in self._runs.items() if self._described[job_id] < runs and job_id not in active)
        known = self._status.submitted
        is_urgent = not active or real_time.is_preloaded() or self._time.monotonic() > self._described_at + DESCRIBED_WITHIN
        if not wanted or not (is_urgent or len(wanted) * MANY >= known):
            return
        self._described_at = self._time.monotonic()
        everything = len(wanted) * FEW >= known
        size = len(wanted) if everything else 500
        for first in range(0, len(wanted), size):
            chunk = wanted[first : first + size]
            answer = self._manager.details(chunk, everything)
            keep_details(self._folder, [job for job in answer if job.name in self._indices])
            for job_id in chunk:
                self._described[job_id] = self._runs[job_id]

    def _sample(self, now: float, active: Sequence[QueuedJob]) -> None:
        virtual = self._virtual(now)
        nodes = self._manager.nodes()
        if nodes.groups["drained"] and (resumed := self._manager.resume_nodes()):
            log.warning("resumed nodes that the resource manager had drained by itself: %s", resumed)
        self._status.nodes_not_responding = nodes.not_responding
        self._status.nodes, self._status.processors = nodes.states, nodes.processors
        self._status.cpu_busy = round(self._processor.busy(), 3)
        memory = _kibibytes(Path("/proc/meminfo"), "MemAvailable")
        self._status.memory_available_bytes = 1024 * memory
        states = Counter(job.state for job in active)
        sample: dict[str, object] = {
            "real": f"{now:.3f}",
            "virtual": f"{virtual:.3f}",
            "running": states[JobState.RUNNING],
            "pending": states[JobState.PENDING],
            "suspended": states[JobState.SUSPENDED],
            "done": len(self.ended),
            **{f"nodes_{group}": count for group, count in nodes.groups.items()},
            "nodes_not_responding": nodes.not_responding,
            "cpu_busy": f"{self._status.cpu_busy:.3f}",
            "memory_available_kb": memory,
            "processes": _own_processes(),
            "processors_busy": _busy_processors(active),
            "controller_memory_kb": self._controller_memory.look() or "",
        }
        _append_rows(self._folder / "samples.csv", [sample])
        diagnostics = self._manager.diagnostics()
        self._status.scheduler = diagnostics
        head = {"real": f"{now:.3f}", "virtual": f"{virtual:.3f}"}
        _append_rows(self._folder / self._manager.records.diagnostics_file, [{**head, **diagnostics}])
        if self.controller is not None and self.controller.has_fair_share:
            shares = [{"virtual": head["virtual"], **asdict(share)} for share in self._manager.account_shares()]
            _append_rows(self._folder / "shares.csv", shares)


def pause_after(took: float) -> float:
    """Real seconds between two rounds of queries. took: duration of the first; 0 without an answer, or during a halt."""
    return min(max(POLL_INTERVAL, took / POLL_SHARE), LONGEST_POLL_INTERVAL)


class StallDetector:
    """Notices that jobs neither start nor end any more."""

    PREFIX = "stalled: "

    def __init__(self) -> None:
        self._state: object = None
        self._since = 0.0

    def look(self, active: Sequence[QueuedJob], done: int, now: float, patience: float) -> str:
        """One line about a stall; empty if there is none, or for less than `patience` real seconds."""
        state = (done, frozenset((job.job_id, job.start) for job in active if job.state is not JobState.PENDING))
        if state != self._state or not active:
            self._state, self._since = state, now
        if now - self._since <= patience:
            return ""
        waiting = [job for job in active if job.state is JobState.PENDING]
        first = f", the first is {waiting[0].name} ({waiting[0].reason})" if waiting else ""
        return (
            f"{self.PREFIX}no job has started or ended for {now - self._since:.0f} s: "
            f"{len(active) - len(waiting)} run, {len(waiting)} wait{first}"
        )


class ProcessorTime:
    """The busy fraction of the host's processors between two calls, from /proc/stat (proc(5))."""

    def __init__(self) -> None:
        self._before = self._read()

    def busy(self) -> float:
        """Busy fraction, from 0 to 1, since the last call."""
        now = self._read()
        total, idle = now[0] - self._before[0], now[1] - self._before[1]
        self._before = now
        return 1 - idle / total if total else 0.0

    @staticmethod
    def _read() -> tuple[int, int]:
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(ticks), ticks[3] + ticks[4]


class ControllerMemory:
    """The largest resident memory that the process `name` of this user has had, from /proc (VmHWM of proc(5))."""

    def __init__(self, name: str) -> None:
        self._name, self._pid = name, ""

    def look(self) -> int:
        """KiB; 0 where there is no such process."""
        if not self._is(self._pid):
            self._pid = next((entry.name for entry in os.scandir("/proc") if entry.name.isdigit() and self._is(entry.name)), "")
        try:
            return _kibibytes(Path("/proc", self._pid, "status"), "VmHWM") if self._pid else 0
        except OSError:
            return 0

    def _is(self, pid: str) -> bool:
        try:
            path = Path("/proc", pid, "comm")
            return path.stat().st_uid == os.getuid() and path.read_text().rstrip("\n") == self._name
        except OSError:
            return False


def _busy_processors(active: Sequence[QueuedJob]) -> int:
    return sum(job.processors for job in active if job.state not in IDLE_STATES)


def _kibibytes(path: Path, name: str) -> int:
    """A number of a file of /proc, in a line such as `MemAvailable:  1024 kB`; 0 without it."""
    for line in path.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def _own_processes() -> int:
    """Number of processes of this user, who has no other processes than those of the instance."""
    user, count = os.getuid(), 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                count += entry.stat().st_uid == user
            except OSError:
                continue
    return count


def _append_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Add rows to a CSV file, with the heading to an empty one. Raises OSError, as on a full disk, with nothing added.

    What a killed replay left of a row is cut off.
    """
    if not rows:
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        whole = _whole_lines(descriptor)
        os.ftruncate(descriptor, whole)
        heading = [] if whole else [list(rows[0])]
        text = csv_text.text([*heading, *(list(row.values()) for row in rows)]).encode()
        if os.write(descriptor, text) != len(text):
            os.ftruncate(descriptor, whole)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


def _whole_lines(descriptor: int) -> int:
    """Number of bytes of a file up to its last line feed."""
    end = os.fstat(descriptor).st_size
    while end:
        begin = max(0, end - 4096)
        if (line_feed := os.pread(descriptor, end - begin, begin).rfind(b"\n")) >= 0:
            return begin + line_feed + 1
        end = begin
    return 0
