"""The largest speed at which a run can be expected to be valid: what SPEED=auto picks.

What a job costs the host is real time and does not shrink with the clock: at SPEED=N it is N times as long for Slurm and the
jobs. Each bound of the verdict (validity.py) thus has a largest speed, and the smallest of these binds. Jobs that come at once
wait for each other besides, so submissions and launches are taken as a queue with one server, which is the host: an event of the
virtual instant t comes at t / N, and costs a submission's or a launch's real seconds. Each wait follows from the one before
(Lindley 1952, The theory of queues with a single server), for all events at once:

    W(k) = X(k) - min X(1..k),    X(k) = what the events before k cost in all - arrival(k)

Costs come from a calibration on the running instance (calibration.py). When jobs start, how long they wait and how many of them
do so at once follow from an EASY schedule of the workload on the emulated machine (simulation.py), which knows nothing of
partitions, priorities and nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from polars import col

from mirage.records.validity import Thresholds
from slurm_mirage.base.errors import WrongUse

SAFETY = 0.5
"""Of each limit but that of the backfill cycle, which has a factor of its own. On a fast clock the backfill scheduler hardly
pauses, and its locks hold others up: at SPEED=1000 the 99th percentiles of a run were twice what the queue alone makes of them.
Besides, a host is not always as it was during the calibration."""
CYCLE = "longest backfill cycle"
FASTEST = 1000
"""Timeouts of Slurm that are 60 s can follow a clock up to 65533 / 60 (speed_settings.py); nothing faster is picked."""
RESOLUTION = 1.0
"""Virtual seconds by which Slurm's whole seconds may lengthen a start latency, and do lengthen the largest stretches."""

# A run's longest backfill cycle took 1 to 7 times what the calibration's longest makes of it, for it is the one of thousands that
# had to wait longest for slurmctld's locks.
_OUTLIER = 5.0
_SLOWEST, _BEYOND = 0.01, 100_000.0  # where limits are looked for
_TOLERANCE = 1.001  # a limit is known to this factor, and is never above the true one
_MOMENT = 1e-3  # seconds; a schedule has no job without a run time


