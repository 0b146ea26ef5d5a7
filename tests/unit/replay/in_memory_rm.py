"""A resource manager in memory, for tests of the replay: it starts jobs in the order of their submission, and plays sigsleep.

It shares nothing with rm/slurm but the protocol: its states, its record of ended jobs, its details and its statistics have other
names and formats. Everything that a test changes is an attribute or a method of `InMemory`.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from slurm_mirage.clock.time_source import TimeSource
from slurm_mirage.jobs import arrays, sigsleep_log
from slurm_mirage.rm.api import (
    NODE_GROUPS,
    AccountShare,
    CompletedJob,
    Controller,
    JobDetails,
    JobState,
    Nodes,
    QueuedJob,
    Records,
    Refused,
    ResourceManager,
    Submission,
    Submitted,
    Unavailable,
)

PARTITION = "all"
_STATES = {"done": "COMPLETED", "removed": "CANCELLED", "waits": "PENDING", "plays": "RUNNING"}


@dataclass
class Job:
    """A job with its state and its times, which are seconds since the epoch."""

    id: int
    submission: Submission
    submitted: float
    start: float | None = None
    end: float | None = None
    held: bool = False
    state: str = "waits"
    array: str = ""
    """Name of the array that the job is a task of."""
    number: int = 0
    """The number that the manager gave it: at its submission, or to a task of an array at its start."""

    @property
    def options(self) -> dict[str, str]:
        """Options of sigsleep in the job's command."""
        words = shlex.split(self.submission.command)[2:]
        return dict(zip(words[::2], words[1::2], strict=True))

    @property
    def active(self) -> bool:
        return self.state in ("waits", "plays")

    def line(self) -> dict[str, Any]:
        """The job in the record of ended jobs, and among the details."""
        instants = {"arrived": self.submitted, "began": self.start, "left": self.end}
        whole = {name: None if instant is None else int(instant) for name, instant in instants.items()}
        return {"job": self.id, "called": self.submission.name, "is": self.state, "size": self.submission.processors, **whole}


class InMemoryRecords(Records):
    """Reads what `InMemory` has written."""

    completions_file = "ended.jsonl"
    diagnostics_file = "statistics.csv"
    diagnostic_names: Mapping[str, str] = {"waiting": "backfill_queue_length"}
    diagnostic_metrics = ()

    def completions(self, text: str) -> list[CompletedJob]:
        return [self._completed(json.loads(line)) for line in text.split("\n")[:-1]]

    def _completed(self, line: Mapping[str, Any]) -> CompletedJob:
        return CompletedJob(
            job_id=line["job"],
            name=line["called"],
            state=_STATES[line["is"]],
            ended_for_good=True,
            ran=line["began"] is not None,
            partition=PARTITION,
            nodes=1,
            processors=line["size"],
            submit=line["arrived"],
            eligible=line["arrived"],
            start=line["began"],
            end=line["left"],
        )

    def details(self, record: Mapping[str, Any]) -> JobDetails:
        state, suspended = _STATES[record["is"]], 0 if record["began"] is not None else None
        return JobDetails(
            record["job"], record["called"], state, record["arrived"], record["began"], record["left"], suspended, record
        )


@dataclass
class _Reader:
    records: InMemoryRecords
    path: Path
    offset: int

    def read(self) -> list[CompletedJob]:
        data = self.path.read_bytes()[self.offset :]
        self.offset += len(data)
        return self.records.completions(data.decode())


