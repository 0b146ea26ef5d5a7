"""Chooses the speed for SPEED=auto: the largest one at which a run is expected to be valid.

A job costs the host real time, which does not depend on the clock: at SPEED=N it is N times as long for Slurm and the jobs. Each
bound of the verdict (bounds.py) therefore allows a largest speed, and so does the rule that a run has to resolve its waits and run
times (resolution.py). The smallest of these speeds decides. Jobs that are
submitted together also wait for each other, so submissions and launches are modelled as a queue with one server, the host: an
event at the virtual instant t arrives at t / N, and takes the real seconds of a submission or a launch. Each wait follows from
the one before (Lindley 1952, The theory of queues with a single server), for all events at once:

    W(k) = X(k) - min X(1..k),    X(k) = total cost of the events before k - arrival(k)

Costs are measured by a calibration on the running instance (calibration.py). Starts, waits and the number of waiting jobs are
those of a simulated EASY schedule of the workload (simulation.py), without partitions, priorities and nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from polars import col

from mirage.metrics.classes import RUNTIMES
from mirage.verdict import resolution
from mirage.verdict.stretch import FEWEST
from mirage.verdict.thresholds import Thresholds
from slurm_mirage.base.errors import WrongUse

SAFETY = 0.5
"""Share of each limit that is used, except for the limit of the backfill cycle, which has its own factor. On a fast clock the
backfill scheduler hardly pauses, and its locks delay other threads: at SPEED=1000 the 99th percentiles of a run were twice those
of the queue model. Besides, the load of a host can differ from that during the calibration."""
RESOLVED = "resolution"
CYCLE = "longest backfill cycle"
FASTEST = resolution.FASTEST
"""Largest speed that is chosen."""
RESOLUTION = resolution.RECORD
"""Virtual seconds that Slurm's rounding to whole seconds can add to a start latency, and adds to the largest stretches."""

# The longest backfill cycle of a run took 1 to 7 times as long as the calibration's longest cycle predicts: among thousands of
# cycles it is the one that waited longest for slurmctld's locks.
_OUTLIER = 5.0
_SLOWEST, _BEYOND = 0.01, 100_000.0  # range in which limits are searched
_TOLERANCE = 1.001  # relative accuracy of a limit, which is never above the true one
_MOMENT = 1e-3  # seconds; the simulation needs run times above 0


