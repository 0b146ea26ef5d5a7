"""Why jobs waited by what slurmctld logs: the reason that its main scheduler gives a job, and whether backfilling reached it.

scheduler.log (SlurmSchedLogFile, SlurmSchedLogLevel=1) has a line for each job that a pass of the main scheduler tests:

    sched: [2026-11-22T10:17:36.137] JobId=7. State=PENDING. Reason=Resources. Priority=100. Partition=batch.

slurmctld.log has, with DebugFlags=Backfill and SlurmctldDebug=verbose, what a backfill cycle does, and with SlurmctldDebug=debug2
the limits of accounts, users and QOS that hold a job:

    [2026-11-22T10:17:36.137] sched/backfill: _attempt_backfill: BACKFILL: test for JobId=7 Prio=100 Partition=batch ...
    [2026-11-22T10:17:36.137] sched/backfill: _attempt_backfill: BACKFILL: bf_max_job_test: limit of 5 reached
    [2026-11-22T10:17:36.137] debug2: JobId=9 being held, the job is at or exceeds max jobs per-user limit 2 with 2 for QOS normal

Texts are those of 22.05 to 25.11 (backfill.c, job_scheduler.c, acct_policy.c). Of slurmctld.log only such lines are written, and of
those about the jobs of a cycle only as many as the submitted jobs allow (FORMATS). The host reduces them to their changes, in
reasons.csv. A look at the queue would have the same words, but an hour of the cluster's time
may pass between two looks, and a look is a request that slurmctld has to serve.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

from ...base import csv_text, user_folders
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

_HELD = b"being held, "
_PARTITION = (
    (b"requested down partition", "PartitionDown"),
    (b"requested inactive partition", "PartitionInactive"),
    (b"can't run in partition", "PartitionConfig"),
)
_IN_MAIN = re.compile(
    rb"ackfill: .*(?:beginning|completed testing|limit |reached end of|breaking out|have already checked|test for |Started JobI)"
    rb"|after current backfill window|being held, |_submit_batch_job: JobI|Allocate JobI|deallocate_nodes: JobI"
    rb"|requested (?:down|inactive) partition|can't run in partition"
)
"""What the lines of slurmctld.log have that are read: other lines of the backfill scheduler are many."""
FORMATS = """\
n:TRACE_JOBS
n:non-runnable
n:Time limit exhausted
n:Started %p
a:to start at %s, end at
o:%s: %s state is %s
s:InitPrio
h:being held,
h:requested down partition
h:requested inactive partition
h:can't run in partition
c:beginning
e:reached end of job queue
p:completed testing
p:limit of
p:breaking out
k:have already checked
w:after current backfill window
t:test for %p
r:equeu
r:prio_reserve of
"""
"""Words of the formats of lines that are read, here and in freed_processors.py, with their kinds: files/virtual_clock/log_lines.c,
which keeps slurmctld from writing most others."""
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
_SKIPPING = ("bf_max_job_part", "bf_max_job_user_part", "bf_max_job_assoc")
"""The settings of the groups of _SKIPPED."""
_NUMBERS = re.compile(r" (?:limit of |of |request |with |limit )?\d+(?![\d(]).*$")
_LEAD = re.compile(
    r"^(?:the job (?:is at or exceeds|request will exceed|is requesting more than allowed with) "
    r"|if allowed the job request will exceed |assoc \d+ is at or exceeds |the job request with assoc \d+ will exceed )"
)
"""Beginnings of the sentences about limits, which say nothing."""
_NUMBERED = re.compile(r"\bassoc (\d+) ")
_ASSOCIATION = re.compile(r"( for account \S+)? #(\d+)$")
"""An association by its number alone, in a sentence and after a reason."""


class _Says(Enum):
    """What a line says."""

    SUBMITTED = 0
    LEFT = 1
    """The job has left the queue."""
    REASON = 2
    """The reason of a job."""
    DEPTH = 3
    """A pass of the main scheduler ended before all jobs."""
    BEGIN = 4
    """A backfill cycle begins."""
    TESTED = 5
    """It tests a job."""
    SKIPPED = 6
    """It does not, because of a setting."""
    STOPPED = 7
    """It ends, because of a setting, or after all jobs."""
    COMPLETED = 8
    """It has ended."""


_Said = tuple[_Says, int, str]
"""What a line says, of which job, and its word."""


class _Jobs:
    """What is known of the waiting jobs, and the changes of it."""

    def __init__(self) -> None:
        self._waiting: set[int] = set()
        self._now: dict[tuple[int, str], str] = {}
        self._in_cycle = False
        self._stopped: str | None = None
        """The setting that ended the backfill cycle, empty for all jobs; None: not yet, or its time was over."""
        self._skipped: dict[int, str] = {}
        self._tested: set[int] = set()

    def take(self, says: _Says, job: int, word: str) -> Iterator[tuple[int, str, str]]:
        """Take what a line says into account; the changes: job, about, reason."""
        if says is _Says.TESTED:
            self._tested.add(job)
        elif says is _Says.REASON:
            self._waiting.add(job)
            yield from self._change(job, REASON, word)
        elif says is _Says.SUBMITTED:
            self._waiting.add(job)
        elif says is _Says.LEFT:
            self._waiting.discard(job)
            for about in (REASON, BACKFILL):
                self._now.pop((job, about), None)
        elif says is _Says.DEPTH:
            # Others are before the jobs that no pass has tested yet.
            for one in sorted(self._waiting):
                if (one, REASON) not in self._now:
                    yield from self._change(one, REASON, "Priority")
        elif says is _Says.BEGIN:
            self._in_cycle, self._stopped, self._skipped, self._tested = True, None, {}, set()
        elif says is _Says.SKIPPED:
            self._skipped[job] = word
        elif says is _Says.STOPPED:
            self._stopped = word
        elif self._in_cycle:
            self._in_cycle = False
            if self._stopped != "" and not self._tested:
                return  # which jobs it tested was not written: the next cycle tells
            stopped = "bf_max_time" if self._stopped is None else self._stopped
            for one in sorted(self._waiting):
                yield from self._change(one, BACKFILL, self._skipped.get(one, "" if one in self._tested else stopped))

    def _change(self, job: int, about: str, reason: str) -> Iterator[tuple[int, str, str]]:
        if self._now.get((job, about), "" if about == BACKFILL else None) != reason:
            self._now[job, about] = reason
            yield job, about, reason


def reasons_in_logs(
    folder: Path, offset: int, since: float, users: Mapping[int, str] | None = None
) -> Iterator[tuple[str, int, str, str]]:
    """The rows of REASONS_FILE in order of time, from the logs in `folder`: slurmctld.log after its first `offset` bytes, and
    scheduler.log since the instant `since`.

    users: users of associations by number; slurmctld names only the account of most
    """
    if not folder.is_dir():
        return
    known = _Jobs()
    with user_folders.open_folder(folder.parent, folder.name) as logs:
        scheduler = (line[len(b"sched: ") :] for line in _since(logs, SCHEDULER_LOG, since) if line.startswith(b"sched: "))
        main = filter(_IN_MAIN.search, raw_lines(logs, "slurmctld.log", offset))
        for stamp, says, job, word in heapq.merge(_said(main, _in_main), _said(scheduler, _in_scheduler), key=itemgetter(0)):
            instant = seconds_of(stamp)
            if instant is not None and instant >= since:
                for one, about, reason in known.take(says, job, word):
                    yield f"{instant:.3f}", one, about, _with_user(reason, users or {})


def _said(lines: Iterable[bytes], read: Callable[[bytes], _Said | None]) -> Iterator[tuple[bytes, _Says, int, str]]:
    """The time stamps of lines with what they say. Most lines are those of the pass before with other time stamps."""
    for line in lines:
        stamp = _STAMP.match(line)
        if stamp is not None and (said := read(line[stamp.end() :].rstrip())) is not None:
            yield stamp[1], *said


@lru_cache(maxsize=1 << 16)
def _in_scheduler(text: bytes) -> _Said | None:
    """What a line of scheduler.log says."""
    if b"already tested" in text:
        return _Says.DEPTH, 0, ""
    reason, job = _REASON.search(text), _job_of(text)
    return None if reason is None or job is None else (_Says.REASON, job, _short(reason[1].decode(errors="replace")))


@lru_cache(maxsize=1 << 16)
def _in_main(text: bytes) -> _Said | None:
    """What a line of slurmctld.log says."""
    if text.endswith((b"beginning", b"beginning.")):
        return _Says.BEGIN, 0, ""
    if b"completed testing" in text:
        return _Says.COMPLETED, 0, ""
    if (ended := next((setting for words, setting in _CYCLE_ENDS if words in text), None)) is not None:
        return _Says.STOPPED, 0, ended
    skipped = _SKIPPED.search(text)
    if (job := _job_of(text if skipped is None else text[skipped.end() :])) is None:
        return None
    if skipped is not None:
        named = (setting for setting, word in zip(_SKIPPING, skipped.groups()) if word)
        return _Says.SKIPPED, job, next(named, "bf_max_job_user")
    if b"after current backfill window" in text:
        return _Says.SKIPPED, job, "bf_window"
    if b"test for " in text:
        return _Says.TESTED, job, ""
    if b"_submit_batch_job: " in text:
        return _Says.SUBMITTED, job, ""
    if _HELD in text:
        sentence = text.partition(_HELD)[2].decode(errors="replace")
        number = _NUMBERED.search(sentence)
        return _Says.REASON, job, limit_of(sentence) + (f" #{number[1]}" if number else "")
    if (closed := next((reason for words, reason in _PARTITION if words in text), None)) is not None:
        return _Says.REASON, job, closed
    return _Says.LEFT, job, ""


def _job_of(text: bytes) -> int | None:
    """The job that a line names; the waiting tasks of an array as one with a minus."""
    match = _JOB.search(text)
    if match is None:
        return None
    array, task, own_id = (word.decode() if word else "" for word in match.groups())
    return -int(own_id) if text.startswith(b"_*", match.end()) else id_of(own_id, array, task)


def limit_of(sentence: str) -> str:
    """The limit in slurmctld's sentence about a job that is held by it, without the numbers, which change from pass to pass."""
    text = sentence.strip().replace("time limit ", "time limit of minutes ", 1) if sentence.startswith("time limit") else sentence
    text = _LEAD.sub("", text.strip())
    tail = re.search(r" for (?:QOS|account) \S+$", text)
    exceeds = re.search(r" exceeds (.*)", text)
    head = _NUMBERS.sub("", exceeds[1] if exceeds and text.startswith("time limit") else text)
    return _short(head + (tail[0] if tail else ""))


def _with_user(reason: str, users: Mapping[int, str]) -> str:
    """A reason with the user of its association, if it is a user's."""
    match = _ASSOCIATION.search(reason)
    if match is None:
        return reason
    user, account = users.get(int(match[2])), (match[1] or "").removeprefix(" for")
    whose = f" for user {user}{account and f' of{account}'}" if user else match[1] or ""
    return reason[: match.start()] + whose


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
    return csv_text.text([COLUMNS, *rows])


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
    # Without "group" slurmctld checks the association of the user, though it names the account (acct_policy.c).
    (r"AssocMax|max jobs for account |account max$|.* for user ", WaitWord.USER),
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
