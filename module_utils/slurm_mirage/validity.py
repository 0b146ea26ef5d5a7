"""The verdict on a run: whether what was measured is the schedule of the scheduler, or of the emulation.

Errors of the emulation come in real time (a submission takes some 5 ms, a launch 20 to 40 ms, whatever the speed) and Slurm's
own record in whole virtual seconds; in trace seconds both grow, by SPEED * 100/SHRINK and by 100/SHRINK. What they spoil is
relative: a launch that takes 30 trace seconds is nothing where jobs run and wait for hours. So most bounds are shares of the
run's own mean run time or mean wait, but never less than what Slurm itself resolves. docs/validity.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import polars as pl
from polars import col

from .collect import Collected
from .errors import WrongUse
from .run_records import NOT_ENDED

_MICROSECOND = 1e-6


@dataclass(frozen=True)
class Thresholds:
    """Bounds of a valid run. Shares are fractions; `_seconds` are virtual, that is Slurm's own."""

    submit_lag_share: float = 0.05
    """p99 of the submit lag, of the mean run time."""
    submit_lag_seconds: float = 1.0
    start_latency_share: float = 0.05
    """Median start latency, of the mean wait."""
    start_latency_seconds: float = 4.0
    """batch_sched_delay, Slurm's default 3 s until it looks at a new job, and 1 s that its record resolves."""
    stretch_p50_share: float = 0.01
    """Median run-time stretch, of the mean run time."""
    stretch_p50_seconds: float = 1.0
    stretch_p99_share: float = 0.05
    stretch_p99_seconds: float = 2.0
    backfill_cycle_share: float = 0.05
    """Longest backfill cycle, of the mean wait."""
    backfill_cycle_seconds: float = 30.0
    """bf_interval, Slurm's default: a cycle may take as long as the pause between two."""
    nodes_not_responding: int = 0
    clock_speed_share: float = 0.01
    """Difference between the speed that Slurm's record shows and the one asked for, of the latter."""
    disagreements_share: float = 0.01
    """Disagreements of the two records, of the number of jobs."""

    @classmethod
    def of(cls, changes: Mapping[str, Any]) -> Thresholds:
        """The defaults with some bounds changed. Raises WrongUse for a bound that does not exist or is below 0."""
        known = [field.name for field in fields(cls)]
        for name, value in changes.items():
            if name not in known:
                raise WrongUse(f"thresholds: {name!r} may be one of {', '.join(known)}")
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise WrongUse(f"thresholds: {name}: {value!r} may be a number, 0 or more")
        return cls(**changes)


def read_figures(path: Path) -> pl.DataFrame:
    """samples.csv or sdiag.csv, all numbers (null: none, or a torn line); without columns if the file is not there or empty."""
    if not path.exists() or path.stat().st_size == 0:
        return pl.DataFrame()
    frame = pl.read_csv(path, infer_schema=False, truncate_ragged_lines=True)
    return frame.with_columns(pl.all().cast(pl.Float64, strict=False))


def judge(
    collected: Collected,
    samples: pl.DataFrame,
    sdiag: pl.DataFrame,
    result: Mapping[str, Any],
    processors: int,
    nodes: int,
    thresholds: Thresholds | None = None,
) -> dict[str, Any]:
    """The member "validity" of metrics.json; times in trace seconds, null for a figure that the run did not yield.

    `samples` and `sdiag` are the replay's (`read_figures`), `result` its result.json, or if that is not there, progress.json;
    `processors` and `nodes` are those of the machine.
    """
    bounds = thresholds or Thresholds()
    figures = measure(collected, samples, sdiag, processors, nodes)
    reasons = [
        *_broken(collected, result, figures, bounds),
        *_exceeded(collected, figures, bounds),
    ]
    return {"valid": not reasons, "reasons": reasons, **figures}


# ---- the figures ----


def measure(collected: Collected, samples: pl.DataFrame, sdiag: pl.DataFrame, processors: int, nodes: int) -> dict[str, Any]:
    """The figures of the verdict, without a judgement; see `judge`."""
    jobs, evidence = collected.jobs, collected.evidence
    latency = start_latencies(collected, processors, nodes)
    return {
        "submit_lag_p99": _quantile(jobs["submit_lag"], 0.99),
        "start_latency_p50": _quantile(latency, 0.5),
        "launch_latency_p50": _launch_latency(collected),
        "runtime_stretch_p50": _quantile(evidence["stretch"], 0.5),
        "runtime_stretch_p99": _quantile(evidence["stretch"], 0.99),
        "nodes_not_responding": _largest_count(samples, "nodes_not_responding"),
        "backfill_cycle_max": _backfill_cycle(sdiag, collected.time.second),
        "retries": collected.retries,
        "resubmitted": collected.resubmitted,
        "limits_extended": evidence.filter("limit_extended").height,
        "host_cpu": _rounded(samples["cpu_busy"].mean()) if "cpu_busy" in samples.columns else None,
        "clock_speed": _clock_speed(collected),
        "disagreements": collected.disagreements.height,
    }


