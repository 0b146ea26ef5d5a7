"""Where in its log a run is: the log's own second, and its date, at an instant of the replay."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from slurm_mirage.base.files import read_json


@dataclass(frozen=True)
class TraceTime:
    """`second` is the log's second at the start of the replay, `per_real` how many of them pass in a real second; `time` is what
    experiment.json says of the log's dates (a LocalTime), None if nothing."""

    second: float
    per_real: float
    time: Mapping[str, Any] | None

    def words(self, elapsed: float) -> str:
        """The date in the log after so many real seconds, or its second where the log has no dates."""
        second = self.second + elapsed * self.per_real
        date = self._date(second)
        return f"second {second:.0f} of the log" if date is None else f"{date:%Y-%m-%d %H:%M:%S} in the log"

    def _date(self, second: float) -> datetime | None:
        if self.time is None or self.time["begin"] is None:
            return None
        with suppress(ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
            there = datetime.fromtimestamp(self.time["begin"] + second, ZoneInfo(self.time["zone"]))
            return there + timedelta(seconds=self.time["offset"])
        return None


def trace_time(results: Path, speed: float) -> TraceTime | None:
    """That of the run whose results are in this folder. None where the folder is another clone's, and with PERIOD, whose jobs come
    at other times than the log's."""
    try:
        experiment = read_json(results / "experiment.json")
        if experiment is None or float(experiment["inputs"]["PERIOD"]):
            return None
        shrink = float(experiment["inputs"]["SHRINK"])
        with (results / "workload.csv").open(newline="") as stream:
            first = next(row for row in csv.DictReader(stream) if not row["preset"])
        second = float(first["submit"]) - float(first["submit_virtual"]) * 100 / shrink
    except (OSError, KeyError, ValueError, StopIteration):
        return None
    return TraceTime(second, speed * 100 / shrink, experiment["trace"].get("time"))
