"""Why jobs waited by what slurmctld logs: the reason that its main scheduler gives a job, and whether backfilling reached it.

scheduler.log (SlurmSchedLogFile, SlurmSchedLogLevel=1) has a line for each job that a pass of the main scheduler tests:

    sched: [2026-11-22T10:17:36.137] JobId=7. State=PENDING. Reason=Resources. Priority=100. Partition=batch.

slurmctld.log has, with DebugFlags=Backfill and SlurmctldDebug=verbose, what a backfill cycle does, and with SlurmctldDebug=debug2
the limits of accounts, users and QOS that hold a job:

    [2026-11-22T10:17:36.137] sched/backfill: _attempt_backfill: BACKFILL: test for JobId=7 Prio=100 Partition=batch ...
    [2026-11-22T10:17:36.137] sched/backfill: _attempt_backfill: BACKFILL: bf_max_job_test: limit of 5 reached
    [2026-11-22T10:17:36.137] debug2: JobId=9 being held, the job is at or exceeds max jobs per-user limit 2 with 2 for QOS normal

Texts are those of 22.05 to 25.11 (backfill.c, job_scheduler.c, acct_policy.c). The logs have lines for each job and cycle, so the
host reduces them to their changes, in reasons.csv. A look at the queue would have the same words, but an hour of the cluster's time
may pass between two looks, and a look is a request that slurmctld has to serve.
"""

from __future__ import annotations

import csv
import heapq
import io
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...base import user_folders
from ..evidence import WaitWord
from .array_words import id_of
from .daemon_log import raw_lines
from .log_words import JOB, STAMP, seconds_of

SCHEDULER_LOG = "scheduler.log"
"""SlurmSchedLogFile, in the folder of the logs."""
REASONS_FILE = "reasons.csv"
"""File in the folder of a run with the columns COLUMNS: since the instant `virtual`, in seconds since the epoch on the cluster's
clock, the job has this reason. `about` is REASON or BACKFILL, whose reason is the setting because of which no cycle reached the
job; empty: a cycle reached it. The tasks of an array that wait have the id of the array with a minus."""
COLUMNS = ("virtual", "job_id", "about", "reason")
REASON, BACKFILL = "reason", "backfill"
_LONGEST = 100

_SUBMITTED, _STARTED, _HELD = b"_submit_batch_job: ", b"llocate ", b"being held, "
_PARTITION = (
    (b"requested down partition", "PartitionDown"),
    (b"requested inactive partition", "PartitionInactive"),
    (b"can't run in partition", "PartitionConfig"),
)
_IN_MAIN = re.compile(
    rb"ackfill: |BACKFILL: |being held, |_submit_batch_job: JobI|Allocate JobI|deallocate_nodes: JobI|Started JobI"
    rb"|requested (?:down|inactive) partition|can't run in partition"
)
_JOB, _STAMP = re.compile(JOB), re.compile(STAMP)
_REASON = re.compile(rb"(?:\. |New-|scheduling )Reason=([^.]*)\.")
_SKIPPED = re.compile(rb"have already checked \d+ jobs for (?:(partition)|user \d+(?: on (partition)|, (assoc))?)")
_CYCLE_ENDS = (
    (b"bf_max_job_test: limit", "bf_max_job_test"),
    (b"bf_max_job_start limit", "bf_max_job_start"),
    (b"table size limit", "bf_node_space_size"),
    (b"system state changed, breaking out", "bf_continue"),
    (b"reached end of job queue", ""),
)
"""Why a cycle ended, and the setting for it."""
_BEYOND_WINDOW = (b"after current backfill window",)
_NUMBERS = re.compile(r" (?:limit of |of |request |with |limit )?\d+(?![\d(]).*$")
_LEAD = re.compile(
    r"^(?:the job (?:is at or exceeds|request will exceed|is requesting more than allowed with) "
    r"|if allowed the job request will exceed |assoc \d+ is at or exceeds |the job request with assoc \d+ will exceed )"
)
"""Beginnings of the sentences about limits, which say nothing."""


