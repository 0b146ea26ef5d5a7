"""The runs of make predict: possible courses of a site's queue, each a log of its own (mirage/workloads/continuation.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import polars as pl

from mirage.experiment import configuration
from mirage.experiment.prepare import Prepared, Source, refused, source
from mirage.knobs import resolve
from mirage.knobs.knobs import Knobs
from mirage.knobs.table import BY_NAME, TABLE
from mirage.site import associations, now
from mirage.site.archive import Archive, opened
from mirage.traces.trace import Trace
from mirage.workloads.continuation import HOUR, WEEK, Queue, queue_of
from slurm_mirage.base.errors import WrongUse

BEYOND, AT_LEAST = 1.5, HOUR
"""Jobs come for so many times as long as the last waiting job waits by a quick simulation; seconds."""
_DECIDED = [knob.name for knob in TABLE if knob.is_input and "predict" not in knob.targets and knob.name != "TRACE"]
"""Knobs that courses decide themselves. TRACE is the archive."""
_UNSHRUNK = Decimal(100)


@dataclass(frozen=True)
class Courses:
    """A site's queue, and what its courses have in common. horizon: seconds from now on in which jobs come."""

    knobs: Knobs
    taken: Archive
    source: Source
    queue: Queue
    horizon: float

    @classmethod
    def of(cls, knobs: Knobs) -> Courses:
        """The queue in SITE. Raises WrongUse for an archive without it, or without a job that waits."""
        knobs = resolve.with_texts(knobs, {name: BY_NAME[name].default for name in _DECIDED})
        taken = opened(knobs.workload.site)
        waiting = now.waiting(taken)
        origin = source(knobs.workload, knobs.nodes.machine)
        begin, instant = (float(at) - float(origin.trace.header["UnixStartTime"]) for at in (taken.begin, taken.end))
        queue = queue_of(
            origin.trace,
            instant,
            waiting,
            _by_number(taken),
            is_ranked=_is_ranked(knobs),
            running=now.running(taken),
            begin=begin,
        ).without(lambda jobs: refused(knobs, jobs))
        if queue.waiting.is_empty():
            left = f"; {'; '.join(f'{count} {reason}' for reason, count in queue.left.items())}" if queue.left else ""
            raise WrongUse(f"{taken.path}: no job waits{left}", parameter="site")
        window = replace(knobs.workload, begin=f"{instant:.0f}", end=None)
        jobs = replace(knobs.jobs, preset="all", sizes="fit")
        knobs = replace(knobs, workload=window, jobs=jobs)
        return cls(knobs, taken, origin, queue, _horizon(queue, knobs.nodes.machine.processors, knobs.workload.seed))

    def source_of(self, number: int) -> Source:
        """The log of a course, from 1 on. The same SEED and number give the same one."""
        digest = hashlib.sha256(f"{self.source.trace.sha256} course {number}".encode()).hexdigest()
        rng = np.random.Generator(np.random.PCG64([self.knobs.workload.seed, number]))
        trace = replace(self.queue.drawn(rng, self.horizon), sha256=digest)
        return Source(trace, {**self.source.description, "course": number})

    def prepared(self, number: int, trace: Trace) -> Prepared:
        """The run of a course. Nothing is recorded of its jobs."""
        return replace(Prepared.make(self.knobs, trace, _UNSHRUNK), replica=number, recorded=None)

    def left(self) -> list[str]:
        """What is not continued, a line each."""
        return [f"not predicted: {count} {reason}" for reason, count in self.queue.left.items()]

    def wanted(self, job: int | None) -> Sequence[str]:
        """The names of the jobs that are asked for: all, or JOB, of an array all tasks that wait. Raises WrongUse."""
        names: list[str] = self.queue.waiting["name"].to_list()
        if job is None:
            return names
        found = [name for name in names if name.partition("_")[0] == str(job)]
        why = {reason for name, reason in self.queue.missing.items() if name.partition("_")[0] == str(job)}
        if not found and why:
            raise WrongUse(f"{job} is not predicted: {'; '.join(sorted(why))}", parameter="job")
        if not found:
            numbers = list(dict.fromkeys(name.partition("_")[0] for name in names))
            shown = ", ".join(numbers[:12]) + (", ..." if len(numbers) > 12 else "")
            raise WrongUse(f"{job} does not wait in the archive; it may be one of {shown}", parameter="job")
        return found


def _is_ranked(knobs: Knobs) -> bool:
    """`Queue.is_ranked`."""
    settings = {**configuration.in_force(knobs.scheduler), **configuration.tuned(knobs.scheduler)}
    return any(name.lower() == "prioritytype" and str(value).lower() == "priority/multifactor" for name, value in settings.items())


def _by_number(taken: Archive) -> dict[tuple[int, str], int]:
    """`now.fair_shares` by the numbers of users."""
    numbers = associations.numbers(taken)
    return {(numbers[user], account): more for (user, account), more in now.fair_shares(taken).items() if user in numbers}


def _horizon(queue: Queue, machine: int, seed: int) -> float:
    """`Courses.horizon`: from an hour to a week."""
    from mirage.simulation.simulation import schedule  # compiled: loading it takes a moment

    frame = queue.drawn(np.random.Generator(np.random.PCG64([seed, 0])), HOUR).frame
    here = frame.filter(pl.col("submit") < queue.instant)
    passed = np.concatenate([queue.running["elapsed"].to_numpy(), np.zeros(here.height - queue.running.height)])
    run = np.maximum(here["run_time"].to_numpy() - passed, 1.0)
    limit = np.maximum(here["requested_time"].to_numpy() - passed, run)
    wide = here.select(pl.max_horizontal("requested_processors", "allocated_processors").clip(1, machine)).to_series().to_numpy()
    starts = schedule(np.zeros(here.height), wide, run, limit, machine, "easy")
    return float(np.clip(BEYOND * starts.max(), AT_LEAST, WEEK))