def _launch_latency(collected: Collected) -> float | None:
    """Trace seconds from Slurm's start of a job to sigsleep's, in the median.

    Slurm cuts its instant off to the whole second, so the difference is half a second too long if starts fall evenly over the
    second: that is taken off. slurmctld may start jobs at much the same fraction of every second, so the figure is known to half a
    second of Slurm's time only, and can be negative.
    """
    difference = _quantile(collected.evidence["launch"], 0.5)
    if difference is None:
        return None
    return _rounded((difference * collected.time.clock.speed - 0.5) * collected.time.second)


def _rounded(value: Any) -> float | None:
    return None if value is None else round(float(value), 6)


def _quantile(values: pl.Series, share: float) -> float | None:
    return _rounded(values.drop_nulls().quantile(share, "linear"))


def _largest_count(samples: pl.DataFrame, column: str) -> int | None:
    largest = samples.select(col(column).max()).item() if column in samples.columns else None
    return None if largest is None else int(largest)


def _backfill_cycle(sdiag: pl.DataFrame, second: float) -> float | None:
    """Trace seconds of the longest backfill cycle of the run. slurmctld measures it on its own (virtual) clock.

    Its "Max cycle" counts since slurmctld's statistics began, so the value that the first sample finds may be of an earlier run;
    what it grows to later is of this one.
    """
    if sdiag.is_empty() or not {"bf_last_cycle_us", "bf_max_cycle_us"} <= set(sdiag.columns):
        return None
    largest = col("bf_max_cycle_us")
    grown = sdiag.select(largest.filter(largest.diff() > 0).max()).item()
    longest = sdiag.select(pl.max_horizontal(col("bf_last_cycle_us").max(), pl.lit(grown, pl.Float64))).item()
    return None if longest is None else _rounded(longest * _MICROSECOND * second)


def _clock_speed(collected: Collected) -> float | None:
    """How fast Slurm's clock ran: the slope of its record of the submissions over the journal's real time.

    A slope over all jobs, because each of Slurm's instants is off by up to a second.
    """
    both = collected.jobs.select("id", "submit").join(collected.evidence, on="id").drop_nulls("slurm_submit")
    if both.height < 2 or both["submit"].n_unique() < 2:
        return None
    slope = both.select(pl.cov("submit", "slurm_submit") / col("submit").var()).item()
    return _rounded(slope * collected.time.clock.speed)


def _remedy(collected: Collected) -> str:
    return "raise SHRINK" if collected.time.clock.speed == 1 else "lower SPEED or raise SHRINK"


def start_latencies(collected: Collected, processors: int, nodes: int) -> pl.Series:
    """Trace seconds from submission (or eligibility, if that was later) to start, of jobs that need not have waited.

    Those are the jobs at whose submission the idle processors were enough for them and for all that were waiting. An empty
    queue would be a simpler rule, but where launches are slow against the gaps between submissions the queue is never empty, and
    that is what this figure has to show. Jobs of whole nodes count as whole nodes.
    """
    whole = collected.evidence.select("id", "whole_nodes")
    jobs = collected.jobs.filter(col("state") != "LOST").join(whole, on="id", maintain_order="left")
    taken = pl.when("whole_nodes").then(col("nodes") * (processors / nodes)).otherwise(0)
    jobs = jobs.with_columns(width=pl.max_horizontal("processors", taken), left=pl.coalesce("start", "end"))
    ran = jobs.drop_nulls("start")
    pauses = collected.suspensions.drop_nulls().join(jobs.select("id", "width"), left_on="job", right_on="id")

    def change(of: pl.DataFrame, at: str, waiting: int, busy: int) -> pl.DataFrame:
        asks = col("id") if at == "submit" else pl.lit(None, pl.Int64)
        events = of.select(time=at, asks=asks, waiting=waiting * col("width"), busy=busy * col("width"))
        return events.drop_nulls("time")

    events = pl.concat(
        [
            change(jobs, "submit", 1, 0),
            change(jobs, "left", -1, 0),
            change(ran, "start", 0, 1),
            change(ran, "end", 0, -1),
            change(pauses, "suspend", 0, -1),
            change(pauses, "resume", 0, 1),
        ]
    )
    # Of one instant, what frees or takes processors comes before the submissions.
    events = events.sort("time", col("asks").is_not_null(), maintain_order=True)
    sums = events.with_columns(col("waiting", "busy").cum_sum())
    at_once = sums.filter(col("asks").is_not_null() & (col("waiting") + col("busy") <= processors))
    served = ran.join(at_once, left_on="id", right_on="asks", how="semi", maintain_order="left")
    return served.select(latency=col("start") - pl.max_horizontal("submit", "eligible")).to_series()