@dataclass(frozen=True)
class Cost:
    """Costs of a job in real seconds of the host, which do not depend on the speed."""

    hold_p50: float
    """Time for which Slurm holds the processors of a job beyond its run time, for jobs one after the other; median."""
    hold_p99: float
    """99th percentile of this time, without Slurm's rounding to whole seconds."""
    start: float
    """Time from submission to start on an idle machine; median, without Slurm's rounding to whole seconds."""
    submit: float
    """A submission, when many are made together."""
    launch: float
    """All other work for a job, when many run together: the host can process 1 / (submit + launch) jobs per second."""
    backfill: float | None = None
    """A cycle of the backfill scheduler for each waiting job; None if no cycle was observed."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise WrongUse(f"calibration: {name} may be seconds from 0 on, not {value}")


@dataclass(frozen=True)
class Demand:
    """Load of a workload on the host; instants and durations in virtual seconds."""

    events: pl.DataFrame
    """Events in order of time: time; is_launch (false for a submission); at_once, for the launch of a job that starts when it is
    due."""
    median_runtime: float
    short_runtime: float
    """Median run time of the shortest class of run time (classes.py) that the verdict judges."""
    mean_wait: float
    wait_p99: float
    most_waiting: int
    """Largest number of waiting jobs."""

    @classmethod
    def of(
        cls, dues: Sequence[float], runtimes: Sequence[float], limits: Sequence[float], widths: Sequence[int], processors: int
    ) -> Demand:
        """Demand of jobs in order of submission, none wider than the machine. Raises WrongUse if there are none."""
        if not dues:
            raise WrongUse("a speed is chosen for a workload of at least one job", parameter="jobs")
        starts, most_waiting = easy(dues, runtimes, limits, widths, processors)
        submissions = [(due, False, False) for due in dues]
        launches = [(start, True, start == due) for start, due in zip(starts, dues, strict=True)]
        schema = {"time": pl.Float64, "is_launch": pl.Boolean, "at_once": pl.Boolean}
        events = pl.DataFrame([*submissions, *launches], schema, orient="row").sort("time", "is_launch", maintain_order=True)
        count = len(dues)
        waits = [start - due for start, due in zip(starts, dues, strict=True)]
        wait_p99 = float(np.quantile(waits, 0.99))
        return cls(events, float(np.median(runtimes)), _short_runtime(runtimes), sum(waits) / count, wait_p99, most_waiting)

    def is_resolved(self, thresholds: Thresholds) -> bool:
        """Whether there is a speed at which a run resolves the waits and run times of the workload."""
        return self.resolvable(thresholds) >= RESOLUTION

    def resolvable(self, thresholds: Thresholds) -> float:
        """The longest resolution of a conclusive run."""
        return thresholds.resolution_share * min(self.mean_wait, self.median_runtime)


def _short_runtime(runtimes: Sequence[float]) -> float:
    lengths = np.asarray(runtimes, np.float64)
    places = np.searchsorted([most for most in RUNTIMES.values() if most is not None], lengths)
    of_classes = [lengths[places == place] for place in range(len(RUNTIMES))]
    return float(np.median(next((lengths_of_class for lengths_of_class in of_classes if lengths_of_class.size >= FEWEST), lengths)))


@dataclass(frozen=True)
class Limit:
    """Largest speed that one bound of the verdict allows."""

    name: str
    bound: float
    """Virtual seconds."""
    speed: float
    """The largest speed at which the bound holds, from 0.01 to 100,000."""
    why: str

    @property
    def safety(self) -> float:
        """Share of the speed that is used."""
        return 1.0 if self.name == CYCLE else SAFETY

    @property
    def safe(self) -> float:
        """Largest speed that is chosen under this limit."""
        return self.speed * self.safety


@dataclass(frozen=True)
class Choice:
    """The chosen speed, and the limits that it follows from."""

    speed: float
    limits: tuple[Limit, ...]

    @property
    def binding(self) -> Limit:
        """The limit with the smallest safe speed."""
        return min(self.limits, key=lambda limit: limit.safe)

    def reason(self) -> str:
        """Reason for the speed in words."""
        limit = self.binding
        if limit.safe >= FASTEST:
            return f"the daemons' timeouts can follow no faster clock; {limit.name} would allow {_short(limit.speed)}"
        if limit.speed < 1:
            return f"there is no slower clock, but {limit.name} allows only {_short(limit.speed)}: the run will hardly be valid"
        allows = f"{limit.name} allows (at most {_short(limit.bound)} s of the cluster's; {limit.why})"
        part = "" if limit.safety == 1 else f"{limit.safety:g} of "
        return f"{part}{_short(limit.speed)}, which {allows}"

    def lines(self) -> list[str]:
        """Lines for the terminal: the speed that each bound allows, and the chosen speed."""
        allowed = ", ".join(f"{limit.name} {_short(limit.speed)}" for limit in self.limits)
        return [f"largest speed that each bound allows: {allowed}", f"SPEED={self.speed:g} is picked: {self.reason()}"]

    def as_json(self) -> dict[str, Any]:
        """Content of calibration.json."""
        return {
            "speed": self.speed,
            "reason": self.reason(),
            "safety": SAFETY,
            "fastest": FASTEST,
            "limits": [asdict(limit) for limit in self.limits],
        }


def choose(demand: Demand, cost: Cost, thresholds: Thresholds) -> Choice:
    """Choose the speed of a workload on this host: the smallest safe speed of all limits, rounded down to two digits, from 1 to
    FASTEST."""
    names = [name for name in bounds(demand, thresholds, 1.0) if _is_known(name, cost)]
    limits = tuple(_limit(name, demand, cost, thresholds) for name in names)
    smallest = min(limit.safe for limit in limits)
    speed = min(FASTEST, max(1.0, rounded_down(smallest)))
    # What a run resolves grows with the speed, so a figure can be beyond its bound at a speed below a limit.
    while speed > 1 and not _all_hold(names, demand, cost, thresholds, speed):
        speed = max(1.0, rounded_down(speed * (1 - 1e-6)))
    return Choice(speed, limits)


def _all_hold(names: Sequence[str], demand: Demand, cost: Cost, thresholds: Thresholds, speed: float) -> bool:
    figures, allowed = predicted(demand, cost, speed), bounds(demand, thresholds, speed)
    return all(figures[name] <= allowed[name] for name in names)


def bounds(demand: Demand, thresholds: Thresholds, speed: float) -> dict[str, float]:
    """Bounds of the verdict for the workload at a speed, in virtual seconds, by the names of `predicted`.

    A workload that no run resolves, because hardly any job waits, is given what Slurm's own timers may cause: it is inconclusive at
    every speed. RESOLVED is not a bound then.
    """
    resolved = demand.is_resolved(thresholds)
    floor = resolution.START * speed
    coarse = max(RESOLUTION, floor)

    def of_waits(share: float, scale: float, seconds: float = 0.0) -> float:
        return max(share * scale, coarse, 0.0 if resolved else seconds)

    limits = {
        "mean submit lag": of_waits(thresholds.submit_lag_share, demand.mean_wait),
        "submit lag p99": of_waits(thresholds.submit_lag_share, demand.wait_p99),
        "start latency p50": of_waits(thresholds.start_latency_share, demand.mean_wait, thresholds.start_latency_seconds),
        "run-time stretch p50": thresholds.stretch_p50_share * demand.median_runtime,
        "run-time stretch of short jobs": thresholds.stretch_class_share * demand.short_runtime + RESOLUTION,
        "run-time stretch p99": thresholds.stretch_tail_share * demand.short_runtime + coarse,
        CYCLE: of_waits(thresholds.backfill_cycle_share, demand.mean_wait, thresholds.backfill_cycle_seconds),
    }
    return {RESOLVED: demand.resolvable(thresholds), **limits} if resolved else limits


def predicted(demand: Demand, cost: Cost, speed: float) -> dict[str, float]:
    """Expected figures of the verdict at a speed, in virtual seconds."""
    queued = delays(demand, cost, speed)
    submissions, launches = (queued.filter(col("is_launch") == is_launch)["delay"] for is_launch in (False, True))

    def quantile(delay: pl.Series, share: float) -> float:
        value = delay.quantile(share, "linear")
        assert value is not None  # there is at least one job
        return value

    usual = quantile(launches, 0.5)
    mean = submissions.mean()
    assert isinstance(mean, float)
    real = {
        RESOLVED: resolution.START,
        "mean submit lag": mean + cost.submit,
        "submit lag p99": quantile(submissions, 0.99) + cost.submit,
        "start latency p50": usual + cost.start,
        "run-time stretch p50": usual + cost.hold_p50,
        "run-time stretch of short jobs": usual + cost.hold_p50,
        "run-time stretch p99": quantile(launches, 0.99) + max(cost.hold_p50, cost.hold_p99),
        CYCLE: _OUTLIER * (cost.backfill or 0.0) * demand.most_waiting,
    }
    virtual = {name: seconds * speed for name, seconds in real.items()}
    for name in ("start latency p50", "run-time stretch p99"):
        virtual[name] += RESOLUTION
    return virtual


def delays(demand: Demand, cost: Cost, speed: float) -> pl.DataFrame:
    """Add `delay` to `demand.events`: real seconds that each event waits until the host has finished the events before it.

    The delay of a launch by the job's own submission is left out, because it is part of the cost of a single job.
    """
    price = pl.when("is_launch").then(cost.launch).otherwise(cost.submit)
    work = demand.events.with_columns(behind=price.cum_sum() - price - col("time") / speed)
    own = pl.when("at_once").then(cost.submit).otherwise(0.0)
    return work.with_columns(delay=(col("behind") - col("behind").cum_min() - own).clip(0.0))


def rounded_down(value: float, digits: int = 2) -> float:
    """Round a number above 0 down to the given significant digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return round(math.floor(value / step * (1 + 1e-12)) * step, 12)


