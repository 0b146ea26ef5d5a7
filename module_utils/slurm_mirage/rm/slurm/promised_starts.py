"""When Slurm said that waiting jobs would start: the plans of the backfill scheduler, from slurmctld's log.

A cycle logs, with DebugFlags=Backfill, each job for which it reserves nodes:

    [2026-11-22T10:17:36.137] sched/backfill: _dump_job_sched: JobId=7 to start at 2026-11-22T11:00:00, end at ...

The job has this StartTime in squeue until the next cycle. files/virtual_clock/log_lines.c says which cycles are written. The host
reduces them to promises.csv: the first plan of each job, and the first one of each hour after it. The log is the only record: a
cycle clears all StartTimes when it begins, and gives none to jobs that it does not reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...base import csv_text, user_folders
from .array_words import id_of
from .daemon_log import raw_lines
from .log_words import JOB, STAMP, seconds_of

PROMISES_FILE = "promises.csv"
"""File in the folder of a run with the columns COLUMNS: at the instant `virtual`, in seconds since the epoch on the cluster's
clock, the job was to start at `start`."""
COLUMNS = ("virtual", "job_id", "start")
HOUR = 3600.0

_WORDS = b" to start at "
_LINE = re.compile(STAMP + rb".*?" + JOB + rb".*? to start at (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d), end at ")


def promises_in_log(folder: Path, offset: int, since: float) -> list[tuple[str, int, int]]:
    """The rows of PROMISES_FILE in the order of the log, from slurmctld.log in `folder` after its first `offset` bytes, since the
    instant `since`. The tasks of an array that wait have none: the line is about one of them."""
    if not folder.is_dir():
        return []
    with user_folders.open_folder(folder.parent, folder.name) as logs:
        return list(_reduced(raw_lines(logs, "slurmctld.log", offset), since))


def _reduced(lines: Iterable[bytes], since: float) -> Iterator[tuple[str, int, int]]:
    first: dict[int, float] = {}
    hours: dict[int, int] = {}
    for line in lines:
        match = _LINE.match(line) if _WORDS in line else None
        instant = None if match is None else seconds_of(match[1])
        if match is None or instant is None or instant < since:
            continue
        array, task, own_id = (word.decode() if word else "" for word in match.groups()[1:4])
        start = seconds_of(match[5] + b".000")
        if start is None or match[0][match.end(4) - match.start() :].startswith(b"_"):
            continue
        job = id_of(own_id, array, task)
        hour = int((instant - first.setdefault(job, instant)) // HOUR)
        if hours.get(job) != hour:
            hours[job] = hour
            yield f"{instant:.3f}", job, int(start)


def to_csv(rows: Iterable[tuple[str, int, int]]) -> str:
    """Content of PROMISES_FILE."""
    return csv_text.text([COLUMNS, *rows])
