"""Counts the complaints of slurmctld and slurmd during a run by kind, from their logs.

A line is `[time] error: text`, from slurmstepd `[time] [job.step] error: text`, and without that word at the level info. Texts are
those of Slurm 22.05. A count is of lines: one failure may be logged by both sides, and by several layers of one.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...base import user_folders
from ..evidence import NODE_DOWN, OTHER_COMPLAINT, START_FORGOTTEN, Complaint
from ..evidence import Span as Span
from . import second_controller

_LINE = re.compile(r"\[(?P<time>\d{4}-\d\d-\d\dT[\d:.]+)\] (?:\[[^\]]*\] )?(?P<error>(?:error|fatal): )?(?P<text>.*)")

LARGEST = 4 << 30
"""Bytes of a log that are read at most."""
LONGEST = 65536
"""Bytes of a line that are read at most."""
OTHER = OTHER_COMPLAINT
"""Kind of errors that have no other kind."""
_EXPECTED = re.compile(
    # The end of a job that was cancelled or reached its limit; a remark about the clock; advice that follows a complaint; that a
    # front end is no node, which slurmctld says six times of each job (docs/versions.md); that a new cluster saves its jobs for
    # the first time (lost ones are found by their record); that MaxJobCount jobs could not be saved, of which there are fewer;
    # that without slurmdbd there are no QOS (23.11 and 24.05, several times a job); and that MessageTimeout is long, which follows
    # the clock's speed: each daemon says so when it reads its file.
    r"\*\*\* (JOB|STEP) |high latency for 1000 calls|if munged is up, restart|check for out of sync clocks"
    r"|_find_node_record: lookup failure for node \"frontend\d|invalid batch host frontend\d"
    r"|could not open job state file|trying backup state save file\. jobs may be lost"
    r"|configured maxjobcount may lead to job_state being larger"
    # A second slurmctld in standby refuses what is meant for the one in charge, and the sender asks that.
    r"|invalid rpc received \w+ while in standby mode"
    r"|_refresh_assoc_mgr_qos_list: no new list given back|messagetimeout is too high for effective fault-tolerance",
    re.IGNORECASE,
)
# An error has the first kind whose expression is found in its text.
_ERRORS = {
    NODE_DOWN: r"nodes? \S+ not resp(onding)?, setting down",
    START_FORGOTTEN: r"registered pending jobid",
    "duplicate job id": r"duplicate jobid|do not launch second copy",
    "launch failed": (
        r"slurmd error running|killing non-startable|abort launch|launch failure|do not launch|could not confirm batch launch"
        r"|prolog failed|batch script setup failed|can not create job credential|slurmstepd (init )?failed|exec of slurmstepd"
        r"|step_rec_create\(\) failed"
    ),
    "munge": r"munge|authentication error|unauthenticated|auth_g_|credential sign",
    "refused connection": r"connection refused|connect(ion)? failure|unable to contact slurm controller",
    "connection cut": (
        r"zero bytes were|zero length message|connection reset|broken pipe|entire message|missing socket|transport endpoint"
        r"|message (send|receive) failure|connection aborted"
    ),
    "node silent": r"nodes? \S+ not responding|we were unable to forward",
    "sent again": r"retrying|resent",
    "time-out": r"timed[ -]?out|time-?out waiting|cycle took more than|waited too long",
}
# The same for lines that are not errors: expressions are looked for at the beginning of the text.
_REMARKS = {
    "launch failed": r"killing non-startable|batch jobid=\S+ missing from batch node|slurmd error running",
    "node failure": r"(\w+: )?requeue (job )?jobid=\S+ due to (failure of node|node failure)",
    "sent again": r"resending terminate_job|\s*retry_list|retrying job complete",
    "time-out": r"agent msg_type=\d+ ran for",
}
_ERROR_KINDS = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _ERRORS.items()}
_REMARK_KINDS = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _REMARKS.items()}
KINDS = (*dict.fromkeys((*_ERRORS, *_REMARKS)), OTHER)
"""All kinds."""
_NO_COMPLAINTS = re.compile(rb"\[[^\]]*\] (?:TRACE_JOBS: |debug|sched/backfill: )")
"""What lines of DebugFlags=TraceJobs and Backfill begin with since 20.11, and of levels below verbose. There are many of them."""


def kind_of(line: str) -> str | None:
    """The kind of the complaint on a line; None for any other line."""
    match = _LINE.match(line)
    if match is None:
        return None
    text = match["text"]
    if match["error"] is None:
        return next((kind for kind, pattern in _REMARK_KINDS.items() if pattern.match(text)), None)
    if _EXPECTED.search(text):
        return None
    return next((kind for kind, pattern in _ERROR_KINDS.items() if pattern.search(text)), OTHER)


def size(path: Path) -> int:
    """Bytes of a log; 0 if it is not there."""
    return path.stat().st_size if path.exists() else 0


def complaints(folder: Path, span: Span, offset: int = 0) -> Iterator[Complaint]:
    """The complaints in slurmctld.log, slurmctld2.log and the slurmd.NODE.log of `folder`, which are those of this host's daemons.

    slurmctld.log had `offset` bytes when the span began. Lines of the others, and the end of the span, are known by the lines' own
    time stamps, which are in UTC: the farm starts the daemons with TZ=UTC.
    """
    since = _stamp(span.virtual)
    until = None if span.until is None else _stamp(span.until + 1)
    if not folder.is_dir():
        return
    with user_folders.open_folder(folder.parent, folder.name) as logs:
        yield from _of(logs, "slurmctld.log", offset, "", until)
        for name in logs.names():
            # Most of thousands of logs have not been written to for long. File times are real time.
            if name == second_controller.LOG or (name.startswith("slurmd.") and name.endswith(".log")):
                status = logs.status(name)
                if status is not None and status.st_mtime >= span.real - 1:
                    yield from _of(logs, name, 0, since, until)


def of_instance(directory: Path, span: Span, offset: int = 0) -> Iterator[Complaint]:
    """The complaints of the daemons of the instance in `directory`."""
    return complaints(directory / "log", span, offset)


def by_kind(complained: Iterable[Complaint]) -> dict[str, int]:
    """Number of complaints of each kind."""
    counts = Counter(one.kind for one in complained)
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _of(logs: user_folders.Folder, name: str, offset: int, since: str, until: str | None) -> Iterator[Complaint]:
    for line in _lines(logs, name, offset):
        kind = kind_of(line)
        if kind is None:
            continue
        match = _LINE.match(line)
        assert match is not None
        if match["time"] >= since and (until is None or match["time"] < until):
            yield Complaint(kind, name, line)


def _stamp(virtual: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(virtual))


def _lines(logs: user_folders.Folder, name: str, offset: int) -> Iterator[str]:
    """The lines of a log as `raw_lines` has them, as text, without _NO_COMPLAINTS."""
    for line in raw_lines(logs, name, offset):
        if _NO_COMPLAINTS.match(line) is None:
            yield from line.decode(errors="replace").splitlines()


def raw_lines(logs: user_folders.Folder, name: str, offset: int) -> Iterator[bytes]:
    """The lines from `offset` on, or all if the file is shorter than that, because it was truncated; of LARGEST bytes at most."""
    try:
        descriptor = logs.open(name)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as stream:
        stream.seek(offset if offset <= os.fstat(descriptor).st_size else 0)
        left = LARGEST
        while (line := stream.readline(LONGEST)) and (left := left - len(line)) >= 0:
            yield line
