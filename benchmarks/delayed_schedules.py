"""Schedules of simulated schedulers with delays whose effect on the metrics is known, to check the error budget against."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import polars as pl
from numba import njit
from numpy.typing import NDArray

from mirage.metrics.formulas import Settings
from mirage.metrics.measured_jobs import Window
from mirage.simulation import dispatch, simulation
from mirage.statistics.emulation_error import MeasuredRun
from mirage.workloads import models

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

KNOWN = ("fcfs", "easy", "conservative")
"""Schedulers that the budget simulates too."""
LATENESS = ("all", "half", "wide", "bursts", "growing", "backfilled", "drains", "requeues")
"""Which jobs start late, in this order: all; a random half; the widest fifth; groups of jobs submitted one after another; all, each
later than the one before; those that start before a job that came earlier; the first ones after three instants at which nodes were
drained; those that were put back in the queue."""
UNKNOWN = ("first fit", "shortest first")
"""Schedulers that it does not know: without reservations, in order of submission or of the time limit."""


@dataclass(frozen=True)
class Delays:
    """Seconds, per job. lag: from due to acceptance; stretch: of the run time, signed; freed: from its end to free processors;
    late: from the scheduler's decision to its start; requeued: from due until it was back in the queue, which is no delay"""

    lag: Floats
    stretch: Floats
    freed: Floats
    late: Floats
    requeued: Floats


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
        zeros = np.zeros(jobs)
        return Delays(kinds[0] * lag, np.maximum(kinds[1] * stretch, -0.9 * self.run), kinds[2] * freed, zeros, zeros)

    def lateness(self, random: np.random.Generator, pattern: str, scheduler: str) -> Delays:
        """Only late starts, of one of LATENESS, of 5 to 200 s; those of a pattern also differ by up to a half."""
        jobs, size = len(self.due), np.exp(random.uniform(np.log(5), np.log(200)))
        late, chosen, requeued = size * random.uniform(0.75, 1.25, jobs), np.zeros(jobs, np.bool_), np.zeros(jobs)
        if pattern in ("all", "growing"):
            chosen[:] = True
        elif pattern == "half":
            chosen = random.random(jobs) < 0.5
        elif pattern == "wide":
            chosen = self.processors >= np.quantile(self.processors, 0.8)
        elif pattern == "bursts":
            for first in random.integers(jobs, size=random.integers(2, 8)):
                chosen[first : first + max(2, jobs // 20)] = True
        elif pattern == "requeues":
            chosen = random.random(jobs) < 0.1
            requeued = np.where(chosen, random.uniform(60, 1800, jobs), 0.0)
        else:
            start = self.schedule(scheduler, self.none())["start"].to_numpy()
            if pattern == "backfilled":
                # An earlier job waits when it starts.
                chosen = start < np.maximum.accumulate(start)
            else:
                for instant in random.uniform(start.min(), start.max(), 3):
                    chosen[np.argsort(np.where(start >= instant, start, np.inf))[: max(2, jobs // 20)]] = True
        if pattern == "growing":
            late *= 2 * np.arange(jobs) / jobs
        zeros = np.zeros(jobs)
        return Delays(zeros, zeros, zeros, np.where(chosen, late, 0.0), requeued)

    def schedule(self, scheduler: str, delays: Delays) -> pl.DataFrame:
        """Columns due, lag, eligible, start, end of the jobs. A late one has its processors from the scheduler's decision on."""
        arrival = np.maximum.accumulate(self.due + delays.lag) + delays.requeued
        run = self.run + delays.stretch
        held = np.maximum(run + delays.freed + delays.late, 1e-3)
        if scheduler in UNKNOWN:
            key = self.limit if scheduler == "shortest first" else np.arange(len(self.due), dtype=np.float64)
            start = _without_reservations(arrival, self.processors, held, key, self.machine)
        else:
            order = np.argsort(arrival, kind="stable")
            start = np.empty(len(order))
            start[order] = simulation.schedule(
                arrival[order], self.processors[order], held[order], self.limit[order], self.machine, scheduler
            )
        start += delays.late
        lag, eligible = arrival - delays.requeued - self.due, np.where(delays.requeued > 0, arrival, np.nan)
        return pl.DataFrame({"due": self.due, "lag": lag, "eligible": eligible, "start": start, "end": start + run}).with_columns(
            pl.col("eligible").fill_nan(None)
        )

    def none(self) -> Delays:
        zeros = np.zeros(len(self.due))
        return Delays(zeros, zeros, zeros, zeros, zeros)

    def run_of(self, schedule: pl.DataFrame, freed: Floats, policies: tuple[str, ...], resolution: float = 0.0) -> MeasuredRun:
        """The schedule as the records of a run. freed: as measured, NaN: not"""
        nodes = -(-self.processors // 4)
        arrival = np.fmax(self.due + schedule["lag"].to_numpy(), schedule["eligible"].to_numpy())
        until = schedule["end"].to_numpy() + np.nan_to_num(freed)
        never = np.full(len(self.due), np.inf)
        recorded = dispatch.Recorded(
            arrival, self.processors, schedule["start"].to_numpy(), until, self.limit, never, self.machine, resolution
        )
        jobs = schedule.with_columns(
            late=pl.Series(dispatch.dispatch(recorded, policies).beyond(0.0, 0.0, resolution)).fill_nan(None),
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


@njit(nogil=True)
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
