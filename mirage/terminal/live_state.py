"""The state of an instance on this machine for `make watch`.

During a run it is read from the files that the replay writes (progress.json, samples.csv), which costs the emulation nothing. Only
while no run goes on the controller is asked.
"""

from __future__ import annotations

import csv
import re
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage import RESULTS
from mirage.terminal.trace_time import TraceTime, trace_time
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json
from slurm_mirage.clock import instance_clock
from slurm_mirage.farm.farm import read_state
from slurm_mirage.farm.pacing import host_memory
from slurm_mirage.instance.instance import active_run, commands_of
from slurm_mirage.replay.monitor import ProcessorTime
from slurm_mirage.rm.api import ResourceManagerError
from slurm_mirage.rm.slurm.commands import Slurm

SPAN = 600.0
"""Seconds of the past that are kept."""
ASK_EVERY = 2.0
ASK_SHARE = 0.05
"""Part of the time that asking the controller may take: of thousands of nodes it is asked less often."""
Answer = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """Waiting jobs and busy processors at one instant (real seconds since the epoch)."""

    real: float
    pending: float
    busy: float | None


class Asker(threading.Thread):
    """Asks the controller in a thread of its own, so that the screen never waits for a busy one; `answer` is the last answer."""

    def __init__(self, directory: Path) -> None:
        super().__init__(name="asker", daemon=True)
        self._manager = Slurm.of_instance(directory, commands_of(directory))
        self._wanted = threading.Event()
        self.answer: Answer = {}

    def want(self, wanted: bool) -> None:
        """Ask again and again, or pause."""
        if wanted:
            self._wanted.set()
        else:
            self._wanted.clear()

    def run(self) -> None:
        """The thread's work."""
        while self._wanted.wait():
            began = time.monotonic()
            self.answer = self.ask()
            time.sleep(max(ASK_EVERY, (time.monotonic() - began) / ASK_SHARE))

    def ask(self) -> Answer:
        """Nodes, processors, jobs and the diagnostics, as slurm_farm_info returns them; empty without an answer."""
        try:
            nodes = self._manager.nodes()
            return {
                "nodes": nodes.states,
                "processors": {"busy": nodes.allocated, "all": nodes.processors},
                "jobs": self._manager.jobs_by_state(),
                "scheduler": self._manager.diagnostics(),
            }
        except (ResourceManagerError, WrongUse):
            return {}


