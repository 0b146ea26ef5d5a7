"""Reads the state of an instance on this machine for `make watch`.

During a run it is read from the files that the replay writes (progress.json, samples.csv), which does not disturb the emulation.
The controller is queried only while no run is active.
"""

from __future__ import annotations

import math
import os
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
from mirage.records.file_names import PROGRESS_FILE, SAMPLES_FILE
from mirage.records.run_clock import EVENT
from mirage.records.run_folder import RunFolder
from mirage.terminal.instance_commands import manager_at
from mirage.terminal.trace_time import TraceTime, trace_time
from mirage.verdict.verdict import with_reasons
from slurm_mirage.base import user_folders
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock import instance_clock
from slurm_mirage.farm.farm import read_state
from slurm_mirage.farm.pacing import host_memory
from slurm_mirage.instance.instance import active_run, read_progress
from slurm_mirage.replay.monitor import ProcessorTime
from slurm_mirage.rm.api import ResourceManagerError

_LAST_BYTES = 4 << 20  # bytes of samples.csv that are read: the instance's user may have written anything
SPAN = 600.0
"""Seconds for which points are kept."""
ASK_EVERY = 2.0
"""Smallest number of seconds between two queries of the controller."""
ASK_SHARE = 0.05
"""Largest share of the time that queries of the controller may take; with thousands of nodes they are less frequent."""
Answer = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """Waiting jobs and busy processors at one instant (real seconds since the epoch)."""

    real: float
    pending: float
    busy: float | None


class Asker(threading.Thread):
    """Queries the controller in its own thread, so that the screen does not wait for it; `answer` is the last answer."""

    def __init__(self, directory: Path) -> None:
        super().__init__(name="asker", daemon=True)
        self._manager = manager_at(directory)
        self._wanted = threading.Event()
        self.answer: Answer = {}

    def want(self, wanted: bool) -> None:
        """Query repeatedly if `wanted`, else pause."""
        if wanted:
            self._wanted.set()
        else:
            self._wanted.clear()

    def run(self) -> None:
        """Query while wanted; runs in the thread."""
        while self._wanted.wait():
            began = time.monotonic()
            self.answer = self.ask()
            time.sleep(max(ASK_EVERY, (time.monotonic() - began) / ASK_SHARE))

    def ask(self) -> Answer:
        """Nodes, processors, jobs and diagnostics in the format of slurm_farm_info; empty without an answer."""
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