# ---- the judgement ----


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _broken(collected: Collected, result: Mapping[str, Any], figures: Mapping[str, Any], bounds: Thresholds) -> list[str]:
    """What must not happen at all, however little it changes."""
    table = collected.jobs.join(collected.evidence, on="id", maintain_order="left")
    state, failed = col("state"), col("state").is_in(["FAILED", "BOOT_FAIL", "OUT_OF_MEMORY"])
    rules = [
        (state == "LOST", "submitted and not to be found in any record"),
        (state.is_in(NOT_ENDED), "not ended when the records were collected"),
        (
            (state == "TIMEOUT") & (col("runtime") < col("limit")),
            f"killed at a time limit above the run time: {_remedy(collected)}",
        ),
        (failed & ~col("recorded"), "failed at launch, without a record of sigsleep: see the logs of slurmd"),
        (failed & col("recorded"), "failed in the middle, which no played job does by itself: see the logs of slurmd"),
        (state == "NODE_FAIL", "ended by the failure of a node"),
        ((state == "CANCELLED") & ~col("cancel_wanted"), "cancelled by somebody else than the workload"),
    ]
    found = [f"{_several(count, 'job')} {what}" for wrong, what in rules if (count := table.filter(wrong).height)]
    if collected.unsubmitted:
        found.append(f"{_several(collected.unsubmitted, 'job')} of the plan never submitted")
    if "ended" not in result:
        found.append(f"the replay has not finished ({result.get('message') or 'see replay.log'})")
    if result.get("released"):
        found.append(f"{_several(result['released'], 'launch failure')} after which Slurm held the job: see the logs of slurmd")
    away = figures["nodes_not_responding"]
    if away is None:
        found.append("no sample of the nodes in samples.csv: whether all of them responded is not known")
    elif away > bounds.nodes_not_responding:
        found.append(f"{_several(away, 'node')} did not respond at some time of the run, {bounds.nodes_not_responding} may")
    return found


def _exceeded(collected: Collected, figures: Mapping[str, Any], bounds: Thresholds) -> list[str]:
    """Figures beyond their bounds."""
    jobs, second = collected.jobs, collected.time.second
    run_time = jobs.select(col("runtime").mean()).item() or 0.0
    wait = jobs.select((col("start") - col("submit")).mean()).item() or 0.0
    hint = _remedy(collected)
    if (figures["host_cpu"] or 0) > 0.9:
        hint += f" (the host's processors were busy to {figures['host_cpu']:.0%})"
    again = collected.resubmitted
    late = f"slurmctld lost {_several(again, 'job')}, submitted again later" if again else hint
    checks = [
        ("submit_lag", "submit lag p99", figures["submit_lag_p99"], "mean run time", run_time, late),
        ("start_latency", "start latency p50", figures["start_latency_p50"], "mean wait", wait, hint),
        ("stretch_p50", "run-time stretch p50", figures["runtime_stretch_p50"], "mean run time", run_time, hint),
        ("stretch_p99", "run-time stretch p99", figures["runtime_stretch_p99"], "mean run time", run_time, hint),
        ("backfill_cycle", "longest backfill cycle", figures["backfill_cycle_max"], "mean wait", wait, hint),
        ("submit_lag", "the replay's interruption", collected.interrupted, "mean run time", run_time, "run it anew"),
    ]
    found = []
    for knob, name, value, scale_name, scale, advice in checks:
        share, seconds = getattr(bounds, f"{knob}_share"), getattr(bounds, f"{knob}_seconds")
        bound = max(share * scale, seconds * second)
        if value is not None and value > bound:
            why = f"{share * 100:g} % of the {scale_name}" if bound > seconds * second else f"{seconds:g} s of Slurm's time"
            found.append(f"{name} is {value:.4g} trace s, over {bound:.4g} s ({why}): {advice}")
    return [*found, *_clock(collected, figures["clock_speed"], bounds), *_records(collected, bounds)]


def _clock(collected: Collected, speed: float | None, bounds: Thresholds) -> list[str]:
    asked = collected.time.clock.speed
    submits = collected.jobs["submit"]
    if speed is None or submits.is_empty():
        return []
    span = collected.jobs.select(col("submit").max() - col("submit").min()).item()
    # Slurm's instants are off by up to 1 s at either end.
    allowed = max(bounds.clock_speed_share, 2 * collected.time.second / span)
    if abs(speed / asked - 1) <= allowed:
        return []
    return [f"Slurm's clock ran {speed:.4g} times as fast as real time, not {asked:g} times (to {allowed:.2%})"]


def _records(collected: Collected, bounds: Thresholds) -> list[str]:
    count, allowed = collected.disagreements.height, bounds.disagreements_share * collected.jobs.height
    if count <= allowed:
        return []
    kinds = (
        collected.disagreements.group_by("kind")
        .agg(pl.len(), by=col("seconds").median())
        .sort(["len", "kind"], descending=[True, False])
    )
    shown = ", ".join(
        f"{kind}: {number}" + ("" if by is None else f" (median {by:.3g} s)") for kind, number, by in kinds.head(3).iter_rows()
    )
    return [
        f"sigsleep's and Slurm's records disagree {_several(count, 'time')}, over {allowed:.3g} "
        f"({bounds.disagreements_share:.3g} of the jobs): {shown}"
    ]