@dataclass(frozen=True)
class Cost:
    """What a job costs the host, in real seconds, whatever the speed."""

    hold_p50: float
    """For how much longer than its run time Slurm holds a job's processors, one job after the other; median."""
    hold_p99: float
    """The same, 99th percentile, without what Slurm's whole seconds add."""
    start: float
    """From its submission to its start on an idle machine, median, without what Slurm's whole seconds add."""
    submit: float
    """A submission, of many at once."""
    launch: float
    """All the rest of a job, of many at once: a host can do 1 / (submit + launch) jobs a second."""
    backfill: float | None = None
    """A cycle of the backfill scheduler for each job that waits; None: not seen."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise WrongUse(f"calibration: {name} may be seconds from 0 on, not {value}")


@dataclass(frozen=True)
class Demand:
    """What a workload asks of the host; instants and lengths in virtual seconds."""

    events: pl.DataFrame
    """In order of time: time, is_launch (false: a submission), and at_once: the launch of a job that starts when it is due."""
    mean_runtime: float
    mean_wait: float
    most_waiting: int
    """Jobs that wait at once, at most."""

    @classmethod
    def of(
        cls, dues: Sequence[float], runtimes: Sequence[float], limits: Sequence[float], widths: Sequence[int], processors: int
    ) -> Demand:
        """Of jobs in order of submission, none wider than the machine. Raises WrongUse if there are none."""
        if not dues:
            raise WrongUse("a speed is chosen for a workload of at least one job", parameter="jobs")
        starts, most_waiting = easy(dues, runtimes, limits, widths, processors)
        submissions = [(due, False, False) for due in dues]
        launches = [(start, True, start == due) for start, due in zip(starts, dues, strict=True)]
        schema = {"time": pl.Float64, "is_launch": pl.Boolean, "at_once": pl.Boolean}
        events = pl.DataFrame([*submissions, *launches], schema, orient="row").sort("time", "is_launch", maintain_order=True)
        count = len(dues)
        waits = (start - due for start, due in zip(starts, dues, strict=True))
        return cls(events, sum(runtimes) / count, sum(waits) / count, most_waiting)


@dataclass(frozen=True)
class Limit:
    """What one bound of the verdict allows."""

    name: str
    bound: float
    """Virtual seconds."""
    speed: float
    """The largest speed at which the bound holds; at least 0.01 and at most 100,000, where nothing further is looked for."""
    why: str

    @property
    def safety(self) -> float:
        """The part of it that is taken."""
        return 1.0 if self.name == CYCLE else SAFETY

    @property
    def safe(self) -> float:
        """The largest speed that is taken on its account."""
        return self.speed * self.safety


@dataclass(frozen=True)
class Choice:
    """The speed that was picked, and the limits it follows from."""

    speed: float
    limits: tuple[Limit, ...]

    @property
    def binding(self) -> Limit:
        """The limit that lets the speed be least."""
        return min(self.limits, key=lambda limit: limit.safe)

    def reason(self) -> str:
        """Why it is this speed and no other."""
        limit = self.binding
        if limit.safe >= FASTEST:
            return f"Slurm's timeouts can follow no faster clock; {limit.name} would allow {_short(limit.speed)}"
        if limit.speed < 1:
            return f"there is no slower clock, but {limit.name} allows only {_short(limit.speed)}: the run will hardly be valid"
        allows = f"{limit.name} allows (at most {_short(limit.bound)} s of the cluster's; {limit.why})"
        part = "" if limit.safety == 1 else f"{limit.safety:g} of "
        return f"{part}{_short(limit.speed)}, which {allows}"

    def lines(self) -> list[str]:
        """What each bound allows, and what was picked."""
        allowed = ", ".join(f"{limit.name} {_short(limit.speed)}" for limit in self.limits)
        return [f"largest speed that each bound allows: {allowed}", f"SPEED={self.speed:g} is picked: {self.reason()}"]

    def as_json(self) -> dict[str, Any]:
        """For calibration.json."""
        return {
            "speed": self.speed,
            "reason": self.reason(),
            "safety": SAFETY,
            "fastest": FASTEST,
            "limits": [asdict(limit) for limit in self.limits],
        }


def choose(demand: Demand, cost: Cost, thresholds: Thresholds) -> Choice:
    """The speed for this workload on this host: the smallest safe one, rounded down to two digits, from 1 to FASTEST."""
    figures = (
        "submit lag p99",
        "start latency p50",
        "run-time stretch p50",
        "run-time stretch p99",
        CYCLE,
    )
    allowed = bounds(demand, thresholds)
    limits = tuple(_limit(name, allowed[name], demand, cost) for name in figures if _is_known(name, cost))
    smallest = min(limit.safe for limit in limits)
    return Choice(min(FASTEST, max(1.0, rounded_down(smallest))), limits)


def bounds(demand: Demand, thresholds: Thresholds) -> dict[str, float]:
    """The verdict's bounds for the workload, in virtual seconds, by the names of `predicted`."""

    def larger(knob: str, scale: float) -> float:
        share, seconds = getattr(thresholds, f"{knob}_share"), getattr(thresholds, f"{knob}_seconds")
        return float(max(share * scale, seconds))

    return {
        "submit lag p99": larger("submit_lag", demand.mean_runtime),
        "start latency p50": larger("start_latency", demand.mean_wait),
        "run-time stretch p50": larger("stretch_p50", demand.mean_runtime),
        "run-time stretch p99": larger("stretch_p99", demand.mean_runtime),
        CYCLE: larger("backfill_cycle", demand.mean_wait),
    }


def predicted(demand: Demand, cost: Cost, speed: float) -> dict[str, float]:
    """The verdict's figures at a speed, in virtual seconds."""
    queued = delays(demand, cost, speed)
    submissions, launches = (queued.filter(col("is_launch") == is_launch)["delay"] for is_launch in (False, True))

    def quantile(delay: pl.Series, share: float) -> float:
        found = delay.quantile(share, "linear")
        assert found is not None  # there is at least one job
        return found

    usual = quantile(launches, 0.5)
    real = {
        "submit lag p99": quantile(submissions, 0.99) + cost.submit,
        "start latency p50": usual + cost.start,
        "run-time stretch p50": usual + cost.hold_p50,
        "run-time stretch p99": quantile(launches, 0.99) + max(cost.hold_p50, cost.hold_p99),
        CYCLE: _OUTLIER * (cost.backfill or 0.0) * demand.most_waiting,
    }
    virtual = {name: seconds * speed for name, seconds in real.items()}
    for name in ("start latency p50", "run-time stretch p99"):
        virtual[name] += RESOLUTION
    return virtual


