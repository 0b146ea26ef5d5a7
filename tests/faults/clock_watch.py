"""Watches the event clock of a lane's cluster: that it never goes back, and that a driven run never stands still."""

from __future__ import annotations

import fcntl
import os
import statistics
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock import clock_page
from slurm_mirage.clock.event_clock import DRIVER
from slurm_mirage.jobs.plan import read_plan
from slurm_mirage.jobs.sigsleep_log import read_log

from .lane import Lane, read_rows
from .table import Wrong

LONGEST_HALT = 30.0
"""Real seconds without progress of a driven run after which it counts as hanging."""
PERIOD = 0.002
"""Real seconds between two readings of the clock."""
LOOK_EACH = 100
"""Readings of the clock between two looks at the run's progress."""
LARGEST_FRACTION = 0.5
"""Seconds by which a planned run time differs from that of the log at most (mirage/experiment/fractions.py)."""
SLURMS_SECOND = 1.01
"""Seconds by which a length of Slurm's record, whose instants are whole seconds, may be too short."""
_LOCK = struct.Struct("hhqqi4x")
"""struct flock of 64-bit Linux: type, whence, start, length, pid."""


def driver_pid(lane: Lane) -> int | None:
    """The process that drives the clock: the one that holds the lock of the driver's file. None without one."""
    try:
        descriptor = os.open(lane.directory / DRIVER, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind, _, _, _, pid = _LOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else int(pid)


class ClockWatch(threading.Thread):
    """Reads the clock all the time until `stop`. `run` is the run whose progress is looked at.

    readings: number of readings; largest_step_back: ns by which the clock went back, 0: never; longest_halt: real seconds without
    progress of the run (a jump of the clock and a change of the counts of jobs) while it was driven
    """

    def __init__(self, lane: Lane, run: str) -> None:
        super().__init__(name="clock-watch", daemon=True)
        self.run_name = run
        self.readings = 0
        self.largest_step_back = 0
        self.longest_halt = 0.0
        self._lane = lane
        self._ends = threading.Event()
        self._counts: tuple[Any, ...] = ()
        self._jumps = 0
        self._since = {"jump": time.monotonic(), "job": time.monotonic()}

    def run(self) -> None:
        latest = 0
        while not self._ends.wait(PERIOD):
            with suppress(OSError, WrongUse):
                now = clock_page.now(self._lane.directory)
                self.largest_step_back = max(self.largest_step_back, latest - now)
                latest = max(latest, now)
                self.readings += 1
                if self.readings % LOOK_EACH == 0:
                    self._look()

    def _look(self) -> None:
        """Note for how long neither the clock has jumped nor a job has begun or ended."""
        now = time.monotonic()
        jumps = clock_page.figures(self._lane.directory)["jumps"]
        progress: Mapping[str, Any] = self._lane.progress(self.run_name)
        counts = tuple(progress.get(name) for name in ("submitted", "running", "pending", "done"))
        is_driven = driver_pid(self._lane) is not None
        if jumps != self._jumps or not is_driven:
            self._since["jump"] = now
        if counts != self._counts or not is_driven:
            self._since["job"] = now
        self._jumps, self._counts = jumps, counts
        self.longest_halt = max(self.longest_halt, *(now - since for since in self._since.values()))

    def stop(self) -> None:
        self._ends.set()
        self.join()

    def judge(self) -> None:
        """Raises Wrong if the clock went back or the run stood still."""
        if self.readings == 0:
            raise Wrong("the clock could not be read")
        if self.largest_step_back > 0:
            raise Wrong(f"the clock went back by {self.largest_step_back / 1e9:.9f} s")
        if self.longest_halt > LONGEST_HALT:
            raise Wrong(f"the run made no progress for {self.longest_halt:.0f} s, wanted at most {LONGEST_HALT:.0f} s")


def none_early(folder: Path, logged: Mapping[int, float], *, knows_by_nodes: bool = False) -> int:
    """Check the records of sigsleep and of the resource manager: whoever completed has executed its run time.

    The plan's run times differ from those of the log by drawn fractions of a second.
    logged: run times of the log (s), by number of the job. knows_by_nodes: the manager has start and exit status of a job from its
    node, whose daemon may be killed. It may learn the start too late: sigsleep's record of it counts if it is earlier. A killed
    program counts as completed if nobody waited for its end: only jobs with a record of sigsleep are judged. Returns how many jobs
    completed. Raises Wrong.
    """
    runtimes = {row.id: row.runtime for row in read_plan(folder / "plan.csv")}
    if any(abs(runtimes[number] - seconds) > LARGEST_FRACTION for number, seconds in logged.items()):
        raise Wrong("plan.csv has other run times than the log")
    records, _ = read_log(folder / "sigsleep.log")
    completed = [record for record in records if record.completed]
    for record in completed:
        stopped = sum(one.resume_ns - one.suspend_ns for one in record.suspensions)
        executed = min(record.executed_ns, record.end_ns - record.start_ns - stopped)
        if executed < record.runtime_ns or record.runtime_ns < round(runtimes[record.id] * 1e9):
            raise Wrong(f"job {record.id} ended after {executed / 1e9:.6f} s of {runtimes[record.id]:g} s")
    rows = [row for row in read_rows(folder / "jobs.csv") if row["state"] == "COMPLETED"]
    # Of a job that was put back and started again although its program went on, the first program counts.
    backwards = sorted(completed, key=lambda record: -record.start_ns) if knows_by_nodes else []
    later = {record.id: record.start_ns / 1e9 for record in backwards}
    later = {int(row["id"]): float(row["start"]) - later[int(row["id"])] for row in rows if int(row["id"]) in later}
    usual = statistics.median(later.values()) if later else 0.0  # the two records count from different instants
    for row in rows:
        number = int(row["id"])
        if knows_by_nodes and number not in later:
            continue
        lasted = float(row["end"]) - float(row["start"]) + max(0.0, later.get(number, usual) - usual)
        if lasted < runtimes[number] - SLURMS_SECOND:
            own = [f"{record.start_ns / 1e9:.3f} to {record.end_ns / 1e9:.3f}" for record in completed if record.id == number]
            raise Wrong(
                f"job {number} lasted {lasted:g} s of {runtimes[number]:g} s by the manager's record "
                f"({row['start']} to {row['end']}); its program by its own: {', '.join(own)}"
            )
    return len({record.id for record in completed})
