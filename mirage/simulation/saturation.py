"""The average load of a machine whose queue never runs empty, against the accuracy of estimates: simulated, without Slurm.

Polyakov and Dubenskaya, "Improving the load of supercomputers based on job migration using container virtualization" (GRID 2018),
figure 2. What they do not say, and what was decided instead, is in docs/simulation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
import polars as pl

from mirage.simulation.simulation import schedule
from mirage.workloads import models
from mirage.workloads.models import estimates

MODEL = "lomonosov"
_DAY = 86400
_LONGEST = 15 * _DAY  # the longest job of the model
# Slot-seconds of a job of the model on average, if its size tells nothing of its run time; only a first guess.
_USUAL = 7.5 * 255 * 60


@dataclass(frozen=True)
class Study:
    """What is simulated: each repetition, accuracy and number of waiting jobs, with rescheduling and without."""

    processors: int = 512
    days: float = 180
    warmup_days: float = 15
    """Simulated before, and not measured: as long as the longest job."""
    repetitions: int = 10
    accuracies: tuple[float, ...] = tuple(step / 10 for step in range(11))
    waiting: tuple[int, ...] = (10, 50, 100)
    """Jobs in the queue, always that many: one that starts is followed by a new one."""
    seed: int = 1

    @property
    def begin(self) -> float:
        """When the measurement begins, in seconds."""
        return self.warmup_days * _DAY

    @property
    def end(self) -> float:
        return (self.warmup_days + self.days) * _DAY

    def seed_of(self, repetition: int) -> int:
        """All schedules of a repetition are of the same jobs, so that they can be compared."""
        return 1000 * self.seed + repetition


def measure(study: Study, threads: int, progress: Callable[[int, int], None]) -> pl.DataFrame:
    """A row a schedule: repetition, accuracy, waiting, rescheduling, load. `progress` is told how many are done, of how many."""
    tasks = [(repetition, accuracy) for repetition in range(study.repetitions) for accuracy in study.accuracies]
    each = 2 * len(study.waiting)
    # Threads suffice: the compiled scheduler does not hold the interpreter's lock.
    with ThreadPoolExecutor(threads) as pool:
        left = {pool.submit(_loads, study, *task) for task in tasks}
        rows: list[tuple[int, float, int, bool, float]] = []
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            for task in done:
                rows += task.result()
            progress(each * (len(tasks) - len(left)), each * len(tasks))
    names = ["repetition", "accuracy", "waiting", "rescheduling", "load"]
    return pl.DataFrame(rows, schema=names, orient="row").sort(names[:-1])


def _loads(study: Study, repetition: int, accuracy: float) -> list[tuple[int, float, int, bool, float]]:
    seed = study.seed_of(repetition)
    jobs = estimates.replace(_jobs(study, seed), f"{accuracy:g}", seed)
    return [
        (repetition, accuracy, waiting, rescheduling, load(jobs, study, waiting, rescheduling))
        for waiting in study.waiting
        for rescheduling in (True, False)
    ]


def _jobs(study: Study, seed: int) -> pl.DataFrame:
    """So many that the queue does not run empty before the end, whatever the schedule."""
    # Were all started by then, the machine had done their work, but for what is left of those that run.
    work = study.processors * (study.end + _LONGEST)
    spare = max(study.waiting)
    count = spare + math.ceil(1.2 * work / _USUAL)
    while True:
        jobs = models.generate(MODEL, count, seed, study.processors)
        done = (jobs["allocated_processors"] * jobs["run_time"]).cum_sum()
        needed = spare + int((done < work).sum()) + 1
        if needed <= count:
            return jobs.head(needed)
        count *= 2


def load(jobs: pl.DataFrame, study: Study, waiting: int, rescheduling: bool) -> float:
    """Share of the machine that is busy within the study's days under conservative backfilling, of jobs in an SWF frame."""
    width, run, expected = (jobs[name].to_numpy() for name in ("allocated_processors", "run_time", "requested_time"))
    at_once = np.zeros(jobs.height)
    start = schedule(at_once, width, run, expected, study.processors, "conservative", compress=rescheduling, depth=waiting)
    within = np.minimum(start + run, study.end) - np.maximum(start, study.begin)
    return float((width * np.maximum(within, 0)).sum() / (study.processors * (study.end - study.begin)))


def summary(loads: pl.DataFrame) -> pl.DataFrame:
    """Over the repetitions: mean, and the 95 % interval of the mean (Student's t; null for a single repetition)."""
    from scipy.stats import t

    keys = ["rescheduling", "waiting", "accuracy"]
    repetitions = int(loads["repetition"].n_unique())
    quantile = float(t.ppf(0.975, repetitions - 1)) if repetitions > 1 else math.nan
    half = pl.col("load").std() * quantile / math.sqrt(repetitions)
    return (
        loads.group_by(keys)
        .agg(mean=pl.col("load").mean(), half=half, repetitions=pl.len())
        .sort(keys, descending=[True, False, False])
        .select(*keys, "mean", low=pl.col("mean") - pl.col("half"), high=pl.col("mean") + pl.col("half"), repetitions="repetitions")
    )
