"""Schedules of simulated schedulers with injected delays, whose effect on the metrics is known: for tests of the error budget."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import polars as pl
from numba import njit
from numpy.typing import NDArray

from mirage.metrics.formulas import Settings
from mirage.metrics.measured_jobs import Window
from mirage.simulation import simulation
from mirage.statistics.emulation_error import MeasuredRun
from mirage.workloads import models

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

KNOWN = ("fcfs", "easy", "conservative")
"""Schedulers that the budget simulates too."""
UNKNOWN = ("first fit", "shortest first")
"""Schedulers that it does not know: without reservations, in order of submission or of the time limit."""


@dataclass(frozen=True)
class Delays:
    """Seconds, per job. lag: from due to acceptance; stretch: of the run time, signed; freed: from its end to free processors"""

    lag: Floats
    stretch: Floats
    freed: Floats


@dataclass(frozen=True)
class Workload:
    due: Floats
    processors: Numbers
    run: Floats
    limit: Floats
    machine: int

    @classmethod
    def drawn(cls, random: np.random.Generator) -> Workload:
        """100 to 1,000 jobs on 16 to 256 processors, loads from 0.3 to 1.1, of the model lublin or of simple distributions."""
        jobs, machine = int(np.exp(random.uniform(np.log(100), np.log(1000)))), int(2 ** random.integers(4, 9))
        load, kind = random.uniform(0.3, 1.1), random.integers(3)
        if kind == 0:
            frame = models.generate("lublin", jobs, int(random.integers(1_000_000)), machine, load=load)
            due = frame["submit"].to_numpy().astype(np.float64)
            run = frame["run_time"].to_numpy().clip(1).astype(np.float64)
            asked = frame.select(pl.max_horizontal("requested_processors", "allocated_processors")).to_series().to_numpy()
            return cls(due - due[0], asked.clip(1, machine).astype(np.int64), run, run * random.choice([1.0, 1.5]), machine)
        widths = (
            2 ** random.integers(0, int(np.log2(machine)) + 1, jobs) if kind == 1 else 1 + random.binomial(machine // 4, 0.3, jobs)
        )
        run = np.round(random.choice([60, 300, 1800]) * np.exp(random.normal(0, random.uniform(0.5, 2), jobs))).clip(1)
        due = np.cumsum(random.exponential(1, jobs))
        due = (due - due[0]) * (widths * run).sum() / (machine * load) / (due[-1] - due[0])
        return cls(due, widths.astype(np.int64), run, run * random.choice([1.0, 1.2, 2.0, 5.0], jobs), machine)

    def delays(self, random: np.random.Generator) -> Delays:
        """Delays of 0.1 to 50 s, of one to three kinds: launches with a heavy tail, which may be compensated in the mean, lags in
        bursts, and completions that take longer for wide jobs."""
        jobs, size, kinds = len(self.due), 10 ** random.uniform(-1, np.log10(50)), random.random(3) < 0.8
        kinds[random.integers(3)] = True
        stretch = size * (random.lognormal(-0.5, 1, jobs) - random.integers(2))
        lag = size * 0.05 * random.exponential(1, jobs)
        for _ in range(random.integers(1, 6)):
            first = random.integers(jobs)
            lag[first : first + random.integers(1, max(2, jobs // 10))] += size * random.exponential(2)
        freed = size * 0.1 * (1 + np.log2(self.processors)) * random.lognormal(0, 0.5, jobs)
        return Delays(kinds[0] * lag, np.maximum(kinds[1] * stretch, -0.9 * self.run), kinds[2] * freed)

    def schedule(self, scheduler: str, delays: Delays) -> pl.DataFrame:
        """Columns due, lag, start, end of the jobs."""
        arrival = np.maximum.accumulate(self.due + delays.lag)
        run = self.run + delays.stretch
        held = np.maximum(run + delays.freed, 1e-3)
        if scheduler in UNKNOWN:
            key = self.limit if scheduler == "shortest first" else np.arange(len(self.due), dtype=np.float64)
            start = _without_reservations(arrival, self.processors, held, key, self.machine)
        else:
            start = simulation.schedule(arrival, self.processors, held, self.limit, self.machine, scheduler)
        return pl.DataFrame({"due": self.due, "lag": arrival - self.due, "start": start, "end": start + run})

    def none(self) -> Delays:
        zeros = np.zeros(len(self.due))
        return Delays(zeros, zeros, zeros)

    def run_of(self, schedule: pl.DataFrame, freed: Floats, policies: tuple[str, ...], resolution: float = 0.0) -> MeasuredRun:
        """The schedule as the records of a run. freed: as measured, NaN: not"""
        nodes = -(-self.processors // 4)
        jobs = schedule.with_columns(
            eligible=pl.lit(None, pl.Float64),
            suspended=pl.lit(0.0),
            wanted=self.run,
            freed=pl.Series(freed).fill_nan(None),
            limit=self.limit,
            leave=pl.lit(None, pl.Float64),
            p=self.processors,
            allocated=self.processors,
            c=nodes,
            m=self.processors,
            counted=pl.lit(True),
        )
        settings = Settings(self.machine, max(1, self.machine // 4), 10.0, "magnitude", 1.0)
        first, last = float(self.due.min()), float(schedule.select(pl.col("end").max()).item())
        return MeasuredRun(jobs, settings, Window(first, last, 0.0, 0.0), policies, resolution=resolution, own_latency=0.0)


@njit
def _without_reservations(arrival: Floats, processors: Numbers, held: Floats, key: Floats, machine: int) -> Floats:
    """Starts each waiting job that fits, in the order of `key`."""
    jobs = arrival.size
    start, queue = np.full(jobs, np.nan), np.empty(jobs, np.int64)
    queued = submitted = 0
    ends, free = [(np.inf, 0)], machine
    while submitted < jobs or queued > 0:
        now = ends[0][0]
        if submitted < jobs:
            now = min(now, arrival[submitted])
        while ends[0][0] <= now:
            free += heapq.heappop(ends)[1]
        while submitted < jobs and arrival[submitted] <= now:
            place = queued
            while place > 0 and key[queue[place - 1]] > key[submitted]:
                queue[place] = queue[place - 1]
                place -= 1
            queue[place] = submitted
            queued += 1
            submitted += 1
        kept = 0
        for i in range(queued):
            job = queue[i]
            if processors[job] <= free:
                start[job] = now
                free -= processors[job]
                heapq.heappush(ends, (now + held[job], processors[job]))
            else:
                queue[kept] = job
                kept += 1
        queued = kept
    return start
