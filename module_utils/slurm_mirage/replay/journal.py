"""The journal of a replay.

journal.jsonl is only ever appended to, one JSON object a line, each on disk (fsync) before the replay goes on. A line that
was torn by a crash can only be the last one; it is dropped, and the job in it is found again by its name.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base import strict_json, user_folders
from ..base.errors import WrongUse
from ..base.strict_json import (
    COUNT,
    INSTANT,
    LENGTH,
    TEXT,
    Each,
    IfThere,
    Maybe,
    Named,
    NotStrict,
    Number,
    Object,
    Row,
    Shape,
    Text,
)
from ..jobs import arrays
from .actions import ENDED, KINDS, RESUBMITTED, START, Cancel, Event, Happen, Submit

_WIDTH = Object({"nodes": COUNT, "seconds": LENGTH, "error": LENGTH, "jobs": COUNT})
_LAUNCH_COST = Object({"narrow": Maybe(_WIDTH), "wide": Maybe(_WIDTH), "processors": Number(1e-6, 1e9), "reason": TEXT})
_COMPARED: dict[str, Shape] = dict.fromkeys(("stale", "surplus"), Each(Row((COUNT, COUNT))))
_MEMBERS: dict[str, dict[str, Shape]] = {
    START: {
        "boot_time": COUNT,
        "next_id": COUNT,
        "virtual": INSTANT,
        "completion_offset": COUNT,
        "controller_log_offset": COUNT,
        "plan_sha256": TEXT,
        "earlier_ids": Each(COUNT),
        "launch_cost": _LAUNCH_COST,
        # Of a run on an event clock.
        "outside": IfThere(INSTANT),
        "clock": IfThere(Named(Number())),
    },
    **{kind.event: kind.members for kind in KINDS},
    "event_began": {"index": COUNT, "seen": Maybe(COUNT), "outside": Maybe(INSTANT)},
    RESUBMITTED: Submit.members,
    ENDED: {"index": COUNT},
    "resumed": {"gap": LENGTH},
    "restarted": {"boot_time": COUNT, "since": INSTANT, "by_event": Maybe(COUNT)},
    "closed": {"partitions": Each(TEXT)},
    "opened": {},
    "halted": {"what": TEXT, "since": INSTANT},
    "removing": _COMPARED,
    "compared": _COMPARED,
    "finished": {},
    "stopped": {},
    "failed": {},
}
OF_SUBMISSIONS = [kind.event for kind in KINDS if kind.is_of_submission]
"""Kinds of the events of actions that another submission of their job undoes."""
EVENTS = {kind: Object({"real": INSTANT, **members}) for kind, members in _MEMBERS.items()}
"""The shapes of the events, by kind."""
_EVENT = Object({"event": Text(words=tuple(EVENTS))})


def event_in(line: bytes) -> Event:
    """The event on a line of a journal. Raises NotStrict."""
    event: Event = strict_json.parse(line, _EVENT)
    if fault := EVENTS[event["event"]].fault(event, ""):
        raise NotStrict(fault)
    return event


@dataclass
class History:
    """The state that a journal leads to. Instants are real seconds since the epoch, lengths real seconds."""

    start: Event | None = None
    job_ids: dict[int, int] = field(default_factory=dict)
    """The id that the resource manager has for each submitted job now, by index. The journal calls it slurm_id."""
    submitted_at: dict[int, float] = field(default_factory=dict)
    """When each job was submitted (the last time, if it was lost in between), by index."""
    lags: dict[int, float] = field(default_factory=dict)
    """How much later than due each job was accepted the first time, by index."""
    done: dict[str, set[int]] = field(default_factory=lambda: {kind.event: set() for kind in KINDS if kind is not Submit})
    """Indices of the actions that were carried out, by the kind of their event; `job_ids` has the submissions."""
    resubmitted: int = 0
    retries: int = 0
    shift: float = 0.0
    """By how much the interruptions so far moved the schedule."""
    interruptions: list[Event] = field(default_factory=list)
    restarts: list[Event] = field(default_factory=list)
    boot_time: int | None = None
    """Start of the controller that the journal was compared with last."""
    highest_id: int = 0
    """The highest id that a controller is known to have given to any job."""
    copies: set[int] = field(default_factory=set)
    """Ids of second copies of jobs, which were cancelled: their ends are not those of the jobs."""
    closed: list[str] = field(default_factory=list)
    """Partitions in which no job may start until the nodes have registered with a new controller."""
    halted: float = 0.0
    """For how long no job could start: a controller had died, until partitions were opened again, or did not answer (`halts`)."""
    halted_by_events: float = 0.0
    """The part of `halted` after an event of the run that ended the controller."""
    halts: list[Event] = field(default_factory=list)
    """For how long a controller that had not ended, or the replay itself, did nothing."""
    halted_since: float | None = None
    """The real instant from which on no job can start now; None if jobs can start."""
    halted_until: float = 0.0
    """The end of the last time that counts in `halted`: no second counts twice."""
    moved: set[int] = field(default_factory=set)
    """Indices of jobs whose id has changed, because the controller had lost them."""
    ended: dict[int, float] = field(default_factory=dict)
    """Real instants, without the shift until then, at which jobs ended that others follow, by index."""
    stale: set[int] = field(default_factory=set)
    """Indices of jobs whose end the controller forgot, and whose second run was cancelled: its record does not count."""
    events_began: dict[int, Event] = field(default_factory=dict)
    """The last beginning of each event of the run, by number."""
    events_done: dict[int, Event] = field(default_factory=dict)
    """The outcome of each event of the run, by number."""
    last_sign: float = 0.0
    finished: bool = False

    @property
    def cancelled(self) -> set[int]:
        """Indices of the jobs that were cancelled since their last submission."""
        return self.done[Cancel.event]

    def is_done(self, kind: str, index: int) -> bool:
        """Whether the action with this kind of event was carried out."""
        return index in (self.job_ids if kind == Submit.event else self.done[kind])

    def apply(self, event: Event) -> None:
        """Add the next event, which has its shape (EVENTS)."""
        kind = event["event"]
        if kind == START:
            self.start = event
            self.boot_time = event["boot_time"]
            self.highest_id = event["next_id"] - 1
        elif kind in (Submit.event, RESUBMITTED):
            index = event["index"]
            if self.job_ids.setdefault(index, event["slurm_id"]) != event["slurm_id"]:
                self.moved.add(index)
            self.job_ids[index] = event["slurm_id"]
            self.submitted_at[index] = event["real"]
            self.lags.setdefault(index, max(0.0, event["real"] - event["due"]))
            self.retries += event["retries"]
            self.resubmitted += kind == RESUBMITTED
            for other in OF_SUBMISSIONS:
                self.done[other].discard(index)
            self.highest_id = max(self.highest_id, arrays.number(event["slurm_id"]))
        elif kind == ENDED:
            self.ended.setdefault(event["index"], event["real"] - self.shift)
        elif kind in self.done:
            self.done[kind].add(event["index"])
            if kind == Happen.event:
                self.events_done[event["index"]] = event
        elif kind == "event_began":
            self.events_began[event["index"]] = event
        elif kind == "resumed":
            self.shift += event["gap"]
            self.interruptions.append(event)
        elif kind == "restarted":
            self.boot_time = event["boot_time"]
            self.restarts.append(event)
            if self.halted_since is not None:
                self.halted_since = min(self.halted_since, event["since"])
        elif kind == "closed":
            self.closed = event["partitions"]
            if self.closed and self.halted_since is None:
                self.halted_since = event["real"]
        elif kind == "opened":
            self.closed = []
            if self.halted_since is not None:
                seconds = event["real"] - self.halted_since
                self.halted += seconds
                if self.restarts and self.restarts[-1].get("by_event") is not None:
                    self.halted_by_events += seconds
                self.halted_since, self.halted_until = None, event["real"]
        elif kind == "halted":
            seconds = event["real"] - max(event["since"], self.halted_until)
            if self.halted_since is None and seconds > 0:
                self.halts.append({**event, "seconds": seconds})
                self.halted += seconds
                self.halted_until = event["real"]
        elif kind in ("removing", "compared"):
            self.stale.update(index for index, _ in event["stale"])
            self.copies.update(job_id for _, job_id in event["surplus"])
        elif kind == "finished":
            self.finished = True
        self.last_sign = max(self.last_sign, event["real"])


def replay_lines(data: bytes, name: str = "journal.jsonl") -> tuple[History, int]:
    """The history in the bytes of a journal, and how many of the bytes are whole lines.

    A last line without its end is dropped. Raises WrongUse with `name` and the line number for any other damage.
    """
    history = History()
    whole = data[: data.rfind(b"\n") + 1]
    for number, line in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            history.apply(event_in(line))
        except NotStrict as error:
            raise WrongUse(f"{name}:{number}: not a line of a journal ({error}); move the run's folder away") from error
        if history.start is None:
            raise WrongUse(f"{name}:{number}: a journal begins with its start event")
    return history, len(whole)


_LONGEST_START = 16 << 20
"""Bytes of the start event, which names the jobs that the cluster had before."""


def start_of(directory: Path, run: str) -> Event | None:
    """The start event in the journal of a run in the instance in `directory`, without reading the rest.

    None without a journal of a run that has begun. Raises WrongUse.
    """
    try:
        descriptor = user_folders.open_file(directory, f"runs/{run}/journal.jsonl")
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        return replay_lines(stream.readline(_LONGEST_START))[0].start


class Journal:
    """An open journal: its history, and appending to it. One process at a time may have it open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self.history, whole = replay_lines(_read_all(self._descriptor), str(path))
            os.ftruncate(self._descriptor, whole)
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, event: str, **values: Any) -> None:
        """Add an event; on return it is on disk and part of the history. Raises OSError, as on a full disk, with nothing added."""
        self.append_all([{"event": event, **values}])

    def append_all(self, events: Sequence[Event]) -> None:
        """As `append`, of several events: a process that is killed meanwhile leaves the first of them."""
        text = "".join(json.dumps(event) + "\n" for event in events).encode()
        size = os.fstat(self._descriptor).st_size
        if os.write(self._descriptor, text) != len(text):
            os.ftruncate(self._descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        os.fsync(self._descriptor)
        for event in events:
            self.history.apply(event)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        return stream.read()
