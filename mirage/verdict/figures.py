"""The figures of a run's verdict: what the emulation added to its times, and what it broke. Times are trace seconds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from polars import col

from mirage.records.record import RunRecord
from mirage.records.rounding import quantile, rounded
from mirage.records.run_folder import RunFolder
from mirage.records.run_samples import SILENT, lacking_nodes, longest_cycle, mean_cycle
from mirage.verdict import aspects, clock_speed, event_clock, events, incidents
from mirage.verdict.resolution import Resolution, Scales
from mirage.verdict.start_latency import start_latencies
from mirage.verdict.stretch import FEWEST, FEWEST_OF_TAILS, Stretch, by_class, of_load, shares
from mirage.verdict.thresholds import Thresholds
from slurm_mirage.rm.evidence import Layout


def measure(run: RunFolder, record: RunRecord, layout: Layout, thresholds: Thresholds, gaps: pl.DataFrame) -> dict[str, Any]:
    """The figures by name; what could not be measured is null. The arguments are those of `validity.judge`."""
    samples, diagnostics, result = run.samples, run.diagnostics, run.result
    jobs, evidence = record.jobs, record.evidence
    resolution, scales = Resolution.of(record), Scales.of(record)
    latency = start_latencies(record, layout)
    stretched = shares(record, resolution)
    whole = Stretch.of(stretched)
    lags = jobs.filter(~events.due_without_controller(record))["submit_lag"]
    lag_mean = rounded(lags.mean())
    planned = events.planned_absence(record, samples, len(layout.nodes))
    lacking, most_lacking = lacking_nodes(samples, len(layout.nodes), planned)
    silent = events.unplanned(samples, SILENT, planned)
    return {
        "resolution": {
            "record": rounded(resolution.record),
            "floor": rounded(resolution.floor),
            "mean_wait": rounded(scales.mean_wait),
            "wait_p99": rounded(scales.wait_p99),
            "median_runtime": rounded(scales.median_runtime),
        },
        "submit_lag_mean": lag_mean,
        "submit_lag_p50": quantile(lags, 0.5),
        "submit_lag_p99": quantile(lags, 0.99),
        "submit_lag_of_wait": rounded(lag_mean / scales.mean_wait) if lag_mean is not None and scales.mean_wait else None,
        "start_latency_p50": quantile(latency, 0.5),
        "start_latency_mean": rounded(latency.mean()),
        "start_latency_p99": quantile(latency, 0.99),
        "start_latency_jobs": latency.drop_nulls().len(),
        **_of_gaps(record, gaps),
        "launch_latency_p50": _launch_latency(record),
        "runtime_stretch_p1": quantile(evidence["stretch"], 0.01),
        "runtime_stretch_p50": quantile(evidence["stretch"], 0.5),
        "runtime_stretch_p99": quantile(evidence["stretch"], 0.99),
        "stretch_share_p1": whole.p1,
        "stretch_share_p50": whole.p50,
        "stretch_share_p99": whole.p99,
        "stretch_of_load": of_load(stretched),
        "stretch_known": _known(record, "stretch", ("COMPLETED", "TIMEOUT")),
        "stretch_classes": [
            {
                **of,
                "jobs": of_class.jobs,
                "p1": of_class.p1,
                "p50": of_class.p50_beyond,
                "p99": of_class.p99,
                "judged": _judged(of_class),
            }
            for of, of_class in by_class(stretched)
        ],
        **_of_launches(record),
        "nodes_not_responding": _largest_count(silent, "nodes_not_responding"),
        "nodes_lacking": rounded(lacking),
        "nodes_lacking_most": most_lacking,
        "backfill_cycle_mean": None if (mean := mean_cycle(diagnostics)) is None else rounded(mean * record.time.second),
        "backfill_cycle_max": None if (cycle := longest_cycle(diagnostics)) is None else rounded(cycle * record.time.second),
        "retries": record.replay.retries,
        "resubmitted": record.replay.resubmitted,
        "foreign_jobs": record.tables.foreign.height,
        "requeued": evidence.filter(col("restarts") > 0).height,
        "copies_cancelled": record.replay.copies_cancelled,
        "reruns_cancelled": record.replay.reruns_cancelled,
        "interrupted": rounded(record.replay.interrupted),
        "halted": rounded(record.replay.halted - record.events.halted),
        "limits_extended": evidence.filter("limit_extended").height,
        "host_cpu": rounded(samples["cpu_busy"].mean()) if "cpu_busy" in samples.columns else None,
        "host_cpu_saturated": _saturated(samples, thresholds),
        "clock_speed": clock_speed.measured(record),
        "clock_offset_max": _clock_offset(record, run.clock_offsets),
        "messages": _messages(result.get("messages"), run.complaints),
        "released": result.get("released"),
        "daemons_ended": _ended(run.complaints),
        "broken": {kind: count for kind, count, _ in incidents.broken(record)},
        "disagreements": record.tables.disagreements.height,
        "disagreements_by_kind": dict(sorted(record.tables.disagreements["kind"].value_counts().iter_rows())),
        "suspended_compared": evidence["suspended_apart"].count(),
        "suspended_apart_max": rounded(evidence["suspended_apart"].max()),
        **aspects.figures(record),
        **(event_clock.measured(result) if record.event_clock.is_used else {}),
    }


def _of_gaps(record: RunRecord, gaps: pl.DataFrame) -> dict[str, Any]:
    """How late waiting jobs were started, of the result of `dispatch_gaps`."""
    late = gaps.filter("waited").drop_nulls("gap")
    wanted = pl.coalesce("expected", "runtime") * col("processors")
    load = record.jobs.drop_nulls("start").join(record.evidence.select("id", "expected"), on="id", maintain_order="left")
    load = load.join(late.select("id", "gap"), on="id", how="left", maintain_order="left")
    share = load.select((col("gap").fill_null(0.0) * col("processors")).sum() / wanted.sum()).item() if late.height else None
    return {
        "dispatch_gap_mean": rounded(late["gap"].mean()),
        "dispatch_gap_p99": quantile(late["gap"], 0.99),
        "dispatch_gap_of_load": None if share is None or not math.isfinite(share) else rounded(share),
        "dispatch_gap_jobs": late.height,
    }


def _judged(found: Stretch) -> str:
    """Which quantiles of a class are judged: all of them, the median, or none."""
    return "all" if found.jobs >= FEWEST_OF_TAILS else "median" if found.jobs >= FEWEST else "nothing"


def _of_launches(record: RunRecord) -> dict[str, Any]:
    """Figures of launches: what was taken off the jobs' programs for them, and how long processors were not free after the jobs'
    ends."""
    table = record.jobs.select("id", "runtime").join(record.evidence, on="id", maintain_order="left")
    ran = table.filter(col("runtime") > 0)
    return {
        "launch_cost": rounded(record.launches.cost),
        "launch_cost_error": rounded(record.launches.error),
        "launch_cost_share": quantile((ran["launch_cost"] / ran["runtime"]).fill_nan(None), 0.5),
        "clipped": rounded(table["clipped"].mean()),
        "freed_p50": quantile(table["freed"], 0.5),
        "freed_p99": quantile(table["freed"], 0.99),
        "freed_known": _known(record, "freed"),
    }


def _known(record: RunRecord, name: str, ends: Sequence[str] = ()) -> float | None:
    """Share of the jobs that ran of which the column `name` of the evidence is known; None if no job ran.

    ends: only jobs that ended in one of these states
    """
    ran = record.jobs.drop_nulls("start").select("id", "state")
    if ends:
        ran = ran.filter(col("state").is_in(ends))
    ran = ran.select("id")
    return rounded(record.evidence.join(ran, on="id", how="semi").select(col(name).is_not_null().mean()).item())


def _saturated(samples: pl.DataFrame, thresholds: Thresholds) -> float | None:
    """Share of the samples in which the host's processors were saturated; None without samples."""
    if "cpu_busy" not in samples.columns:
        return None
    return rounded(samples.select((col("cpu_busy").drop_nulls() > thresholds.host_cpu_full).mean()).item())


