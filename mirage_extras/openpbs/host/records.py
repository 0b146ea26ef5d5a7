"""OpenPBS's record of jobs: the accounting log, the answers of `qstat -f -F json` kept with a run, and the scheduler's figures.

A line of the accounting log is `date time;TYPE;id.server;key=value ...` (PBS Reference Guide, accounting log). Instants in it are
seconds since the epoch of the server's clock; only the first word is local time, and the farm starts the server with TZ=UTC.
"""

from __future__ import annotations

import calendar
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ...base.numbers import MOST, whole_number
from ...rm.api import BACKFILL_DIAGNOSTICS, CompletedJob, DiagnosticMetric, JobDetails
from .collection import ConfiguredRecords

COMPLETIONS_FILE = "accounting.log"
DIAGNOSTICS_FILE = "pbs.csv"
DIAGNOSTICS = {
    "cycle_last_us": "backfill_last_cycle_us",
    "cycle_max_us": "backfill_max_cycle_us",
    "cycle_jobs": "backfill_last_depth",
    "queued_jobs": "backfill_queue_length",
    "cycles": "",
    "running_jobs": "",
}
"""Columns of the diagnostics, and which of BACKFILL_DIAGNOSTICS each is: length of the last and of the longest scheduling cycle in
virtual microseconds, jobs that the last one considered, jobs that wait, number of cycles, and jobs that run."""
WALLTIME_EXCEEDED = -29
"""Exit_status of a job that its time limit ended (job.h, JOB_EXEC_KILL_WALLTIME)."""
_MICRO = 1e-6
_WORD = re.compile(r"(?:^|(?<= ))([A-Za-z_][\w.]*)=")


class OpenPbsRecords(ConfiguredRecords):
    """The records of a run on OpenPBS."""

    completions_file = COMPLETIONS_FILE
    diagnostics_file = DIAGNOSTICS_FILE
    diagnostic_names: ClassVar[dict[str, str]] = {
        column: name for column, name in DIAGNOSTICS.items() if name in BACKFILL_DIAGNOSTICS
    }
    diagnostic_metrics = (
        DiagnosticMetric("cycle_last_seconds", "Length of the last cycle of the scheduler, virtual.", "cycle_last_us", _MICRO),
        DiagnosticMetric("cycle_max_seconds", "Length of the longest one so far, virtual.", "cycle_max_us", _MICRO),
        DiagnosticMetric("cycle_jobs", "Jobs that the last scheduling cycle considered.", "cycle_jobs"),
        DiagnosticMetric("queued_jobs", "Jobs that wait.", "queued_jobs"),
    )

    def completions(self, text: str) -> list[CompletedJob]:
        accounting = Accounting()
        return [job for line in text.split("\n")[:-1] if (job := accounting.read(line)) is not None]

    def details(self, record: Mapping[str, Any]) -> JobDetails:
        return JobDetails(
            record["job_id"], record["name"], record["state"], record["eligible"], record["start"], record["end"], None, record
        )


# ---- the accounting log ----


