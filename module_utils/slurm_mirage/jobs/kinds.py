"""Kinds of jobs: which program stands for a job on a node. A run names the kind of all its jobs in run.json (key `kind`).

A kind is a class with the methods of `JobKind`, and a line in KINDS, here or in the module `kinds` of an extra.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .. import extras
from ..base.run_settings import RunSettings
from ..clock.event_clock import SPEED
from ..clock.instance_clock import clock_file
from .plan import PlanRow
from .sigsleep_log import Record, scan

KEY, DEFAULT = "kind", "sigsleep"


@dataclass(frozen=True)
class PlayedJob:
    """A job whose program recorded that it ran to its end."""

    number: int
    """The job's number in the trace."""
    end: float
    """Virtual seconds since the epoch."""


class JobKind(Protocol):
    """How the jobs of a run are executed and recorded."""

    @property
    def record(self) -> Path:
        """The file on this host to which the programs of all jobs write what they did."""
        ...

    def command_line(self, row: PlanRow, submitted: float, runtime: float, record: Path | None = None) -> str:
        """The line for /bin/sh that runs a job.

        `submitted`: virtual seconds since the epoch; `runtime`: virtual seconds for which the program runs, which may be less than
        that of `row`; `record`: where the program writes, `self.record` by default.
        """
        ...

    def played(self, data: bytes) -> tuple[list[PlayedJob], int]:
        """The jobs that ran to their ends according to bytes of the record, and how many of these bytes need not be read again."""
        ...


@dataclass(frozen=True)
class Sigsleep(JobKind):
    """A job is one process of sigsleep (files/sigsleep), which sleeps for the run time less its suspensions."""

    program: str
    record_path: str
    clock: str | None
    """The clock file that it sleeps by; None in real time."""

    @classmethod
    def of_run(cls, settings: RunSettings) -> Sigsleep:
        """The kind with the settings sigsleep, sigsleep_log, clock and clock_kind of run.json. Raises WrongUse."""
        clock = settings.text_or_none("clock")
        if settings.text("clock_kind", "constant") == SPEED:
            clock = str(clock_file(Path(settings.text("instance"))))
        return cls(settings.text("sigsleep"), settings.text("sigsleep_log"), clock)

    @property
    def record(self) -> Path:
        return Path(self.record_path)

    def command_line(self, row: PlanRow, submitted: float, runtime: float, record: Path | None = None) -> str:
        words = [self.program, "--id", str(row.id), "--cores", str(row.processors)]
        words += ["--priority", row.partition.encode()[:31].decode(errors="ignore") or "default"]  # at most 31 bytes
        words += ["--submit", f"{submitted:.6f}", "--runtime", f"{runtime:.9f}"]
        words += ["--log", str(record or self.record_path)]
        if self.clock:
            words += ["--clock", self.clock]
        return f"exec {shlex.join(words)}"

    def played(self, data: bytes) -> tuple[list[PlayedJob], int]:
        parts = list(scan(data))
        # Bytes at the end may be the beginning of a record.
        torn = 0 if not parts or isinstance(parts[-1], Record) else parts[-1].length
        records = [part for part in parts if isinstance(part, Record)]
        return [PlayedJob(record.id, record.end_ns / 1e9) for record in records if record.completed], len(data) - torn


KINDS: dict[str, Callable[[RunSettings], JobKind]] = {DEFAULT: Sigsleep.of_run}
"""The core's own."""


def kind_of(settings: RunSettings) -> JobKind:
    """The kind of a run's jobs. Raises WrongUse."""
    kinds: dict[str, Callable[[RunSettings], JobKind]] = {**KINDS, **extras.merged("kinds", "KINDS")}
    return settings.one_of(KEY, kinds, DEFAULT)(settings)