def _launch_latency(record: RunRecord) -> float | None:
    """Median of the trace seconds from Slurm's start of a job to sigsleep's.

    Slurm truncates its instant to whole seconds, so the difference is half a second too long if starts are spread evenly over the
    second: this is subtracted. slurmctld may start jobs at nearly the same fraction of every second, so the uncertainty is half a
    second of Slurm's time, and the figure can be negative.
    """
    difference = quantile(record.evidence["launch"], 0.5)
    if difference is None:
        return None
    return rounded((difference * record.time.clock.speed - 0.5) * record.time.second)


def _largest_count(samples: pl.DataFrame, column: str) -> int | None:
    largest = samples.select(col(column).max()).item() if column in samples.columns else None
    return None if largest is None else int(largest)


def _messages(of_head: Mapping[str, int] | None, complaints: Mapping[str, Any]) -> dict[str, int] | None:
    """Number of error messages by kind: those of the head, counted by the replay at its end, and those of the other hosts."""
    if of_head is None:
        return None
    counts = Counter(of_head)
    for host, host_counts in complaints.get("counts", {}).items():
        if host != complaints["head"]:
            counts.update(host_counts)
    return dict(counts)


def _clock_offset(record: RunRecord, measured: Mapping[str, Any]) -> float | None:
    """Lower bound of the largest difference of a host's clock from the head's: offset minus error, in trace seconds."""
    measurements = [host for hosts in measured.values() for host in hosts if host["offset"] is not None]
    if not measurements:
        return None
    differences = [abs(host["offset"]) - host["error"] for host in measurements]
    return rounded(max(0.0, *differences) * record.time.clock.speed * record.time.second)


def _ended(complaints: Mapping[str, Any]) -> dict[str, int] | None:
    """Number of unexpected ends of daemons of all hosts, by kind of daemon; None if they were not record."""
    if "events" not in complaints:
        return None
    events = [event for of_host in complaints["events"].values() for event in of_host]
    return dict(Counter(event["kind"] for event in events if event["event"] == "ended"))