def _short(value: float) -> str:
    """A number with three significant digits, without exponent."""
    return f"{float(f'{value:.3g}'):g}"


def easy(
    dues: Sequence[float], runtimes: Sequence[float], limits: Sequence[float], widths: Sequence[int], processors: int
) -> tuple[list[float], int]:
    """Starts of jobs, in order of submission, under EASY backfilling, and the largest number of waiting jobs."""
    from mirage.simulation.simulation import schedule  # numba takes a moment to load

    due = np.array(dues, np.float64)
    # A job that was cancelled while it waited has no run time: it waits like the others, and ends when it starts.
    runs = np.maximum(runtimes, _MOMENT)
    start = schedule(due, np.array(widths), runs, np.array(limits), processors, "easy")
    instants, place = np.unique(np.concatenate([due, start]), return_inverse=True)
    changes = np.bincount(place, np.repeat([1, -1], len(due)), len(instants))
    return start.tolist(), int(changes.cumsum().max())


def _is_known(name: str, cost: Cost) -> bool:
    return name != CYCLE or cost.backfill is not None


def _limit(name: str, demand: Demand, cost: Cost, thresholds: Thresholds) -> Limit:
    """Search the largest speed at which the figure `name` is within its bound. Every figure grows faster than its bound."""

    def holds(speed: float) -> bool:
        return predicted(demand, cost, speed)[name] <= bounds(demand, thresholds, speed)[name]

    low, high = _SLOWEST, _BEYOND
    if not holds(low):
        high = low
    elif holds(high):
        low = high
    while high / low > _TOLERANCE:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return Limit(name, bounds(demand, thresholds, low)[name], low, _why(name, demand, cost, low))


