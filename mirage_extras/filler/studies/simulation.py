"""Simulates what filler jobs gain and what they cost, by their costs and by the accuracy of estimates (study.md).

The gain has a bound after Polyakov and Dubenskaya, "Improving the load of supercomputers based on job migration using container
virtualization" (GRID 2018): 0.1 (1 - t) c where a tenth of the machine is idle; idle (1 - t) c in general. t is the share of a slot
that a start and a save take, c the speed of a filler compared with a bare process.

Import this module inside of functions: it loads numba.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mirage.simulation import saturation
from mirage.simulation.simulation import delayed
from mirage.statistics.intervals import student
from mirage.workloads.models import estimates
from mirage_extras.filler.simulation import PREEMPTED, fill
from slurm_mirage.extras.filler.words import PLANNED, SLOTS, Filler

Floats = NDArray[np.float64]

SEED_IDLE = 0.1
"""Idle share of the machine in the source's bound."""
SAVE_PART = 2 / 3
"""Part of a start and a save that the save takes; our choice, the default of FILLER_JOBS."""
KEYS = ("workload", "accuracy", "variant", "slot", "t", "c")
"""Columns that identify what was simulated."""
VALUES = (
    "idle", "main", "filler", "gain", "net", "bound", "seed_bound", "lost", "overhead", "preemptions", "delayed", "delay", "wait",
)  # fmt: skip
"""Columns of figures. Shares of the machine: idle without fillers, main (jobs that run), filler, gain (saved work), net (gain, less
what main is below the load without fillers), bound (idle (1 - t) c), seed_bound (0.1 (1 - t) c), lost, overhead. preemptions: a
day. delayed: share of jobs that wait for saves; delay, wait: mean seconds of all jobs, of these waits and of all waits beyond those
without fillers (null where the queue never runs empty).
"""

SCHEMA: dict[str, pl.DataType] = {
    **dict.fromkeys(("workload", "accuracy", "variant"), pl.String()),
    **dict.fromkeys(("slot", "t", "c"), pl.Float64()),
    "repetition": pl.Int64(),
    **dict.fromkeys(VALUES, pl.Float64()),
}
"""Columns of the rows of simulations and of runs."""


@dataclass(frozen=True)
class Point:
    """Fillers whose start and save take the share `t` of a slot of `slot` seconds, with the speed c."""

    variant: str
    slot: float
    t: float
    c: float

    def words(self) -> Filler:
        """The words of these fillers, without periodic saves as in the source."""
        save = SAVE_PART * self.t * self.slot
        return Filler(save=save, restore=self.t * self.slot - save, interval=0.0, slot=self.slot, speed=self.c)


@dataclass(frozen=True)
class Jobs:
    """Jobs to be scheduled by conservative backfilling; arrays as `simulation.schedule` takes them, in seconds.

    begin, end: what is measured; by default from the first submission to the last end
    depth: number of jobs in a queue that never runs empty; None: jobs are submitted as `submit` says
    """

    workload: str
    accuracy: str
    repetition: int
    machine: int
    submit: Floats
    processors: NDArray[np.int64]
    runtime: Floats
    estimate: Floats
    cancel: Floats | None = None
    begin: float | None = None
    end: float | None = None
    depth: int | None = None


@dataclass(frozen=True)
class Study:
    """What is simulated: all values of t for each accuracy at speed 1, and all speeds at the accuracy `main`."""

    ts: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
    cs: tuple[float, ...] = (0.8, 0.9, 1.0)
    accuracies: tuple[str, ...] = ("0", "0.25", "0.5", "0.75", "1")
    main: str = "0.5"
    slots: tuple[float, ...] = (60.0, 600.0)
    """The first one is the slot of the jobs of the model, so that no job starts within a slot."""
    waiting: int = 50
    machine: saturation.Study = field(default_factory=saturation.Study)

    def points(self, accuracy: str) -> list[Point]:
        """The points that are simulated with estimates of this accuracy."""
        cs = self.cs if accuracy == self.main else (1.0,)
        return [Point(variant, slot, t, c) for variant in (SLOTS, PLANNED) for slot in self.slots for t in self.ts for c in cs]


def lomonosov(study: Study, accuracy: str, repetition: int) -> Jobs:
    """A machine as in the source's figure 2 (studies/README.md), whose queue never runs empty."""
    seed = study.machine.seed_of(repetition)
    frame = estimates.replace(saturation.generated(replace(study.machine, waiting=(study.waiting,)), seed), accuracy, seed)
    width, run, expected = (frame[name].to_numpy() for name in ("allocated_processors", "run_time", "requested_time"))
    return Jobs(
        "lomonosov", accuracy, repetition, study.machine.processors, np.zeros(frame.height), width, run, expected,
        begin=study.machine.begin, end=study.machine.end, depth=study.waiting,
    )  # fmt: skip