def delays(demand: Demand, cost: Cost, speed: float) -> pl.DataFrame:
    """`demand.events` with `delay`: real seconds for which each waits until the host has done what came before.

    A job's own submission delays its launch too, but that is part of what it costs alone.
    """
    price = pl.when("is_launch").then(cost.launch).otherwise(cost.submit)
    work = demand.events.with_columns(behind=price.cum_sum() - price - col("time") / speed)
    own = pl.when("at_once").then(cost.submit).otherwise(0.0)
    return work.with_columns(delay=(col("behind") - col("behind").cum_min() - own).clip(0.0))


def rounded_down(value: float, digits: int = 2) -> float:
    """A number above 0 with so many significant digits, not above it."""
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return round(math.floor(value / step * (1 + 1e-12)) * step, 12)


def _short(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{float(f'{value:.3g}'):g}"


def easy(
    dues: Sequence[float], runtimes: Sequence[float], limits: Sequence[float], widths: Sequence[int], processors: int
) -> tuple[list[float], int]:
    """When jobs start under EASY backfill, and how many wait at most; jobs in order of submission."""
    from mirage.simulation.simulation import schedule  # numba takes a moment to load

    due = np.array(dues, np.float64)
    # A job that is cancelled while it waits is in the queue like others, and gone as soon as it is not.
    runs = np.maximum(runtimes, _MOMENT)
    start = schedule(due, np.array(widths), runs, np.array(limits), processors, "easy")
    instants, place = np.unique(np.concatenate([due, start]), return_inverse=True)
    changes = np.bincount(place, np.repeat([1, -1], len(due)), len(instants))
    return start.tolist(), int(changes.cumsum().max())


def _is_known(name: str, cost: Cost) -> bool:
    return name != CYCLE or cost.backfill is not None


def _limit(name: str, bound: float, demand: Demand, cost: Cost) -> Limit:
    """The largest speed at which the figure `name` is within the bound: no figure shrinks when the speed grows."""

    def holds(speed: float) -> bool:
        return predicted(demand, cost, speed)[name] <= bound

    low, high = _SLOWEST, _BEYOND
    if not holds(low):
        high = low
    elif holds(high):
        low = high
    while high / low > _TOLERANCE:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return Limit(name, bound, low, _why(name, demand, cost, low))


def _why(name: str, demand: Demand, cost: Cost, speed: float) -> str:
    """What the figure consists of for the most part, at this speed."""
    alone = {
        "submit lag p99": cost.submit,
        "start latency p50": cost.start,
        "run-time stretch p50": cost.hold_p50,
        "run-time stretch p99": max(cost.hold_p50, cost.hold_p99),
        CYCLE: _OUTLIER * (cost.backfill or 0.0) * demand.most_waiting,
    }[name]
    if name == CYCLE:
        return f"{alone:.3f} s real with {demand.most_waiting} waiting"
    if predicted(demand, cost, speed)[name] < 2 * alone * speed:
        return f"{alone:.3f} s real a job"
    events, span = densest(demand, cost, speed)
    return f"densest stretch, {events} submissions and starts within {span:.0f} s"


def densest(demand: Demand, cost: Cost, speed: float) -> tuple[int, float]:
    """The stretch in which the longest delay builds up: its events, and its length in virtual seconds."""
    queued = delays(demand, cost, speed).with_row_index()
    longest = int(queued["delay"].arg_max() or 0)
    before = queued.head(longest + 1)
    # Rounding leaves nothing where the host had just become free.
    began = before.filter(col("delay") <= 1e-9)["index"].max()
    assert isinstance(began, int)  # the first event of all never waits
    stretch = before.slice(began)
    return stretch.height, float(stretch["time"][-1] - stretch["time"][0])