class _Jobs:
    """What is known of the waiting jobs, and the changes of it."""

    def __init__(self) -> None:
        self.waiting: set[int] = set()
        self._now: dict[tuple[int, str], str] = {}
        self._stopped: str | None = None
        """Why the backfill cycle has ended that is under way; None: not yet."""
        self._unreached: dict[int, str] = {}
        self._tested: set[int] = set()
        self._in_cycle = False

    def submitted(self, job: int) -> None:
        self.waiting.add(job)

    def left(self, job: int) -> None:
        self.waiting.discard(job)
        for about in (REASON, BACKFILL):
            self._now.pop((job, about), None)

    def said(self, job: int, reason: str) -> Iterator[tuple[int, str, str]]:
        self.waiting.add(job)
        yield from self._change(job, REASON, reason)

    def depth_reached(self) -> Iterator[tuple[int, str, str]]:
        """A pass of the main scheduler ended before all jobs: the others are before those that it has never tested."""
        for job in sorted(self.waiting):
            if (job, REASON) not in self._now:
                yield from self._change(job, REASON, "Priority")

    def backfill(self, line: bytes) -> Iterator[tuple[int, str, str]]:
        """A line of the backfill scheduler."""
        if line.endswith((b"beginning", b"beginning.")):
            self._in_cycle, self._stopped, self._unreached, self._tested = True, None, {}, set()
        elif b"test for " in line:
            self._tested.update(_jobs_of(line))
        elif (skipped := _SKIPPED.search(line)) is not None:
            words = (b"bf_max_job_part", b"bf_max_job_user_part", b"bf_max_job_assoc")
            name = next((name for name, word in zip(words, skipped.groups()) if word), b"bf_max_job_user").decode()
            self._unreached.update(dict.fromkeys(_jobs_of(line[skipped.end() :]), name))
        elif any(text in line for text in _BEYOND_WINDOW):
            self._unreached.update(dict.fromkeys(_jobs_of(line), "bf_window"))
        elif b"completed testing" in line:
            yield from self._cycle_completed()
        else:
            found = [name for text, name in _CYCLE_ENDS if text in line]
            self._stopped = found[0] if found else self._stopped

    def _cycle_completed(self) -> Iterator[tuple[int, str, str]]:
        if not self._in_cycle:
            return
        # Without a word about the end, the time was over.
        stopped = "bf_max_time" if self._stopped is None else self._stopped
        for job in sorted(self.waiting):
            reached = job in self._tested
            yield from self._change(job, BACKFILL, self._unreached.get(job, "" if reached else stopped))
        self._in_cycle = False

    def _change(self, job: int, about: str, reason: str) -> Iterator[tuple[int, str, str]]:
        if self._now.get((job, about), "" if about == BACKFILL else None) != reason:
            self._now[job, about] = reason
            yield job, about, reason


def reasons_in_logs(folder: Path, offset: int, since: float) -> Iterator[tuple[str, int, str, str]]:
    """The rows of REASONS_FILE in order of time, from the logs in `folder`: slurmctld.log after its first `offset` bytes, and
    scheduler.log since the instant `since`."""
    if not folder.is_dir():
        return
    known = _Jobs()
    with user_folders.open_folder(folder.parent, folder.name) as logs:
        said = ((line[len(b"sched: ") :], True) for line in _since(logs, SCHEDULER_LOG, since) if line.startswith(b"sched: ["))
        main = ((line, False) for line in raw_lines(logs, "slurmctld.log", offset) if _IN_MAIN.search(line) and line[:1] == b"[")
        for line, is_said in heapq.merge(main, said, key=lambda one: one[0][: len("[2026-11-22T10:17:36.137]")]):
            stamp = _STAMP.match(line)
            instant = None if stamp is None else seconds_of(stamp[1])
            if stamp is None or instant is None or instant < since:
                continue
            for row in _changes(known, line.rstrip(), is_said):
                yield f"{instant:.3f}", *row


def _changes(known: _Jobs, line: bytes, is_said: bool) -> Iterator[tuple[int, str, str]]:
    if is_said:
        if b"already tested" in line:
            yield from known.depth_reached()
        elif (reason := _REASON.search(line)) is not None:
            for job in _jobs_of(line):
                yield from known.said(job, _short(reason[1].decode(errors="replace")))
    elif _SUBMITTED in line:
        for job in _jobs_of(line):
            known.submitted(job)
    elif _STARTED in line or b"Started JobI" in line or b"deallocate_nodes" in line:
        for job in _jobs_of(line):
            known.left(job)
    elif _HELD in line:
        for job in _jobs_of(line):
            yield from known.said(job, limit_of(line.partition(_HELD)[2].decode(errors="replace")))
    elif (closed := next((reason for text, reason in _PARTITION if text in line), None)) is not None:
        for job in _jobs_of(line):
            yield from known.said(job, closed)
    else:
        yield from known.backfill(line)