class InMemory(ResourceManager):
    """One node with some processors. `directory` gets the record of ended jobs."""

    records = InMemoryRecords()

    def saved_by_runs(self) -> Sequence[Path]:
        return [path for path in (self.directory / "saved",) if path.exists()]

    def __init__(self, directory: Path, processors: int = 4, time: TimeSource | None = None) -> None:
        self.directory, self.processors, self.time = directory, processors, time or TimeSource()
        self.refused: set[str] = set()
        """Names of jobs that are never accepted."""
        self.changes: list[tuple[str, ...]] = []
        """What events changed."""
        self.configuration = ""
        """The configuration that the controller reads next."""
        self.restarts_to_reconfigure = False
        """Whether the controller starts a new process to read its configuration."""
        self.requeued: Counter[int] = Counter()
        """How often each job was put back in the queue."""
        self.killed_after: set[str] = set()
        """What the replay is killed after, which has changed it."""
        self.shares: list[AccountShare] = []
        """The accounts' shares, if jobs have priorities by them."""
        self.unavailable = 0
        """How many of the next calls have no answer."""
        self.unanswered: set[str] = set()
        """Names of jobs whose first submission is accepted, but has no answer."""
        self.failing_launches: Counter[str] = Counter()
        """How many of the next launches of a job fail, after which it is held."""
        self.lines_lost: set[str] = set()
        """Names of jobs whose end is never recorded."""
        self.lines_late: dict[str, float] = {}
        """After how many seconds the end of a job is recorded."""
        self.startless: set[str] = set()
        """Names of running jobs of which no start is known."""
        self.left_running: set[str] = set()
        """Names of jobs that run on after the end of their programs until they are ended."""
        self.silent: set[str] = set()
        """Names of jobs whose programs leave no record of their own."""
        self.remembers = math.inf
        """Seconds after their ends for which ended jobs are known."""
        self.refused_requests: set[str] = set()
        """Words of requests that are refused."""
        self.stopped_until = 0.0
        """Until then nothing is answered."""
        self.after: dict[int, Callable[[], None]] = {}
        """What happens after so many submissions were accepted."""
        self.jobs: list[Job] = []
        self.accepted: list[str] = []
        """Names of all jobs that were ever accepted, in order."""
        self.expected: list[tuple[int, list[str]]] = []
        """What was said of the next jobs: how many submissions had been accepted, and the names of the first three."""
        self.forgotten: list[Job] = []
        """Jobs that a controller forgot, but whose programs still run."""
        self.placeholders = 0
        """How many jobs were made placeholders."""
        self.is_open = True
        self.most = 0
        """Below how much numbers of tasks have to be."""
        self.boot_time, self._next_id = 1, 1
        self._registered_at = 0.0
        self._lock = threading.RLock()
        self._path = directory / self.records.completions_file
        self._path.touch()
        self._unwritten: list[Job] = []

    # ---- what tests do to it ----

    def restart(self, forget: int, registration: float = 0.2) -> None:
        """Kill the controller and start it again: it has forgotten its last `forget` submissions and gives out their ids again.

        The node registers `registration` seconds later. Until then the programs of forgotten jobs go on.
        """
        with self._lock:
            self._advance()
            kept = len(self.jobs) - forget
            self.forgotten += [job for job in self.jobs[kept:] if job.state == "plays"]
            del self.jobs[kept:]
            self._next_id = max((job.number for job in self.jobs), default=0) + 1
            self.boot_time += 1
            self._registered_at = self.time.now() + registration

    def named(self, name: str) -> list[Job]:
        """All jobs of this name that are not forgotten."""
        return [job for job in self.jobs if job.submission.name == name]

    # ---- time ----

    @contextmanager
    def _called(self) -> Iterator[None]:
        """Each call: it waits while nothing is answered, and begins with the present state."""
        if (left := self.stopped_until - self.time.now()) > 0:
            self.time.wait(threading.Event(), left)
        with self._lock:
            if self.unavailable:
                self.unavailable -= 1
                raise Unavailable("nobody there")
            self._advance()
            yield

    def _advance(self) -> None:
        """Bring everything up to the present."""
        now = self.time.now()
        for job in [*self._unwritten]:
            if now >= (job.end or now) + self.lines_late[job.submission.name]:
                self._unwritten.remove(job)
                self._write_line(job)
        self.jobs = [job for job in self.jobs if job.end is None or now < job.end + self.remembers]
        while ended := [
            job
            for job in self.jobs
            if job.state == "plays" and self._due(job) <= now and job.submission.name not in self.left_running
        ]:
            first = min(ended, key=self._due)
            at = self._due(first)
            self._finish(first, "done", at)
            self._start_waiting(at)
        self._start_waiting(now)
        for job in [*self.forgotten]:
            if self._due(job) <= min(now, self._registered_at):
                self._record(job, self._due(job), completed=True)
                self.forgotten.remove(job)
            elif now >= self._registered_at:
                self.forgotten.remove(job)

    @staticmethod
    def _due(job: Job) -> float:
        assert job.start is not None
        return job.start + float(job.options["--runtime"])

    def _start_waiting(self, at: float) -> None:
        """Start jobs in order, as long as the first one that may start fits."""
        for job in self.jobs:
            needed = [int(number) for number in re.findall(r":(\d+)", job.submission.dependency)]
            waits = any(other.active for other in self.jobs if other.id in needed) or job.submission.delay
            if job.state != "waits" or job.held or waits or not self.is_open:
                continue
            busy = sum(other.submission.processors for other in self.jobs if other.state == "plays")
            if busy + job.submission.processors > self.processors:
                return
            if self.failing_launches[job.submission.name] > 0:
                self.failing_launches[job.submission.name] -= 1
                job.held = True
            else:
                job.state, job.start = "plays", max(at, job.submitted)
                if job.array and arrays.number(job.id) == job.number:
                    job.number, self._next_id = self._next_id, self._next_id + 1

    def _finish(self, job: Job, state: str, at: float) -> None:
        if job.start is not None and job.submission.name not in self.silent:
            self._record(job, at, completed=state == "done")
        job.state, job.end = state, at
        if job.submission.name in self.lines_late:
            self._unwritten.append(job)
        elif job.submission.name not in self.lines_lost:
            self._write_line(job)

    def _write_line(self, job: Job) -> None:
        with self._path.open("a") as stream:
            stream.write(json.dumps(job.line()) + "\n")

    def _record(self, job: Job, end: float, *, completed: bool) -> None:
        """What sigsleep writes at its end."""
        assert job.start is not None
        options = job.options
        record = sigsleep_log.Record(
            id=int(options["--id"]),
            cores=int(options["--cores"]),
            priority=options["--priority"],
            submission_ns=round(float(options["--submit"]) * 1e9),
            start_ns=round(job.start * 1e9),
            end_ns=round(end * 1e9),
            runtime_ns=round(float(options["--runtime"]) * 1e9),
            executed_ns=round((end - job.start) * 1e9),
            completed=completed,
            slurm_job_id=arrays.number(job.id),
        )
        with Path(options["--log"]).open("ab") as stream:
            stream.write(sigsleep_log.pack(record))

    # ---- the protocol ----

    def controller(self) -> Controller:
        with self._called():
            return Controller(self.boot_time, self._next_id, "in memory", bool(self.shares))

    def account_shares(self) -> list[AccountShare]:
        return self.shares

    def diagnostics(self) -> dict[str, int | None]:
        with self._called():
            return {"waiting": sum(job.state == "waits" for job in self.jobs), "unknown": None}

    def log_size(self) -> int:
        return 17

    def complaints(self, real: float, virtual: float, log_offset: int) -> dict[str, int]:
        assert (real, log_offset) == (virtual, 17)
        return {"time-out": 2}

    def expect(self, jobs: Iterable[Submission]) -> None:
        self.expected.append((len(self.accepted), [job.name for job in islice(jobs, 3)]))

    def submit(self, job: Submission) -> Submitted:
        with self._called():
            if job.name in self.refused or job.request.words in self.refused_requests:
                raise Refused("never")
            number = self._accept(job, held=bool(job.request.hold))
            if (action := self.after.pop(len(self.accepted), None)) is not None:
                action()
            if job.name in self.unanswered:
                self.unanswered.remove(job.name)
                raise Unavailable("the answer was lost")
            return Submitted(number)

    def _accept(self, job: Submission, held: bool = False) -> int:
        self.jobs.append(Job(self._next_id, job, self.time.now(), held=held, number=self._next_id))
        self.accepted.append(job.name)
        self._next_id += 1
        self._advance()
        return self._next_id - 1

    def most_tasks(self) -> int:
        return self.most

    def submit_array(self, name: str, tasks: Mapping[int, Submission], at_once: int | None = None) -> Submitted:
        with self._called():
            array, self._next_id = self._next_id, self._next_id + 1
            for task, job in tasks.items():
                self.jobs.append(Job(arrays.task_id(array, task), job, self.time.now(), array=name, number=array))
                self.accepted.append(job.name)
            self._advance()
            if (action := self.after.pop(len(self.accepted), None)) is not None:
                action()
            if name in self.unanswered:
                self.unanswered.remove(name)
                raise Unavailable("the answer was lost")
            return Submitted(array)

    def use_up_id(self, name: str) -> int:
        with self._called():
            return self._accept(Submission(name, "exec true", 1, None, 1, "", ""), held=True)

    def make_placeholder(self, job_id: int, name: str) -> None:
        with self._called():
            for job in self._of([job_id]):
                self.placeholders += 1
                job.submission, job.held, job.array = Submission(name, "exec true", 1, None, 1, "", ""), True, ""

    def cancel(self, job_ids: Iterable[int]) -> None:
        with self._called():
            for job in self._of(job_ids):
                if job.active:
                    self._finish(job, "removed", self.time.now())

    def cancel_named(self, name: str) -> None:
        self.cancel([job.id for job in self.named(name)])

    def hold(self, job_ids: Iterable[int]) -> None:
        with self._called():
            for job in self._of(job_ids):
                job.held = True

    def release(self, job_ids: Iterable[int]) -> None:
        with self._called():
            for job in self._of(job_ids):
                job.held = False

    def requeue(self, job_ids: Iterable[int]) -> None:
        with self._called():
            for job in self._of(job_ids):
                job.state, job.start = "waits", None
                self.requeued[job.id] += 1

    def requeues(self, job_id: int) -> int:
        with self._called():
            return self.requeued[job_id]

    def environment(self) -> Mapping[str, str]:
        return {"PATH": "/usr/bin:/bin"}

    def end_overdue(self, job_ids: Sequence[int], seconds: float) -> Sequence[int]:
        with self._called():
            left = [job for job in self._of(job_ids) if job.submission.name in self.left_running and job.state == "plays"]
            for job in left:
                self._finish(job, "done", self.time.now())
            return [job.id for job in left]

    def set_nodes(self, nodes: str, state: str, reason: str) -> None:
        self._change("nodes", nodes, state, reason)

    def reserve(self, name: str, words: str, zero: float) -> None:
        if any(change[:2] == ("reserve", name) for change in self.changes):
            raise Refused("reservation exists")
        self._change("reserve", name, words)

    def release_reservation(self, name: str) -> None:
        self._change("release", name)

    def change(self, kind: str, name: str, words: str) -> None:
        self._change("change", kind, name, words)

    def change_configuration(self, name: str) -> bool:
        if name == self.configuration:
            return False
        self.configuration = name
        self._change("configuration", name)
        return True

    def reconfigure(self) -> None:
        self._change("reconfigure", self.configuration)
        self.boot_time += self.restarts_to_reconfigure

    def _change(self, *words: str) -> None:
        with self._called():
            if words[1] in self.refused:
                raise Refused(f"{words[1]} is not known")
            self.changes.append(words)
        if words[1] in self.killed_after:
            self.killed_after.discard(words[1])
            raise KeyboardInterrupt

    def resize(self, job_id: int, nodes: int) -> None:
        raise Refused("there is one node only")

    def set_dependency(self, job_id: int, dependency: str) -> None:
        raise Refused("dependencies stay as they are")

    def queue(self, names: Sequence[str] = (), ended: bool = False) -> list[QueuedJob]:
        with self._called():
            chosen = (job for job in self.jobs if not names or (job.array or job.submission.name) in names)
            found = [_queued(job) for job in chosen if ended or job.active]
            return [replace(job, start=None) if job.name in self.startless else job for job in found]

    def jobs_by_state(self) -> dict[str, int]:
        return dict(Counter(job.state for job in self.jobs if job.active))

    def details(self, job_ids: Sequence[int], everything: bool = False) -> list[JobDetails]:
        with self._called():
            return [self.records.details(job.line()) for job in self._of(job_ids)]

    def completions_size(self) -> int:
        return self._path.stat().st_size

    def completions(self, offset: int) -> _Reader:
        return _Reader(self.records, self._path, offset)

    def nodes(self) -> Nodes:
        with self._called():
            busy = sum(job.submission.processors for job in self.jobs if job.state == "plays")
            group = "unknown" if self.time.now() < self._registered_at else "allocated" if busy else "idle"
            groups = {**dict.fromkeys(NODE_GROUPS, 0), group: 1}
            return Nodes({"present": 1}, groups, 0, int(group != "unknown"), self.processors, busy)

    def resume_nodes(self) -> str:
        return ""

    def open_partitions(self) -> list[str]:
        with self._called():
            return [PARTITION] if self.is_open else []

    def set_partitions(self, names: Iterable[str], *, are_open: bool) -> None:
        with self._called():
            assert list(names) == [PARTITION]
            self.is_open = are_open

    def _of(self, job_ids: Iterable[int]) -> list[Job]:
        wanted = set(job_ids)
        return [job for job in self.jobs if job.id in wanted or arrays.number(job.id) in wanted]


def _queued(job: Job) -> QueuedJob:
    state = {"waits": JobState.PENDING, "plays": JobState.RUNNING}.get(job.state, JobState.ENDED)
    start = None if job.start is None else int(job.start)
    return QueuedJob(job.id, state, start, job.submission.name, "?", job.held, job.submission.processors, job.number)