def _why(name: str, demand: Demand, cost: Cost, speed: float) -> str:
    """The main part of the figure at this speed, in words."""
    if name == RESOLVED:
        return f"a start takes {resolution.START:g} s real, and waits and run times have to be long against it"
    alone = {
        "mean submit lag": cost.submit,
        "submit lag p99": cost.submit,
        "start latency p50": cost.start,
        "run-time stretch p50": cost.hold_p50,
        "run-time stretch of short jobs": cost.hold_p50,
        "run-time stretch p99": max(cost.hold_p50, cost.hold_p99),
        CYCLE: _OUTLIER * (cost.backfill or 0.0) * demand.most_waiting,
    }[name]
    if name == CYCLE:
        measured = alone / _OUTLIER
        return (
            f"{measured:.3f} s real with {demand.most_waiting} waiting, times {_OUTLIER:g}: the longest cycle of a run took up to "
            "that much longer"
        )
    if predicted(demand, cost, speed)[name] < 2 * alone * speed:
        return f"{alone:.3f} s real a job"
    events, span = densest(demand, cost, speed)
    return f"densest stretch, {events} submissions and starts within {span:.0f} s"


def densest(demand: Demand, cost: Cost, speed: float) -> tuple[int, float]:
    """The period in which the longest delay builds up: its number of events, and its length in virtual seconds."""
    queued = delays(demand, cost, speed).with_row_index()
    longest = int(queued["delay"].arg_max() or 0)
    before = queued.head(longest + 1)
    # Delays below the rounding error count as 0.
    began = before.filter(col("delay") <= 1e-9)["index"].max()
    assert isinstance(began, int)  # the first event of all never waits
    stretch = before.slice(began)
    return stretch.height, float(stretch["time"][-1] - stretch["time"][0])
