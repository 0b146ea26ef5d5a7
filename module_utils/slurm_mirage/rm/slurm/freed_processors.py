"""When the processors of each job were free again, from slurmctld's log.

Slurm records a job's end when the job begins to complete. Other jobs can have its processors when the epilogs of all its nodes have
been reported. Until then the job is COMPLETING, and slurmctld starts no job on a node that still has such a job. slurmctld logs
both instants with DebugFlags=TraceJobs, in all releases from 16.05 to 26.05; since 20.11 only if SlurmctldDebug is verbose or above
(log_flag in src/common/log.h).

    [2026-11-22T10:17:36.137] TRACE_JOBS: deallocate_nodes: JobId=2       its end: EndTime is the second
    [2026-11-22T10:17:38.439] TRACE_JOBS: make_node_idle: enter JobId=2   for each of its nodes
    [2026-11-22T10:17:38.457] TRACE_JOBS: cleanup_completing: JobId=2     its processors are free

The time stamps are those of the cluster's clock in UTC, with milliseconds. There are 280 bytes for each job, and 150 for each of
its nodes, so the host reduces the log to freed.csv.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from ...base import csv_text, user_folders
from ...base.strict_json import COUNT, INSTANT
from ..api import Freed
from . import second_controller
from .array_words import id_of
from .daemon_log import raw_lines
from .log_words import JOB, STAMP, seconds_of

FREED_FILE = "freed.csv"
"""File in the folder of a run, with the columns job_id, ended and freed, in seconds since the epoch on the cluster's clock."""
COLUMNS = ("job_id", "ended", "freed")

_ENDED, _FREED = b"deallocate_nodes", b"cleanup_completing"
_STAMP = re.compile(rb"\[\d{4}-\d\d-\d\dT")
_STAMP_LENGTH = len("2026-11-22T10:17:36.137")
_LINE = re.compile(STAMP + rb" (?:TRACE_JOBS: )?(\w+):  ?" + JOB)


def instants_in_log(folder: Path, offset: int) -> dict[int, tuple[float, float]]:
    """End of each job and when its processors were free, by job id, from slurmctld.log in `folder` after its first `offset` bytes,
    and from the log of a second slurmctld since then.

    Of a job that ran several times it is the last run. Jobs that were completing when the log ended are left out.
    """
    if not folder.is_dir():
        return {}
    with user_folders.open_folder(folder.parent, folder.name) as logs:
        return _instants(_of_both(logs, offset))


def instants_of_second(folder: Path, since: float) -> dict[int, tuple[float, float]]:
    """As `instants_in_log`, from slurmctld2.log in `folder` only, since an instant (seconds since the epoch): for a host that has
    the second slurmctld, but not the first one."""
    if not (folder / second_controller.LOG).exists():
        return {}
    stamp = datetime.fromtimestamp(since, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S").encode()
    with user_folders.open_folder(folder.parent, folder.name) as logs:
        return _instants(_since(_of_jobs(raw_lines(logs, second_controller.LOG, 0)), stamp))


def _instants(lines: Iterable[re.Match[bytes]]) -> dict[int, tuple[float, float]]:
    """End of each job and when its processors were free, by job id, from matches of _LINE in the order of their time stamps."""
    ended: dict[int, float] = {}
    instants: dict[int, tuple[float, float]] = {}
    for match in lines:
        array, task, own_id = (word.decode() if word else "" for word in match.groups()[2:])
        job_id, instant = id_of(own_id, array, task), seconds_of(match[1])
        if match[2] == _ENDED and instant is not None:
            ended[job_id] = instant
            instants.pop(job_id, None)
        elif match[2] == _FREED and instant is not None and job_id in ended:
            instants[job_id] = (ended.pop(job_id), instant)
    return instants


def _of_both(logs: user_folders.Folder, offset: int) -> Iterator[re.Match[bytes]]:
    """The lines of both slurmctld since the beginning of the run that name an instant of a job, in order of their time stamps."""
    lines = raw_lines(logs, "slurmctld.log", offset)
    begin = next(filter(_STAMP.match, lines), None)
    if begin is None:
        return
    first, second = _of_jobs(itertools.chain([begin], lines)), _of_jobs(raw_lines(logs, second_controller.LOG, 0))
    yield from heapq.merge(first, _since(second, begin[1 : 1 + _STAMP_LENGTH]), key=lambda match: match[1])


def _since(matches: Iterable[re.Match[bytes]], stamp: bytes) -> Iterator[re.Match[bytes]]:
    """The lines from a time stamp on."""
    return (match for match in matches if match[1][: len(stamp)] >= stamp)


def _of_jobs(lines: Iterable[bytes]) -> Iterator[re.Match[bytes]]:
    return (match for line in lines if _ENDED in line or _FREED in line if (match := _LINE.match(line)) is not None)


def to_csv(instants: dict[int, tuple[float, float]]) -> str:
    """Content of FREED_FILE."""
    rows = ((job_id, f"{ended:.3f}", f"{freed:.3f}") for job_id, (ended, freed) in sorted(instants.items()))
    return csv_text.text([COLUMNS, *rows])


def read(folder: Path) -> Freed:
    """Read FREED_FILE in the folder of a run, in which those of several hosts follow each other. A damaged line is left out; of a
    job that has several lines the last end counts."""
    path = folder / FREED_FILE
    if not path.is_file():
        return Freed({}, f"the run has no {FREED_FILE}")
    instants: dict[int, tuple[float, float]] = {}
    for line in path.read_text(errors="replace").splitlines()[1:]:
        words = line.split(",")
        try:
            job_id, ended, freed = int(words[0]), float(words[1]), float(words[2])
        except (ValueError, IndexError):
            continue
        if not (COUNT.fault(job_id, "") or INSTANT.fault(ended, "") or INSTANT.fault(freed, "")):
            instants[job_id] = max(instants.get(job_id, (ended, freed)), (ended, freed))
    missing = "slurmctld's log does not tell: it needs SlurmctldDebug=verbose and DebugFlags=TraceJobs"
    return Freed(instants, "" if instants else missing)