def measure(study: Study, jobs: Sequence[Callable[[], Jobs]], threads: int, progress: Callable[[int, int], None]) -> pl.DataFrame:
    """Simulates all points of all jobs; returns a row for each: `KEYS`, repetition, `VALUES`.

    `progress` is called with the number of finished jobs and that of all.
    """

    def one(make: Callable[[], Jobs]) -> pl.DataFrame:
        made = make()
        return simulated(made, study.points(made.accuracy))

    # Threads suffice: the compiled functions release the interpreter's lock.
    with ThreadPoolExecutor(threads) as pool:
        pending = {pool.submit(one, make) for make in jobs}
        found: list[pl.DataFrame] = []
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            found += [task.result() for task in done]
            progress(len(found), len(jobs))
    return pl.concat(found).sort(*KEYS, "repetition")


def simulated(jobs: Jobs, points: Iterable[Point]) -> pl.DataFrame:
    """The rows of these jobs."""
    without = _schedule(jobs, 0.0)
    schedules = {0.0: without}
    rows = []
    for point in points:
        words = point.words()
        grace = words.save if point.variant == PLANNED else 0.0
        if grace not in schedules:
            schedules[grace] = _schedule(jobs, grace)
        rows.append(_row(jobs, point, words, schedules[grace], without))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _schedule(jobs: Jobs, grace: float) -> tuple[Floats, Floats]:
    return delayed(
        jobs.submit, jobs.processors, jobs.runtime, jobs.estimate, jobs.machine, "conservative", grace,
        cancel=jobs.cancel, depth=jobs.depth,
    )  # fmt: skip


def _row(
    jobs: Jobs, point: Point, words: Filler, schedule: tuple[Floats, Floats], without: tuple[Floats, Floats]
) -> tuple[object, ...]:
    start, hold = schedule
    end = _ends(jobs, start)
    begin, stop = _window(jobs, end)
    capacity = jobs.machine * (stop - begin)
    found = fill(hold, start, end, jobs.processors, jobs.machine, words, point.variant, begin, stop, tabulate=False)
    before, window = _ends(jobs, without[0]), _window(jobs, _ends(jobs, without[0]))
    idle = 1 - _load(jobs, without[0], before, *window)
    sums = {name: seconds / capacity for name, seconds in found.sums.items()}
    bound = (1 - point.t) * point.c
    inside = (hold >= begin) & (hold < stop)
    delays = (start - hold)[inside]
    main, gain = _load(jobs, start, end, begin, stop), point.c * sums["useful"]
    figures = (
        idle, main, sums["occupied"], gain, gain + main - (1 - idle), idle * bound, SEED_IDLE * bound,
        sums["lost"], sums["saving"] + sums["restoring"] + sums["waiting"], found.counts[PREEMPTED] * 86400 / (stop - begin),
        float((delays > 0).mean()), float(delays.mean()),
        None if jobs.depth is not None else float(np.nanmean(start - jobs.submit) - np.nanmean(without[0] - jobs.submit)),
    )  # fmt: skip
    return (jobs.workload, jobs.accuracy, point.variant, point.slot, point.t, point.c, jobs.repetition, *figures)


def _ends(jobs: Jobs, start: Floats) -> Floats:
    end: Floats = start + jobs.runtime
    return end if jobs.cancel is None else np.maximum(start, np.minimum(end, jobs.cancel))


def _window(jobs: Jobs, end: Floats) -> tuple[float, float]:
    begin = float(jobs.submit[0]) if jobs.begin is None else jobs.begin
    return begin, float(np.nanmax(end)) if jobs.end is None else jobs.end


def _load(jobs: Jobs, start: Floats, end: Floats, begin: float, stop: float) -> float:
    within = np.maximum(np.minimum(end, stop) - np.maximum(start, begin), 0)
    return float(np.nansum(jobs.processors * within) / (jobs.machine * (stop - begin)))


def summary(rows: pl.DataFrame) -> pl.DataFrame:
    """Means over the repetitions: `KEYS`, `VALUES`, repetitions, and `half_VALUE`, half the 95 % interval of each value (Student's
    t; null for a single repetition).
    """
    count = int(rows["repetition"].n_unique())
    quantile = student(count - 1) / math.sqrt(count) if count > 1 else math.nan
    halves = {f"half_{name}": (pl.col(name).std() * quantile).fill_nan(None) for name in VALUES}
    return rows.group_by(KEYS).agg(*(pl.col(name).mean() for name in VALUES), repetitions=pl.len(), **halves).sort(KEYS)
