"""Queues whose long run is known, to check intervals for other jobs against: simulated schedules of millions of jobs.

Recorded logs are read from the folder that MIRAGE_LOGS names. Their weeks, and those of a generated log, follow each other in
random order, so that the long run exists and the rhythm of days and weeks stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mirage.metrics.formulas import Settings
from mirage.simulation import simulation
from mirage.traces.swf import read_swf
from mirage.workloads import models

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

WARM_UP = 10_000  # jobs
_WEEK = 7 * 86_400
_LOGS = {
    "KTH, EASY": ("KTH-SP2-1996.unfiltered.swf.gz", 100),
    "HPC2N, EASY": ("alea-hpc2n-part.swf.gz", 240),
}
_GENERATED = 100_000  # jobs of which weeks are drawn
_CAPACITY = 30_000  # jobs
LONGEST = 43_200.0  # s: sites limit run times


@dataclass(frozen=True)
class Workload:
    """Jobs in order of submission. submit: for a machine that is loaded in full; limit: run time expected by the scheduler"""

    submit: Floats
    processors: Numbers
    run: Floats
    limit: Floats
    machine: int

    def schedule(self, policy: str, load: float) -> Schedule:
        """load: share of the machine that the jobs need"""
        submit = self.submit / load
        start = simulation.schedule(submit, self.processors, self.run, self.limit, self.machine, policy)
        return Schedule(submit[WARM_UP:], start[WARM_UP:], self.run[WARM_UP:], self.processors[WARM_UP:], self.machine)

    def redrawn(self, random: np.random.Generator) -> Workload:
        """The same jobs, each run time multiplied by a number drawn from 0.5 to 1.5."""
        run = self.run * random.uniform(0.5, 1.5, len(self.run))
        return replace(self, run=run, limit=np.maximum(run, self.limit))

    def capacity(self, policy: str) -> float:
        """Share of the machine that the scheduler uses while many jobs wait."""
        jobs = slice(_CAPACITY)
        width, run = self.processors[jobs], self.run[jobs]
        start = simulation.schedule(np.zeros(len(run)), width, run, self.limit[jobs], self.machine, policy)
        until = np.quantile(start, 0.95)
        return float((width * np.clip(np.minimum(start + run, until) - start, 0, None)).sum() / (self.machine * until))


@dataclass(frozen=True)
class Schedule:
    """A schedule without its first WARM_UP jobs."""

    submit: Floats
    start: Floats
    run: Floats
    processors: Numbers
    machine: int

    def jobs(self, begin: int = 0, count: int | None = None) -> pl.DataFrame:
        """Some of the jobs, as `Population.inside`."""
        jobs = slice(begin, None if count is None else begin + count)
        start, run, width = self.start[jobs], self.run[jobs], self.processors[jobs]
        times = {"a": self.submit[jobs], "q": self.submit[jobs], "s": start, "f": start + run, "t": run}
        known = {"p": width, "c": width, "m": width.astype(np.float64), "suspended": np.zeros(len(run))}
        return pl.DataFrame({"id": np.arange(len(run)), **times, **known})

    @cached_property
    def settings(self) -> Settings:
        return Settings(self.machine, self.machine, 10.0, "magnitude", 1.0)


@dataclass(frozen=True)
class Queue:
    """A kind of queue. policy: of its scheduler; other: a change whose effect lasts, of policy and workload"""

    name: str
    policy: str
    drawn: Callable[[np.random.Generator, int], Workload]
    other: Callable[[Workload], tuple[str, Workload]]

    def pairs(self, jobs: int, load: float, seed: int) -> Iterator[tuple[bool, Schedule, Schedule]]:
        """Two pairs of schedules: the queue beside the changed one, and two that are equal in the long run (True)."""
        random = np.random.default_rng(seed)
        workload = self.drawn(random, jobs + WARM_UP)
        if self.policy == "fcfs":
            load *= workload.capacity(self.policy)
        policy, changed = self.other(workload)
        yield False, workload.schedule(self.policy, load), changed.schedule(policy, load)
        one, two = (workload.redrawn(random).schedule(self.policy, load) for _ in range(2))
        yield True, one, two


def _at_full_load(gaps: Floats, processors: Numbers, run: Floats, limit: Floats, machine: int) -> Workload:
    submit = np.cumsum(gaps)
    return Workload(submit * float((processors * run).sum() / machine / submit[-1]), processors, run, limit, machine)


def _one_server(random: np.random.Generator, jobs: int) -> Workload:
    """Exponential gaps and run times (M/M/1)."""
    run = random.exponential(60.0, jobs).clip(1e-3)
    return _at_full_load(random.exponential(1.0, jobs), np.ones(jobs, np.int64), run, run, 1)


def _parallel(random: np.random.Generator, jobs: int) -> Workload:
    """1 to 32 of 64 processors, lognormal run times, limits of up to 5 times these, random gaps."""
    run = (600 * random.lognormal(0, 1.3, jobs)).clip(1.0, LONGEST)
    limit = run * random.choice([1.0, 1.5, 2.0, 5.0], jobs)
    return _at_full_load(random.exponential(1.0, jobs), 2 ** random.integers(0, 6, jobs), run, limit, 64)


def _weeks(jobs: pl.DataFrame, machine: int) -> Callable[[np.random.Generator, int], Workload]:
    """jobs: SWF; random weeks of it, the last one left out"""
    width = pl.max_horizontal("allocated_processors", "requested_processors")
    known = jobs.select(submit="submit", p=width, run="run_time", limit=pl.max_horizontal("run_time", "requested_time"))
    known = known.filter(pl.col("run") > 0, pl.col("p").is_between(1, machine)).sort("submit")
    submit, width_of, run, limit = (known[name].to_numpy() for name in known.columns)
    week = (submit - submit[0]) // _WEEK
    weeks = [np.flatnonzero(week == number) for number in range(int(week[-1]))]

    def drawn(random: np.random.Generator, count: int) -> Workload:
        chosen = random.integers(len(weeks), size=1 + 2 * count * len(weeks) // len(submit))
        places = np.concatenate([weeks[one] for one in chosen])[:count]
        number = np.repeat(np.arange(len(chosen)), [len(weeks[one]) for one in chosen])[:count]
        instants = submit[places] - submit[0] + _WEEK * (number - week[places])
        gaps = np.diff(instants.astype(np.float64), prepend=instants[0] - 1.0)
        return _at_full_load(gaps, width_of[places].astype(np.int64), run[places] * 1.0, limit[places] * 1.0, machine)

    return drawn


def _generated(random: np.random.Generator, jobs: int) -> Workload:
    return _weeks(models.generate("lublin", _GENERATED, 1, 256, load=0.7), 256)(random, jobs)


def _backfilled(workload: Workload) -> tuple[str, Workload]:
    return "easy", workload


def _exact(workload: Workload) -> tuple[str, Workload]:
    return "easy", replace(workload, limit=workload.run)


def _faster(workload: Workload) -> tuple[str, Workload]:
    return "fcfs", replace(workload, run=0.97 * workload.run)


def queues() -> list[Queue]:
    """The kinds; recorded ones if MIRAGE_LOGS names their folder."""
    folder = os.environ.get("MIRAGE_LOGS", "")
    logs = {name: (Path(folder) / file, machine) for name, (file, machine) in _LOGS.items() if folder}
    return [
        Queue("one server", "fcfs", _one_server, _faster),
        Queue("64 processors, FCFS", "fcfs", _parallel, _backfilled),
        Queue("64 processors, EASY", "easy", _parallel, _exact),
        Queue("model lublin, EASY", "easy", _generated, _exact),
        *(Queue(name, "easy", _weeks(read_swf(path)[0], machine), _exact) for name, (path, machine) in logs.items()),
    ]