class LiveState:
    """The state of the instance in `directory`, read at each call of `read`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.past: deque[Point] = deque()
        self.run_is_active = False
        """Whether a replay was running at the last `read`."""
        self._asker = Asker(directory)
        self._asker.start()
        self._processor = ProcessorTime()
        self._run: str | None = None
        self._trace: tuple[str, TraceTime | None] = ("", None)

    def is_there(self) -> bool:
        """Whether the instance exists."""
        return (self.directory / "instance.json").exists()

    def read(self) -> tuple[Answer, Mapping[str, Any] | None] | None:
        """The state in the format of slurm_farm_info, and the progress of the current or last run (None without a run).

        None if the instance does not exist or is being removed.
        """
        try:
            return self._read()
        except (OSError, WrongUse):
            if self.is_there():
                raise
            return None

    def _read(self) -> tuple[Answer, Mapping[str, Any] | None]:
        run = active_run(self.directory)
        self.run_is_active = run is not None
        if run is not None and run != self._run:
            # On the event clock the samples have the cluster's time, of which the last minutes may be weeks.
            self.past = deque() if self._is_on_event_clock() else read_points(self.directory, run, time.time() - SPAN)
        self._run = run or self._run or _latest_run(self.directory)
        progress = self._progress()
        if progress is not None and not self.run_is_active:
            # It is not known when a replay that was killed will be continued.
            progress = {**progress, "time_left_least": None, "time_left_most": None}
        cluster = _of_run(progress) if self.run_is_active and progress else None
        farm = self._farm()
        self._asker.want(cluster is None and farm is not None)
        answer = cluster if cluster is not None else self._asker.answer if farm is not None else {}
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
            "trace": self._trace_time(progress) if self.run_is_active and progress else None,
            "verdict": _verdict(progress) if not self.run_is_active and progress else None,
        }
        self._remember(info)
        return info, progress

    def _is_on_event_clock(self) -> bool:
        return (instance_clock.both_times(self.directory) or {}).get("speed") == EVENT

    def _remember(self, info: Mapping[str, Any]) -> None:
        now = time.time()
        if info["nodes"]:
            processors = info["processors"]
            self.past.append(Point(now, info["jobs"].get("pending", 0), processors["busy"] if processors else None))
        while self.past and self.past[0].real < now - SPAN:
            self.past.popleft()

    def _progress(self) -> Mapping[str, Any] | None:
        with suppress(OSError):
            return read_progress(self.directory, self._run)
        return None

    def _trace_time(self, progress: Mapping[str, Any]) -> str | None:
        """The current time in the log of the run, as text; None if unknown."""
        run, elapsed = str(progress.get("run", "")), progress.get("elapsed") or 0.0
        if not elapsed:
            return None
        if self._trace[0] != run:
            self._trace = run, trace_time(RunFolder(results_of(run)), progress.get("speed", 1.0))
        trace = self._trace[1]
        return None if trace is None else trace.words(elapsed)

    def _farm(self) -> Mapping[str, Any] | None:
        try:
            return read_state(self.directory)
        except (OSError, ValueError):
            return None


def _verdict(progress: Mapping[str, Any]) -> str | None:
    """The verdict on a run that has ended, with reasons if it is not valid; None if the results are not on this machine."""
    run = str(progress.get("run", ""))
    with suppress(OSError, WrongUse, KeyError, TypeError):
        results = RunFolder(results_of(run))
        if results.experiment["run"] == run:
            return with_reasons(results.validity)
    return None


def _of_run(progress: Mapping[str, Any]) -> Answer | None:
    """The state of the cluster in the last sample of the replay; None before the first sample."""
    if not progress.get("nodes"):
        return None
    return {
        "nodes": progress["nodes"],
        "jobs": progress["states"],
        "processors": {"busy": progress["processors_busy"], "all": progress["processors"]},
        "scheduler": progress["scheduler"],
    }


def results_of(run: str) -> Path:
    """Folder of the results of a run. run: its name on the head.

    The name of a run in a comparison is RUN.CONFIG-REPLICA, and that of its second attempt RUN.CONFIG-REPLICA.2.
    """
    whole, _, part = run.rpartition(".")
    if re.fullmatch(r"[2-9]", part) and not (RESULTS / run).exists() and (first_attempt := results_of(whole)).exists():
        return first_attempt
    return RESULTS / whole / part if whole and not (RESULTS / run).exists() else RESULTS / run


def _latest_run(directory: Path) -> str | None:
    """Name of the run with the latest progress.json; None without any."""
    written = []
    for run in user_folders.entries(directory, "runs") if directory.is_dir() else ():
        with suppress(WrongUse):  # anything but a folder is not a run
            status = user_folders.status(directory, f"runs/{run}/{PROGRESS_FILE}")
            if status is not None:
                written.append((status.st_mtime, run))
    return max(written)[1] if written else None


def read_points(directory: Path, run: str, since: float) -> deque[Point]:
    """The points of a run's samples.csv from the instant `since` on (real seconds since the epoch); empty without the file."""
    points: deque[Point] = deque()
    try:
        descriptor = user_folders.open_file(directory, f"runs/{run}/{SAMPLES_FILE}")
    except (FileNotFoundError, WrongUse):
        return points
    with os.fdopen(descriptor, "rb") as stream:
        heading = _fields(stream.readline(_LAST_BYTES))
        begin = max(stream.tell(), os.fstat(descriptor).st_size - _LAST_BYTES)
        is_cut = begin > stream.tell()
        stream.seek(begin)
        lines = stream.read(_LAST_BYTES).split(b"\n")[is_cut:-1]
    for fields in map(_fields, lines):
        row = dict(zip(heading, fields, strict=False)) if len(fields) == len(heading) else {}
        with suppress(ValueError, KeyError):
            busy = row["processors_busy"]
            point = Point(float(row["real"]), float(row["pending"]), float(busy) if busy else None)
            if since <= point.real < math.inf and 0 <= point.pending < math.inf and 0 <= (point.busy or 0) < math.inf:
                points.append(point)
    return points


def _fields(line: bytes) -> list[str]:
    return line.decode(errors="replace").rstrip("\n").split(",")
