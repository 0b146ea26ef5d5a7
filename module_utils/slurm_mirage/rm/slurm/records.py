"""Slurm's records of jobs: the lines of the plugin jobcomp/filetxt, the details of `scontrol show job`, and the figures of sdiag.

Tried with Slurm 16.05 to 26.05 (docs/versions.md). jobcomp/filetxt writes instants in the controller's local time, without its
zone: here they are seconds since the epoch as if that zone were UTC.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ...base.numbers import whole_number
from ..api import BACKFILL_DIAGNOSTICS, NOT_ENDED, CompletedJob, DiagnosticMetric, Freed, JobDetails, Records
from ..evidence import Layout, Names, Scheduling, WaitWord
from . import clock_settings, freed_processors
from . import layout as conf_layout
from .array_words import id_of, name_of
from .wait_reasons import wait_word

COMPLETIONS_FILE = "jobcomp.log"
DIAGNOSTICS_FILE = "sdiag.csv"
CONFIGURATION_FILE = "scontrol.txt"
"""The answer of `scontrol show config`, in the folder of a run."""

ENDED_FOR_GOOD = frozenset({"COMPLETED", "TIMEOUT", "CANCELLED", "DEADLINE"})
"""States after which Slurm itself never runs a job again. After a node failure or a preemption it may."""

DIAGNOSTICS = {
    "server_threads": ("", "Server thread count"),
    "agent_queue": ("", "Agent queue size"),
    "jobs_submitted": ("", "Jobs submitted"),
    "jobs_started": ("", "Jobs started"),
    "jobs_completed": ("", "Jobs completed"),
    "jobs_canceled": ("", "Jobs canceled"),
    "jobs_failed": ("", "Jobs failed"),
    "main_last_cycle_us": ("Main", "Last cycle"),
    "main_max_cycle_us": ("Main", "Max cycle"),
    "main_queue_length": ("Main", "Last queue length"),
    "bf_last_cycle_us": ("Backfilling", "Last cycle"),
    "bf_max_cycle_us": ("Backfilling", "Max cycle"),
    "bf_last_depth": ("Backfilling", "Last depth cycle"),
    "bf_queue_length": ("Backfilling", "Last queue length"),
    "bf_last_cycle_when": ("Backfilling", "Last cycle when"),
    "data_since": ("", "Data since"),
}
"""Columns taken from sdiag, each with the part of its answer (the heading's first word) and the line."""
BACKFILL = dict(zip(("bf_last_cycle_us", "bf_max_cycle_us", "bf_last_depth", "bf_queue_length"), BACKFILL_DIAGNOSTICS))

_MICRO = 1e-6
_FIELD = re.compile(r"(?:^|(?<= ))([A-Z][A-Za-z/:]*)=")
# A whole line ends with the exit code, before Slurm 17.11 with the folder and a blank.
_WHOLE_LINE = re.compile(r" ExitCode=| WorkDir=\S* $")
CUT_AT = 1023
"""Bytes after which jobcomp/filetxt before Slurm 24.05.2 cuts a line off, with its end of line: the next line follows at once. A
job on many nodes without neighbours has such a line, because of the names of its nodes."""


NAMES = Names(
    manager="Slurm",
    controller="slurmctld",
    node_daemon="slurmd",
    record="jobcomp",
    hosts="NodeList in jobcomp.log",
    cycle="backfill cycle",
    diagnostics="sdiag",
    return_nodes="`scontrol update NodeName=NAMES State=RESUME`; `sinfo -R` has the names",
    cycle_pause="bf_yield_interval",
)
LOOP = 1.0
"""Virtual seconds between two passes of slurmctld's loop, which starts the batch jobs that have become able to start."""
LIMIT_CHECK = 60.0
"""Virtual seconds that Slurm may need to kill a job at its limit: limits are checked every 30 s, and a job that does not end by
itself is killed after KillWait, 30 s."""


class SlurmRecords(Records):
    """The records of a run on Slurm."""

    completions_file = COMPLETIONS_FILE
    diagnostics_file = DIAGNOSTICS_FILE
    diagnostic_names = BACKFILL
    diagnostic_metrics = (
        DiagnosticMetric(
            "backfill_last_cycle_seconds", "Length of the last backfill cycle, on the cluster's clock.", "bf_last_cycle_us", _MICRO
        ),
        DiagnosticMetric(
            "backfill_max_cycle_seconds", "The same of the longest cycle since slurmctld's start.", "bf_max_cycle_us", _MICRO
        ),
        DiagnosticMetric("backfill_depth_jobs", "Jobs that the last backfill cycle looked at.", "bf_last_depth"),
        DiagnosticMetric("backfill_queue_jobs", "Jobs that waited when the last backfill cycle began.", "bf_queue_length"),
        DiagnosticMetric(
            "main_last_cycle_seconds",
            "Length of the main scheduler's last cycle, on the cluster's clock.",
            "main_last_cycle_us",
            _MICRO,
        ),
        DiagnosticMetric("controller_threads", "Threads in which slurmctld answers requests.", "server_threads"),
        DiagnosticMetric("controller_agent_queue", "Messages that slurmctld has yet to send to nodes.", "agent_queue"),
    )

    def completions(self, text: str) -> list[CompletedJob]:
        records, length = split_completions(text.encode())
        rest = text.encode()[length:].decode()
        jobs = [*records, CompletionRecord(rest)]
        return [job for one in jobs if one.is_cut or _WHOLE_LINE.search(one.text) if (job := one.job()) is not None]

    def details(self, record: Mapping[str, Any]) -> JobDetails:
        return details_of(record)

    def freed(self, folder: Path) -> Freed:
        return freed_processors.read(folder)

    names = NAMES
    configuration_file = conf_layout.FILE

    def configuration(self, folder: Path) -> str:
        return configuration_of(folder)

    def scheduling(self, configuration: str) -> Scheduling:
        does_backfill, interval = backfills(configuration), backfill_interval(configuration)
        return Scheduling(
            version=version_in(configuration),
            backfills=does_backfill,
            by_submission=by_submission(configuration),
            has_cycles=bool(configuration) and does_backfill,
            start_delay=batch_delay(configuration),
            longest_hold=backfill_hold(configuration) if does_backfill else 0.0,
            # A cycle may take as long as the pause between two cycles.
            bounds={} if interval is None else {"backfill_cycle_seconds": interval},
        )

    def wait_word(self, reason: str) -> WaitWord:
        return wait_word(reason)

    def over_limit(self, configuration: str, speed: float) -> float:
        return LIMIT_CHECK + clock_settings.over_time_limit(configuration, speed)

    def layout(self, folder: Path) -> Layout | None:
        path = folder / conf_layout.FILE
        return conf_layout.parse_layout(path.read_text(errors="replace")) if path.is_file() else None


# ---- jobcomp/filetxt ----


@dataclass(frozen=True)
class CompletionRecord:
    """What the completion log has of one run of a job: a line without its end. is_cut: only its first CUT_AT bytes."""

    text: str
    is_cut: bool = False

    def job(self) -> CompletedJob | None:
        """The run; None for anything else. In a record that was cut off, the last word and all later ones are unknown."""
        words = parse_words(self.text)
        if self.is_cut and words and (last := list(words)[-1]) != "NodeList":
            del words[last]
        return _completed(words)


def split_completions(data: bytes) -> tuple[list[CompletionRecord], int]:
    """The records in the bytes of a completion log, and how many of the bytes these are: the rest is still being written."""
    records, first = [], 0
    while first < len(data):
        end = data.find(b"\n", first)
        text = data[first : len(data) if end < 0 else end]
        is_cut = (len(text) == CUT_AT and end < 0) or text.startswith(b"JobId=", CUT_AT)
        if end < 0 and not is_cut:
            break
        records.append(CompletionRecord(text[: CUT_AT if is_cut else None].decode(errors="replace"), is_cut))
        first += CUT_AT if is_cut else len(text) + 1
    return records, first


def parse_completed(line: str) -> CompletedJob | None:
    """One line of the completion log; None for anything else."""
    return _completed(parse_words(line))


def _completed(words: Mapping[str, str]) -> CompletedJob | None:
    if not {"JobId", "Name", "JobState"} <= words.keys() or whole_number(words["JobId"]) is None:
        return None
    array, task = words.get("ArrayJobId", ""), words.get("ArrayTaskId", "")
    return CompletedJob(
        job_id=id_of(words["JobId"], array, task),
        name=name_of(words["Name"], task),
        state=words["JobState"],
        ended_for_good=words["JobState"] in ENDED_FOR_GOOD,
        # Slurm prints a start for a job that was cancelled while it waited, although it never started.
        ran=words.get("NodeList", "") not in ("(null)", ""),
        partition=words.get("Partition"),
        nodes=whole_number(words.get("NodeCnt")),
        processors=whole_number(words.get("ProcCnt")),
        submit=_printed_instant(words.get("SubmitTime", "")),
        eligible=_printed_instant(words.get("EligibleTime", "")),
        start=_printed_instant(words.get("StartTime", "")),
        end=_printed_instant(words.get("EndTime", "")),
        user=words.get("UserId", "").partition("(")[0],
        hosts=words.get("NodeList", ""),
        exit_code=whole_number(words.get("ExitCode", "").partition(":")[0]),
    )


def parse_words(line: str) -> dict[str, str]:
    """`Key=value Key=value ...`, as scontrol -o and jobcomp/filetxt write; a value goes up to the next ` Key=`."""
    keys = list(_FIELD.finditer(line))
    ends = [match.start() - 1 for match in keys[1:]] + [len(line)]
    return {match[1]: line[match.end() : end].strip() for match, end in zip(keys, ends)}


def _printed_instant(word: str) -> int | None:
    """Seconds of 2026-11-20T18:57:09; None for Unknown, None and N/A."""
    if len(word) != len("2026-11-20T18:57:09"):
        return None
    try:
        return int(datetime.fromisoformat(word).replace(tzinfo=timezone.utc).timestamp())
    except ValueError:
        return None


class CompletionLog:
    """The completion log, read as it grows: each read goes on where the last ended."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self._offset = offset

    def read(self) -> list[CompletedJob]:
        """The records since the last call; one that is still being written is left for the next."""
        try:
            with self._path.open("rb") as stream:
                if os.fstat(stream.fileno()).st_size < self._offset:
                    self._offset = 0  # the log was rotated or cleared
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return []
        records, length = split_completions(data)
        self._offset += length
        return [job for one in records if (job := one.job()) is not None]


# ---- scontrol show job ----


def parse_details(text: str) -> list[JobDetails]:
    """Answer of `scontrol -o show job`: the details of each job in it."""
    return [details_of(_record(parse_words(line))) for line in text.splitlines() if line.startswith("JobId=")]


def _record(words: Mapping[str, str]) -> dict[str, str | int | None]:
    """A line of suspended.jsonl; instants are seconds since the epoch or None."""
    task = words.get("ArrayTaskId", "")
    return {
        "slurm_id": id_of(words["JobId"], words.get("ArrayJobId", ""), task),
        "name": name_of(words["JobName"], task),
        "state": words["JobState"].split(",")[0],
        "reason": words.get("Reason", ""),
        "restarts": int(words.get("Restarts", "0")),
        "priority": int(words.get("Priority", "0")),
        "partition": words.get("Partition", ""),
        "nodes": int(words.get("NumNodes", "0").split("-")[0]),
        "node_list": words.get("NodeList", ""),
        "cpus": int(words.get("NumCPUs", "0").split("-")[0]),
        "exit_code": words.get("ExitCode", ""),
        "submit": whole_number(words.get("SubmitTime")),
        "eligible": whole_number(words.get("EligibleTime")),
        "start": whole_number(words.get("StartTime")),
        "end": whole_number(words.get("EndTime")),
        "suspend_time": whole_number(words.get("SuspendTime")),
        "secs_pre_suspend": int(words.get("SecsPreSuspend", "0")),
        "run_time": seconds(words.get("RunTime", "00:00:00")),
    }


def details_of(record: Mapping[str, Any]) -> JobDetails:
    """The details of a line of suspended.jsonl. Raises KeyError or TypeError for anything else.

    SuspendTime is the instant of the last suspend or resume and SecsPreSuspend the execution before it, so a job that was resumed
    and has ended was suspended for SuspendTime - StartTime - SecsPreSuspend (tried with 22.05).
    """
    start, end, suspend = record.get("start"), record.get("end"), record.get("suspend_time")
    suspended = None
    if record["state"] not in NOT_ENDED and start is not None:
        before = record.get("secs_pre_suspend")
        suspended = 0 if suspend is None or before is None else suspend - start - before
    return JobDetails(
        job_id=record["slurm_id"],
        name=record["name"],
        state=record["state"],
        eligible=record.get("eligible"),
        start=start,
        end=end,
        suspended=suspended,
        record=record,
    )


ACCOUNTED_FORMAT = "JobID,JobIDRaw,JobName,State,Eligible,Start,End"


def parse_accounted(text: str) -> list[JobDetails]:
    """Answer of `sacct --noheader --parsable2` in ACCOUNTED_FORMAT with instants as numbers: the jobs that have ended."""
    jobs = []
    for line in text.splitlines():
        words = line.split("|")
        if len(words) == 7 and whole_number(words[1]) is not None and (state := words[3].split(" ")[0]) not in NOT_ENDED:
            array, _, task = words[0].partition("_")
            eligible, start, end = (whole_number(word) for word in words[4:])
            job_id, name = id_of(words[1], array, task), name_of(words[2], task)
            record = {"slurm_id": job_id, "name": name, "state": state, "eligible": eligible, "start": start, "end": end}
            jobs.append(details_of(record))
    return jobs


_LENGTH = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", re.ASCII)


def seconds(text: str) -> int | None:
    """Seconds of Slurm's [DAYS-][HOURS:]MINUTES:SECONDS; None for other words: UNLIMITED, or INVALID for a length below 0."""
    match = _LENGTH.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


# ---- scontrol show config ----


def configuration_of(folder: Path) -> str:
    """The answer of `scontrol show config` during the run in `folder`; empty if it is not there."""
    path = folder / CONFIGURATION_FILE
    return path.read_text(errors="replace") if path.is_file() else ""


def version_in(configuration: str) -> str | None:
    """Slurm's version in an answer of `scontrol show config`."""
    match = re.search(r"^SLURM_VERSION\s*=\s*(\S+)", configuration, re.MULTILINE)
    return match[1] if match else None


def _setting(configuration: str, name: str, value: str = r"\s*(\S+)") -> str | None:
    """The last value of a setting in a slurm.conf or an answer of `scontrol show config`, in whatever case its name is; None: it is
    not there. value: expression of what follows the equals sign, with the value as its group"""
    values = re.findall(rf"^{name}\s*={value}", configuration, re.MULTILINE | re.IGNORECASE)
    return values[-1] if values else None


def _parameter(configuration: str, name: str) -> float | None:
    """The number of a word of SchedulerParameters, as in `bf_interval=30`; None: it is not there."""
    value = _setting(configuration, "SchedulerParameters", rf".*\b{name}=(\d+)")
    return None if value is None else float(value)


def backfill_interval(configuration: str) -> float | None:
    """Seconds between two backfill cycles (bf_interval); None: not set."""
    return _parameter(configuration, "bf_interval")


def backfills(configuration: str) -> bool:
    """Whether the scheduler backfills (SchedulerType)."""
    return (_setting(configuration, "SchedulerType") or "").lower() != "sched/builtin"


def by_submission(configuration: str) -> bool:
    """Whether jobs wait in order of submission (PriorityType; Slurm 22.05's own default is priority/basic)."""
    return (_setting(configuration, "PriorityType") or "priority/basic").lower() == "priority/basic"


def backfill_hold(configuration: str) -> float:
    """Seconds after which a backfill cycle pauses (bf_yield_interval, in microseconds; Slurm's default is 2 s). Until then it holds
    slurmctld's locks: no message of a launch or an end is handled."""
    microseconds = _parameter(configuration, "bf_yield_interval")
    return 2.0 if microseconds is None else microseconds / 1_000_000


def batch_delay(configuration: str) -> float:
    """Seconds for which the start of a batch job may be put off: batch_sched_delay (Slurm's default is 3), and until slurmctld's
    loop, which makes a pass each second, reaches it (_slurmctld_background in Slurm's controller.c)."""
    delay = _parameter(configuration, "batch_sched_delay")
    return (3.0 if delay is None else delay) + LOOP


# ---- sdiag ----


def parse_diagnostics(text: str) -> dict[str, int | None]:
    """Answer of sdiag: one number for each of DIAGNOSTICS (None: not said); instants are seconds since the epoch."""
    numbers: dict[tuple[str, str], int | None] = {}
    part = ""
    for line in text.splitlines():
        if re.match(r"(Main|Backfilling|Latency|Remote|Pending)\b", line):
            part = line.split()[0]
        # `Last cycle: 5`, `Data since      Fri Nov 20 18:27:55 2026 (1795199275)`, and, before 17.11, that without the number.
        instant = re.match(r"\s*(\S.*?)(?::\s|\s\s).*\((\d{9,})\)$", line)
        number = re.match(r"\s*(\S.*?):\s+(\d+)", line)
        if match := instant or number:
            numbers.setdefault((part, match[1]), int(match[2]))
        elif match := re.match(r"\s*(\S.*?)(?::\s|\s\s)\s*(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})$", line):
            at = datetime.strptime(f"{match[2]} +0000", "%a %b %d %H:%M:%S %Y %z")
            numbers.setdefault((part, match[1]), int(at.timestamp()) or None)
    return {column: numbers.get(place) for column, place in DIAGNOSTICS.items()}