@dataclass
class Accounting:
    """Reads the accounting log line by line: the end of a job is understood with the lines before it."""

    _known: dict[str, dict[str, str]] = field(default_factory=dict)
    """The words of the jobs that were queued and have not ended, by their whole ids: those of an array have one number."""
    _running: set[str] = field(default_factory=set)
    _deleted: set[str] = field(default_factory=set)

    def read(self, line: str) -> CompletedJob | None:
        """The run of a job that ended by this line; None if none did."""
        parts = line.split(";", 3)
        if len(parts) != 4 or entry_number(parts[2]) is None:
            return None
        printed, kind, job_id, text = parts
        words = parse_words(text)
        if kind == "Q":
            self._known[job_id] = words
        elif kind == "S":
            self._running.add(job_id)
            self._known.setdefault(job_id, {}).update(words)
        elif kind == "D":
            self._deleted.add(job_id)
            if job_id not in self._running:
                return self._end(job_id, {"end": str(printed_instant(printed) or "")}, "CANCELLED", ran=False)
        elif kind == "A":
            # The server gave the job up: a waiting one because of its dependency.
            ran = job_id in self._running
            return self._end(job_id, {"end": str(printed_instant(printed) or "")}, "FAILED" if ran else "CANCELLED", ran=ran)
        elif kind == "R":
            return self._put_back(job_id, words)
        elif kind == "E":
            return self._end(job_id, words, self._state(job_id, words), ran=True)
        return None

    def _state(self, job_id: str, words: Mapping[str, str]) -> str:
        status = words.get("Exit_status", "")
        if status == str(WALLTIME_EXCEEDED):
            return "TIMEOUT"
        if job_id in self._deleted:
            return "CANCELLED"
        return "COMPLETED" if status == "0" else "FAILED"

    def _put_back(self, job_id: str, words: Mapping[str, str]) -> CompletedJob:
        """A run that ended because the job was put back in the queue."""
        known = {**self._known.get(job_id, {}), **words}
        self._running.discard(job_id)
        return _completed(job_id, known, "PENDING", ran=True)

    def _end(self, job_id: str, words: Mapping[str, str], state: str, *, ran: bool) -> CompletedJob:
        known = {**self._known.pop(job_id, {}), **words}
        self._running.discard(job_id)
        self._deleted.discard(job_id)
        return _completed(job_id, known, state, ran=ran)


def _completed(job_id: str, words: Mapping[str, str], state: str, *, ran: bool) -> CompletedJob:
    names = node_names(words.get("exec_host", "")) if ran else []
    return CompletedJob(
        job_id=entry_number(job_id) or 0,
        name=words.get("jobname", ""),
        state=state,
        ended_for_good=state != "PENDING",
        ran=ran,
        partition=words.get("queue"),
        nodes=len(names) or whole_number(words.get("Resource_List.nodect")),
        processors=whole_number(words.get("Resource_List.ncpus")),
        submit=whole_number(words.get("qtime")),
        eligible=whole_number(words.get("etime")) or None,
        start=whole_number(words.get("start")) if ran else None,
        end=whole_number(words.get("end")),
        user=words.get("user", ""),
        hosts=",".join(names),
        exit_code=whole_number(words.get("Exit_status"), least=-MOST),
    )


def parse_words(text: str) -> dict[str, str]:
    """`key=value key=value ...`; a value goes up to the next ` key=`."""
    keys = list(_WORD.finditer(text))
    ends = [match.start() - 1 for match in keys[1:]] + [len(text)]
    return {match[1]: text[match.end() : end].strip() for match, end in zip(keys, ends)}


def number_of(job: str) -> int | None:
    """The number of the job with this id, as in 123.pbs-head; None for an array's, a reservation's or no id."""
    number, _, _ = job.partition(".")
    return whole_number(number)


_ENTRY = re.compile(r"(\d+)(?:\[\d*\])?(?:\..*)?", re.ASCII)


def entry_number(job: str) -> int | None:
    """The number of the job, array or job of an array with this id, as in 123.pbs-head, 123[].pbs-head and 123[4].pbs-head."""
    match = _ENTRY.fullmatch(job)
    return whole_number(match[1]) if match else None


def node_names(hosts: str) -> list[str]:
    """Names of the nodes in an exec_host, such as n1/0*4+n2/1, each once, in its order."""
    return list(dict.fromkeys(part.partition("/")[0] for part in hosts.split("+") if part))


def printed_instant(word: str) -> int | None:
    """Seconds since the epoch of 11/23/2026 00:38:56 in UTC; None for anything else."""
    try:
        return calendar.timegm(time.strptime(word, "%m/%d/%Y %H:%M:%S"))
    except ValueError:
        return None


class AccountingLog:
    """The accounting log, read as it grows: each read goes on where the last ended.

    Only other runs can have queued jobs before `offset` that end after it: their names are empty.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self._offset = offset
        self._accounting = Accounting()

    def read(self) -> list[CompletedJob]:
        """The runs since the last call; a line that is still being written is left for the next."""
        try:
            with self._path.open("rb") as stream:
                if os.fstat(stream.fileno()).st_size < self._offset:
                    self._offset = 0  # the log was cleared
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        lines = whole.decode(errors="replace").split("\n")
        return [job for line in lines if (job := self._accounting.read(line)) is not None]