def _jobs_of(line: bytes) -> list[int]:
    """The job that a line names; the waiting tasks of an array as one with a minus."""
    match = _JOB.search(line)
    if match is None:
        return []
    array, task, own_id = (word.decode() if word else "" for word in match.groups())
    if line[match.end() : match.end() + 2] == b"_*":
        return [-int(own_id)]
    return [id_of(own_id, array, task)]


def limit_of(sentence: str) -> str:
    """The limit in slurmctld's sentence about a job that is held by it, without the numbers, which change from pass to pass."""
    text = sentence.strip().replace("time limit ", "time limit of minutes ", 1) if sentence.startswith("time limit") else sentence
    text = _LEAD.sub("", text.strip())
    tail = re.search(r" for (?:QOS|account) \S+$", text)
    exceeds = re.search(r" exceeds (.*)", text)
    head = _NUMBERS.sub("", exceeds[1] if exceeds and text.startswith("time limit") else text)
    return _short(head + (tail[0] if tail else ""))


def _short(text: str) -> str:
    return " ".join(text.replace(",", " ").split())[:_LONGEST]


def _since(logs: user_folders.Folder, name: str, since: float) -> Iterator[bytes]:
    """The lines of scheduler.log from about an instant on: its lines are in order of time."""
    try:
        descriptor = logs.open(name)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as stream:
        low, high = 0, os.fstat(descriptor).st_size
        while high - low > 1 << 16:
            middle = (low + high) // 2
            stream.seek(middle)
            stream.readline()
            stamp = next((match for _ in range(100) if (match := _STAMP.search(stream.readline(256)))), None)
            instant = None if stamp is None else seconds_of(stamp[1])
            low, high = (low, middle) if instant is None or instant >= since else (middle, high)
    yield from raw_lines(logs, name, low)


def to_csv(rows: Iterable[tuple[str, int, str, str]]) -> str:
    """Content of REASONS_FILE."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return stream.getvalue()


# ---- the reasons in neutral words ----

_WORDS = {
    "None": WaitWord.UNTESTED,
    "Priority": WaitWord.AHEAD,
    "Resources": WaitWord.NO_ROOM,
    "Dependency": WaitWord.DEPENDENCY,
    "DependencyNeverSatisfied": WaitWord.DEPENDENCY,
    "BeginTime": WaitWord.BEGIN,
    "JobHeldAdmin": WaitWord.HELD,
    "JobHeldUser": WaitWord.HELD,
    "JobHoldMaxRequeue": WaitWord.HELD,
    "launch failed requeued held": WaitWord.HELD,
    "JobArrayTaskLimit": WaitWord.ARRAY,
    "Licenses": WaitWord.LICENCE,
    "Reservation": WaitWord.RESERVATION,
    "Required nodes are reserved": WaitWord.RESERVATION,
    "ReservationDeleted": WaitWord.RESERVATION,
    "ReservationInvalid": WaitWord.RESERVATION,
    "ReqNodeNotAvail May be reserved for other job": WaitWord.RESERVATION,
    "ReqNodeNotAvail Reserved for maintenance": WaitWord.RESERVATION,
    "NodeDown": WaitWord.NODES,
    "PartitionDown": WaitWord.PARTITION,
    "PartitionInactive": WaitWord.PARTITION,
    "AccountNotAllowed": WaitWord.ACCOUNT,
    "AccountingPolicy": WaitWord.ACCOUNT,
    "MaxMemPerLimit": WaitWord.PARTITION,
}
_FORMS = (
    # The nodes that a job needs may be busy, reserved, or out of service: the state of the machine says which.
    (r"Nodes required for job are DOWN", WaitWord.NO_ROOM),
    (r"ReqNodeNotAvail", WaitWord.NODES),
    (r"QOS.*PerUser|Max.*PerUser|.*\bper[- ]user\b|.*\buser max\b", WaitWord.USER),
    (r"QOS.*PerAccount|Max.*PerAccount|.*\bper[- ]acc(oun)?t\b|.*\baccount max\b", WaitWord.ACCOUNT),
    (r".*QOS", WaitWord.QOS),
    (r"assoc \d+\([^/]*/(?!\(null\)/)[^/]", WaitWord.USER),
    (r"Assoc|Job is at or exceeds association|assoc |.*\baccount\b", WaitWord.ACCOUNT),
    (r"Partition", WaitWord.PARTITION),
)
"""Beginnings of others, the first one that fits."""


def wait_word(reason: str) -> WaitWord:
    """The neutral word for a reason, one of slurmctld's words or of `limit_of`; without commas."""
    if (word := _WORDS.get(reason)) is not None:
        return word
    return next((word for form, word in _FORMS if re.match(form, reason)), WaitWord.UNKNOWN)
