"""Converts an instant of the replay to the time in the log: its second, and its date."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mirage.records.file_names import WORKLOAD_FILE
from mirage.records.run_folder import RunFolder
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock.clock import Clock


@dataclass(frozen=True)
class TraceTime:
    """Conversion of real seconds since the start of the replay to the time in the log."""

    second: float
    """Second of the log at the start of the replay."""
    per_real: float
    """Seconds of the log per real second."""
    time: Mapping[str, Any] | None
    """The dates of the log in experiment.json (a LocalTime); None if the log has none."""

    def words(self, elapsed: float) -> str:
        """The date in the log `elapsed` real seconds after the start, or its second if the log has no dates."""
        second = self.second + elapsed * self.per_real
        date = self._date(second)
        return f"second {second:.0f} of the log" if date is None else f"{date:%Y-%m-%d %H:%M:%S} in the log"

    def _date(self, second: float) -> datetime | None:
        if self.time is None or self.time["begin"] is None:
            return None
        with suppress(ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
            date = datetime.fromtimestamp(self.time["begin"] + second, ZoneInfo(self.time["zone"]))
            return date + timedelta(seconds=self.time["offset"])
        return None


def trace_time(run: RunFolder, speed: float) -> TraceTime | None:
    """The conversion for the run at this speed.

    None if the folder does not have the files of a run, and with SUBMISSION, which does not use the submission times of the log.
    """
    try:
        experiment = run.experiment
        if not experiment or experiment["inputs"].get("SUBMISSION"):
            return None
        with (run.path / WORKLOAD_FILE).open(newline="") as stream:
            first = next(row for row in csv.DictReader(stream) if not row["preset"])
        clock = Clock(speed=speed, shrink=float(experiment["inputs"]["SHRINK"]))
        second = float(first["submit"]) - clock.virtual_to_trace(float(first["submit_virtual"]))
    except (OSError, WrongUse, KeyError, ValueError, StopIteration):
        return None
    return TraceTime(second, clock.real_to_trace(1.0), experiment["trace"].get("time"))