class LiveLook:
    """Looks at the instance in `directory` again and again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.past: deque[Point] = deque()
        self.goes_on = False
        """Whether a replay was at work at the last look."""
        self._asker = Asker(directory)
        self._asker.start()
        self._processor = ProcessorTime()
        self._run: str | None = None
        self._trace: tuple[str, TraceTime | None] = ("", None)

    def is_there(self) -> bool:
        """Whether there is such an instance (still)."""
        return (self.directory / "instance.json").exists()

    def look(self) -> tuple[Answer, Mapping[str, Any] | None] | None:
        """(what slurm_farm_info would return, progress of the run that goes on, or that was the last to); None when the instance is
        gone, or going."""
        try:
            return self._look()
        except (OSError, WrongUse):
            if self.is_there():
                raise
            return None

    def _look(self) -> tuple[Answer, Mapping[str, Any] | None]:
        run = active_run(self.directory)
        self.goes_on = run is not None
        if run is not None and run != self._run:
            self.past = earlier(self.directory / "runs" / run / "samples.csv", time.time() - SPAN)
        self._run = run or self._run or _latest_run(self.directory)
        progress = self._progress()
        if progress is not None and not self.goes_on:
            # Of a replay that was killed: nobody knows how long until it goes on.
            progress = {**progress, "time_left": None}
        known = _of_run(progress) if self.goes_on and progress else None
        farm = self._farm()
        self._asker.want(known is None and farm is not None)
        answer = known if known is not None else self._asker.answer if farm is not None else {}
        info = {
            "nodes": {},
            "jobs": {},
            "processors": None,
            "scheduler": {},
            **answer,
            "farm": farm or {"phase": "stopped"},
            "clock": instance_clock.both_times(self.directory),
            "memory": host_memory().available,
            "cpu_busy": self._processor.busy(),
            "trace": self._trace_time(progress) if self.goes_on and progress else None,
            "verdict": _verdict(progress) if not self.goes_on and progress else None,
        }
        self._remember(info)
        return info, progress

    def _remember(self, info: Mapping[str, Any]) -> None:
        now = time.time()
        if info["nodes"]:
            processors = info["processors"]
            self.past.append(Point(now, info["jobs"].get("pending", 0), processors["busy"] if processors else None))
        while self.past and self.past[0].real < now - SPAN:
            self.past.popleft()

    def _progress(self) -> Mapping[str, Any] | None:
        progress: Mapping[str, Any] | None = None
        with suppress(OSError, ValueError):
            progress = read_json(self.directory / "runs" / self._run / "progress.json") if self._run else None
        return progress

    def _trace_time(self, progress: Mapping[str, Any]) -> str | None:
        """Where in its log the run is; None when that is not known."""
        run, elapsed = str(progress.get("run", "")), progress.get("elapsed") or 0.0
        if not elapsed:
            return None
        if self._trace[0] != run:
            self._trace = run, trace_time(results_of(run), progress.get("speed", 1.0))
        trace = self._trace[1]
        return None if trace is None else trace.words(elapsed)

    def _farm(self) -> Mapping[str, Any] | None:
        try:
            return read_state(self.directory)
        except (OSError, ValueError):
            return None


def _verdict(progress: Mapping[str, Any]) -> str | None:
    """The verdict on a run that is over: valid, or why not; None if it is not known, or if the results are not here."""
    run = str(progress.get("run", ""))
    with suppress(OSError, ValueError, KeyError, TypeError):
        results = results_of(run)
        if read_json(results / "experiment.json")["run"] == run:
            validity = read_json(results / "metrics.json")["validity"]
            return "valid" if validity["valid"] else f"not valid: {'; '.join(validity['reasons'])}"
    return None


def _of_run(progress: Mapping[str, Any]) -> Answer | None:
    """The cluster as the replay saw it last; None before its first sample."""
    if not progress.get("nodes"):
        return None
    return {
        "nodes": progress["nodes"],
        "jobs": progress["states"],
        "processors": {"busy": progress["processors_busy"], "all": progress["processors"]},
        "scheduler": progress["scheduler"],
    }


def results_of(run: str) -> Path:
    """Folder of the results of a run by its name on the head; a part of a comparison is RUN.CONFIG-REPLICA there, and a further
    attempt at it RUN.CONFIG-REPLICA.2."""
    whole, _, part = run.rpartition(".")
    if re.fullmatch(r"[2-9]", part) and not (RESULTS / run).exists() and (earlier := results_of(whole)).exists():
        return earlier
    return RESULTS / whole / part if whole and not (RESULTS / run).exists() else RESULTS / run


def _latest_run(directory: Path) -> str | None:
    """Name of the run that was the last to write its progress."""
    written = [(path.stat().st_mtime, path.parent.name) for path in directory.glob("runs/*/progress.json")]
    return max(written)[1] if written else None


def earlier(samples: Path, since: float) -> deque[Point]:
    """The points of a run's samples.csv from the instant `since` on; none when it is not there."""
    points: deque[Point] = deque()
    with suppress(FileNotFoundError), samples.open(newline="") as stream:
        for row in csv.DictReader(stream):
            # A torn last line lacks columns; an older run's lack the processors.
            with suppress(ValueError, TypeError):
                busy = row.get("processors_busy")
                point = Point(float(row["real"]), float(row["pending"]), float(busy) if busy else None)
                if point.real >= since:
                    points.append(point)
    return points
