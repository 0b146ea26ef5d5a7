"""The shortest time that a run resolves, beside the times that it measures.

Slurm's record has whole seconds, 100/SHRINK trace seconds each. Every submission and launch takes real time, which no setting
shortens: START, that is START * SPEED * 100/SHRINK trace seconds. The larger of the two is what the run resolves. Where that is a
large share of the mean wait or of the median run time, the run does not measure the scheduler, even if all other figures are good.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from polars import col

from mirage.records.record import RunRecord
from mirage.text.words import two_digits
from mirage.verdict.thresholds import Thresholds
from slurm_mirage.rm.managers import DEFAULT
from slurm_mirage.rm.registry import IMPLEMENTATIONS

RECORD = 1.0
"""Resolution of the instants in Slurm's records, in seconds of Slurm's time."""
START = 0.04
"""Real seconds from submission to start of a job that need not wait, on a host that is not overloaded: sbatch takes 5 ms, a launch
up to 40 ms. Up to SPEED=25 that is less than the resolution of the record."""
FASTEST = 1000
"""Largest speed that is named. Slurm's timeouts of 60 s can be multiplied by up to 65533 / 60 (clock_settings.py)."""


@dataclass(frozen=True)
class Scales:
    """The times that a run measures; trace seconds, null where there are none."""

    mean_wait: float | None
    """Mean time from the due instant to the start."""
    wait_p99: float | None
    median_runtime: float | None
    """Median of the run times in the workload."""
    load_runtime: float | None = None
    """Mean of the run times in the workload, each weighted by the job's processors."""

    @classmethod
    def of(cls, record: RunRecord) -> Scales:
        """The times of all jobs that started, without presets, whose waits are not measured."""
        jobs = record.jobs.filter(col("preset").is_null()) if "preset" in record.jobs.columns else record.jobs
        started = jobs.drop_nulls("start")
        wait = started.select(wait=(col("start") - col("submit")).clip(0)).to_series()
        ran = started.filter(col("runtime") > 0)
        load = ran.select((col("runtime") * col("processors")).sum() / col("processors").sum()).item()
        p99, median = wait.quantile(0.99, "linear"), ran["runtime"].median()
        return cls(_number(wait.mean()), _number(p99), _number(median), _number(load))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


@dataclass(frozen=True)
class Resolution:
    """The shortest time that a run resolves; trace seconds."""

    record: float
    """Resolution of Slurm's record."""
    floor: float
    """The shortest time from a submission to a start."""
    shrink: float
    """SHRINK, in per cent."""
    on_event_clock: bool = False
    """Whether the clock is the event clock, which has no speed."""
    may_have_event_clock: bool = False
    """Whether the run could have had the event clock."""
    manager: str = IMPLEMENTATIONS[DEFAULT].records.names.manager
    """Name of the resource manager."""

    @classmethod
    def of(cls, record: RunRecord) -> Resolution:
        clock = record.time.clock
        second = clock.virtual_to_trace(RECORD)
        event = record.event_clock.is_used, record.event_clock.is_possible
        return cls(second, START * clock.speed * second, clock.shrink, *event, record.names.manager)

    @property
    def trace_seconds(self) -> float:
        return max(self.record, self.floor)

    def words(self) -> str:
        """What this run resolves, and why."""
        sentence = f"this run resolves {self.trace_seconds:.3g} trace s"
        if self.record >= self.floor:
            at = "" if self.shrink == 100 else f" at SHRINK={self.shrink:g}"
            return f"{sentence} ({self.manager}'s record has whole seconds{at})"
        return f"{sentence} (a start takes {START:g} s of real time)"

    def speed_for(self, shortest: float, thresholds: Thresholds) -> str:
        """The knobs at which a time of `shortest` trace seconds is resolved, rounded to the safe side; "" if there are none.

        Below SHRINK=100 the resolution of Slurm's record would be coarser than its own: SHRINK=100 is named then.
        """
        shrink = max(100.0, self.shrink)
        second, most = RECORD * 100 / shrink, thresholds.resolution_share * shortest
        if most < second:
            return ""
        if self.on_event_clock:
            return "SHRINK=100" if shrink != self.shrink else ""
        whole = "SHRINK=100 " if shrink != self.shrink else ""
        event = "SPEED=event, or " if self.may_have_event_clock else ""
        return f"{whole}{event}SPEED={two_digits(min(FASTEST, most / (START * second)), down=True)} or less"


def too_coarse(resolution: Resolution, scales: Scales, own_wait: float, thresholds: Thresholds) -> list[str]:
    """The reason why the run is too coarse for its waits or run times; [] if it is not.

    own_wait: trace seconds of each wait that are the emulation's (lag and start latency): at a lower SPEED waits are shorter by it.
    """
    wait, runtime = scales.mean_wait, scales.median_runtime
    if wait is None or runtime is None:
        return ["no job started: there are no waits to measure"]
    coarse, share = resolution.trace_seconds, thresholds.resolution_share
    shares = [
        f"{_share(coarse, length)} of the {name} ({_short(length)} s)"
        for name, length in (("mean wait", wait), ("median run time", runtime))
        if coarse > share * length
    ]
    if not shares:
        return []
    reason = f"too coarse: {resolution.words()}, which is {' and '.join(shares)}; at most {share:.0%} is conclusive"
    return [f"{reason}: {_advice(resolution, max(0.0, wait - own_wait), runtime, thresholds)}"]


def _short(value: float) -> str:
    """A number with three significant digits, without exponent."""
    return f"{float(f'{value:.3g}'):.12g}"


def _share(part: float, whole: float) -> str:
    """A share in per cent; above 100 % it says only that."""
    return f"{100 * part / whole:.2g} %" if whole >= part else "more than 100 %"


def _advice(resolution: Resolution, wait: float, runtime: float, thresholds: Thresholds) -> str:
    if knobs := resolution.speed_for(min(wait, runtime), thresholds):
        return f"{knobs} would do"
    least = RECORD * 100 / max(100.0, resolution.shrink) / thresholds.resolution_share
    advice = []
    if wait < least:
        advice.append("jobs hardly wait: take a denser workload (larger LOAD, or fewer NODES)")
    if runtime < least:
        advice.append("most jobs are too short: leave out short ones (MIN_RUNTIME)")
    what = "the event clock does not resolve" if resolution.on_event_clock else "no SPEED resolves"
    return f"{what} times below {least:.3g} s; {', and '.join(advice)}"


def metrics_too_coarse(resolution: Resolution, immediate_below: float | None, thresholds: Thresholds) -> dict[str, str]:
    """Metrics that the run does not resolve, with the reason: `immediate_fraction`, which counts waits below `immediate_below`."""
    if immediate_below is None or resolution.trace_seconds <= thresholds.resolution_share * immediate_below:
        return {}
    knobs = resolution.speed_for(immediate_below, thresholds)
    share = _share(resolution.trace_seconds, immediate_below)
    reason = f"{resolution.words()}, which is {share} of its threshold of {immediate_below:g} s"
    return {"immediate_fraction": f"{reason}: {f'{knobs} would do' if knobs else 'take a larger IMMEDIATE (make metrics)'}"}


def relative(values: pl.Expr, run_times: pl.Expr, unresolved: float = 0.0) -> pl.Expr:
    """Signed times as shares of jobs' run times, less the `unresolved` trace seconds that each may be wrong by."""
    return values.sign() * (values.abs() - unresolved).clip(0.0) / run_times
