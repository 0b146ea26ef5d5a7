"""Simulates the average load of a machine whose queue never runs empty, by the accuracy of run time estimates, without Slurm.

Reproduces figure 2 of Polyakov and Dubenskaya, "Improving the load of supercomputers based on job migration using container
virtualization" (GRID 2018). studies/README.md lists the details that the paper does not give, and the choices made here.
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
_LONGEST = 15 * _DAY  # longest job of the model
# Rough mean of processor seconds per job of the model, if size and run time were independent.
_MEAN_WORK = 7.5 * 255 * 60


@dataclass(frozen=True)
class Study:
    """Parameters of the study: each repetition, accuracy and number of waiting jobs is simulated with and without rescheduling."""

    processors: int = 512
    days: float = 180
    warmup_days: float = 15
    """Days simulated before the measurement; as long as the longest job."""
    repetitions: int = 10
    accuracies: tuple[float, ...] = tuple(step / 10 for step in range(11))
    waiting: tuple[int, ...] = (10, 50, 100)
    """Constant number of jobs in the queue: when one starts, a new one is submitted."""
    seed: int = 1

    @property
    def begin(self) -> float:
        """Begin of the measurement in seconds."""
        return self.warmup_days * _DAY

    @property
    def end(self) -> float:
        """End of the measurement in seconds."""
        return (self.warmup_days + self.days) * _DAY

    def seed_of(self, repetition: int) -> int:
        """The random seed of a repetition. All schedules of a repetition have the same jobs, so that they can be compared."""
        return 1000 * self.seed + repetition


def measure(study: Study, threads: int, progress: Callable[[int, int], None]) -> pl.DataFrame:
    """Simulates all schedules; returns a row per schedule: repetition, accuracy, waiting, rescheduling, load.

    `progress` is called with the number of finished schedules and that of all schedules.
    """
    tasks = [(repetition, accuracy) for repetition in range(study.repetitions) for accuracy in study.accuracies]
    each = 2 * len(study.waiting)
    # Threads suffice: the compiled scheduler releases the interpreter's lock.
    with ThreadPoolExecutor(threads) as pool:
        pending = {pool.submit(_loads, study, *task) for task in tasks}
        rows: list[tuple[int, float, int, bool, float]] = []
        try:
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for task in done:
                    rows += task.result()
                progress(each * (len(tasks) - len(pending)), each * len(tasks))
        finally:
            pool.shutdown(cancel_futures=True)  # after Ctrl-C no other one begins
    names = ["repetition", "accuracy", "waiting", "rescheduling", "load"]
    return pl.DataFrame(rows, schema=names, orient="row").sort(names[:-1])


def _loads(study: Study, repetition: int, accuracy: float) -> list[tuple[int, float, int, bool, float]]:
    seed = study.seed_of(repetition)
    jobs = estimates.replace(generated(study, seed), f"{accuracy:g}", seed)
    return [
        (repetition, accuracy, waiting, rescheduling, load(jobs, study, waiting, rescheduling))
        for waiting in study.waiting
        for rescheduling in (True, False)
    ]


def generated(study: Study, seed: int) -> pl.DataFrame:
    """Generates enough jobs for the queue not to run empty before the end under any schedule."""
    # An upper bound of the work of all jobs that can have started by the end: some of them run for up to _LONGEST after it.
    work = study.processors * (study.end + _LONGEST)
    spare = max(study.waiting)
    count = spare + math.ceil(1.2 * work / _MEAN_WORK)
    while True:
        jobs = models.generate(MODEL, count, seed, study.processors)
        done = (jobs["allocated_processors"] * jobs["run_time"]).cum_sum()
        needed = spare + int((done < work).sum()) + 1
        if needed <= count:
            return jobs.head(needed)
        count *= 2


def load(jobs: pl.DataFrame, study: Study, waiting: int, rescheduling: bool) -> float:
    """Mean utilisation (0 to 1) within the measured days under conservative backfilling; `jobs` is an SWF frame."""
    width, run, expected = (jobs[name].to_numpy() for name in ("allocated_processors", "run_time", "requested_time"))
    at_once = np.zeros(jobs.height)
    start = schedule(at_once, width, run, expected, study.processors, "conservative", compress=rescheduling, depth=waiting)
    within = np.minimum(start + run, study.end) - np.maximum(start, study.begin)
    return float((width * np.maximum(within, 0)).sum() / (study.processors * (study.end - study.begin)))


def summary(loads: pl.DataFrame) -> pl.DataFrame:
    """Mean load over the repetitions with its 95 % confidence interval (Student's t; null for a single repetition).

    `loads` is the result of `measure`; columns are rescheduling, waiting, accuracy, mean, low, high, repetitions.
    """
    from scipy.special import stdtrit

    keys = ["rescheduling", "waiting", "accuracy"]
    repetitions = int(loads["repetition"].n_unique())
    quantile = float(stdtrit(repetitions - 1, 0.975)) if repetitions > 1 else math.nan
    half = pl.col("load").std() * quantile / math.sqrt(repetitions)
    return (
        loads.group_by(keys)
        .agg(mean=pl.col("load").mean(), half=half, repetitions=pl.len())
        .sort(keys, descending=[True, False, False])
        .select(*keys, "mean", low=pl.col("mean") - pl.col("half"), high=pl.col("mean") + pl.col("half"), repetitions="repetitions")
    )
