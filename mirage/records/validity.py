"""Decides whether a run is valid: whether its schedule is that of the scheduler, or was influenced by the emulation.

The emulation's delays are in real time (about 5 ms per submission, 20 to 40 ms per launch at any speed), and Slurm's record has
whole virtual seconds. In trace seconds both grow, by SPEED * 100/SHRINK and by 100/SHRINK. Their effect is relative: a launch of 30
trace seconds does not matter if jobs run and wait for hours. Most bounds are therefore shares of the run's mean run time or mean
wait, but not below Slurm's own resolution. docs/validity.md gives the reasons.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from polars import col

from mirage.records.collect import Collected
from mirage.records.verdict import INCONCLUSIVE, INVALID, VALID
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json
from slurm_mirage.farm.daemons import KIND_ORDER
from slurm_mirage.farm.events import how_it_ended
from slurm_mirage.replay.halts import CONTROLLER, REPLAY
from slurm_mirage.rm.api import NOT_ENDED
from slurm_mirage.rm.registry import records_of
from slurm_mirage.rm.slurm.daemon_log import OTHER
from slurm_mirage.rm.slurm.records import backfill_interval, configuration_of

_MICROSECOND = 1e-6
_NAMED = 3  # jobs that a reason names
SHOWN = 5
"""Names of daemons in a reason."""


@dataclass(frozen=True)
class Thresholds:
    """Bounds of a valid run. Shares are fractions from 0 to 1; `_seconds` are virtual seconds."""

    submit_lag_share: float = 0.05
    """p99 of the submit lag, of the mean run time."""
    submit_lag_seconds: float = 1.0
    start_latency_share: float = 0.05
    """Median start latency, of the mean wait."""
    start_latency_seconds: float = 4.0
    """3 s of batch_sched_delay (Slurm's default), plus 1 s, the resolution of Slurm's record."""
    stretch_p50_share: float = 0.01
    """Median run-time stretch, of the mean run time."""
    stretch_p50_seconds: float = 1.0
    stretch_p99_share: float = 0.05
    stretch_p99_seconds: float = 2.0
    backfill_cycle_share: float = 0.05
    """Longest backfill cycle, of the mean wait."""
    backfill_cycle_seconds: float = 30.0
    """Slurm's default: a cycle may take as long as the pause between two cycles. `in_force` uses the setting of the run instead."""
    nodes_not_responding: int = 0
    messages_share: float = 0.05
    """Error messages of slurmctld and slurmd of a known kind (daemon_log.py), of the number of jobs."""
    host_cpu_busy: float = 0.9
    """Mean busy share of the host's processors above which it is named as a cause."""
    host_cpu_full: float = 0.95
    """Busy share above which a sample counts as saturated."""
    host_cpu_saturated: float = 0.1
    """Share of saturated samples above which it is named as a cause."""
    clock_speed_share: float = 0.01
    """Difference between the clock speed in Slurm's record and the requested one, of the requested one."""
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

    @classmethod
    def in_force(cls, changes: Mapping[str, Any], configuration: str) -> Thresholds:
        """The thresholds for a run, with the pause between two backfill cycles of its configuration.

        `changes` are as in `of`; `configuration` is that of `read_configuration`, or the manager's configuration file.
        """
        interval = backfill_interval(configuration)
        return cls.of(changes if interval is None else {"backfill_cycle_seconds": interval, **changes})


def read_configuration(folder: Path) -> str:
    """The resource manager's configuration during the run in `folder`, for Thresholds.in_force; "" if it was not collected."""
    return configuration_of(folder)


def read_figures(path: Path) -> pl.DataFrame:
    """Reads a CSV file of the monitor as numbers (null: missing, or an incomplete line); no columns if missing or empty."""
    if not path.exists() or path.stat().st_size == 0:
        return pl.DataFrame()
    frame = pl.read_csv(path, infer_schema=False, truncate_ragged_lines=True)
    return frame.with_columns(pl.all().cast(pl.Float64, strict=False))


def read_diagnostics(folder: Path) -> pl.DataFrame:
    """The resource manager's diagnostics during the run in `folder`; those of the backfill scheduler as in BACKFILL_DIAGNOSTICS."""
    records = records_of(folder)
    return read_figures(folder / records.diagnostics_file).rename(dict(records.diagnostic_names), strict=False)


def read_offsets(folder: Path) -> dict[str, Any]:
    """Reads clock_offsets.json of a run on several hosts: lists `before` and `after` of the measurements of `clock_offset` by host.

    Empty for a run on one host.
    """
    offsets: dict[str, Any] = read_json(folder / "clock_offsets.json") or {}
    return offsets


def read_complaints(folder: Path) -> dict[str, Any]:
    """Reads complaints.json of a run; empty if it was not collected.

    `head` is the name of the head; `counts` and `lines` have, by host and kind, the number of the daemons' error messages and the
    first of them; `events` has the list of the farm's events by host (slurm_mirage/farm/events.py).
    """
    complaints: dict[str, Any] = read_json(folder / "complaints.json") or {}
    return complaints


def judge(
    collected: Collected,
    samples: pl.DataFrame,
    diagnostics: pl.DataFrame,
    result: Mapping[str, Any],
    processors: int,
    nodes: int,
    thresholds: Thresholds | None = None,
    clock_offsets: Mapping[str, Any] | None = None,
    complaints: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Computes the member "validity" of metrics.json. Times are trace seconds; figures without data are null.

    samples, diagnostics: samples of the replay (`read_figures`, `read_diagnostics`)
    result: result.json of the replay, or progress.json if it is missing
    processors, nodes: size of the machine
    clock_offsets: of a run on several hosts (`read_offsets`)
    complaints: of all hosts (`read_complaints`)
    """
    thresholds = thresholds or Thresholds()
    figures = {
        **_measure(collected, samples, diagnostics, processors, nodes),
        "clock_offset_max": _clock_offset(collected, clock_offsets or {}),
        "host_cpu_saturated": _saturated(samples, thresholds),
        "messages": _messages(result.get("messages"), complaints or {}),
        "released": result.get("released"),
        "daemons_ended": _ended(complaints or {}),
        "broken": {kind: count for kind, count, _ in _broken(collected)},
        "bounds": {name: _rounded(bound.seconds) for name, bound in bounds(collected, thresholds).items()},
    }
    causes = _causes(complaints or {})
    reasons = [
        *_exceeded(collected, figures, thresholds, HALTED),
        *(f"{_counted(count, 'job')} {description}" for _, count, description in _broken(collected) if count),
        *_foreign(collected),
        *_troubled(result, figures, thresholds, collected.jobs.height),
        *_exceeded(collected, figures, thresholds, _NAMES.keys() - HALTED, has_cause=bool(causes)),
        *_clock(collected, figures["clock_speed"], thresholds),
        *_records(collected, thresholds),
    ]
    unmeasured = _not_measured(figures)
    verdict = INVALID if reasons else INCONCLUSIVE if unmeasured else VALID
    return {
        "verdict": verdict,
        "valid": verdict == VALID,
        # The end of a daemon that disturbed nothing beyond a bound is in the figures only.
        "reasons": [*causes, *reasons] if reasons else unmeasured,
        "inconclusive": unmeasured,
        "inconclusive_metrics": {},
        **figures,
    }


# ---- the figures ----


def _measure(collected: Collected, samples: pl.DataFrame, diagnostics: pl.DataFrame, processors: int, nodes: int) -> dict[str, Any]:
    jobs, evidence = collected.jobs, collected.evidence
    latency = start_latencies(collected, processors, nodes)
    return {
        "submit_lag_p99": _quantile(jobs["submit_lag"], 0.99),
        "start_latency_p50": _quantile(latency, 0.5),
        "launch_latency_p50": _launch_latency(collected),
        "runtime_stretch_p50": _quantile(evidence["stretch"], 0.5),
        "runtime_stretch_p99": _quantile(evidence["stretch"], 0.99),
        "nodes_not_responding": _largest_count(samples, "nodes_not_responding"),
        "backfill_cycle_max": _backfill_cycle(diagnostics, collected.time.second),
        "retries": collected.retries,
        "resubmitted": collected.resubmitted,
        "foreign_jobs": collected.foreign.height,
        "requeued": evidence.filter(col("restarts") > 0).height,
        "copies_cancelled": collected.copies_cancelled,
        "reruns_cancelled": collected.reruns_cancelled,
        "interrupted": _rounded(collected.interrupted),
        "halted": _rounded(collected.halted),
        "launch_cost": _rounded(collected.launch_cost),
        "launch_cost_error": _rounded(collected.launch_cost_error),
        "clipped": _rounded(evidence["clipped"].mean()),
        "freed_p50": _quantile(evidence["freed"], 0.5),
        "freed_p99": _quantile(evidence["freed"], 0.99),
        "limits_extended": evidence.filter("limit_extended").height,
        "host_cpu": _rounded(samples["cpu_busy"].mean()) if "cpu_busy" in samples.columns else None,
        "clock_speed": _clock_speed(collected),
        "disagreements": collected.disagreements.height,
        "disagreements_by_kind": dict(sorted(collected.disagreements["kind"].value_counts().iter_rows())),
        "suspended_compared": evidence["suspended_apart"].count(),
        "suspended_apart_max": _rounded(evidence["suspended_apart"].max()),
    }


def _saturated(samples: pl.DataFrame, thresholds: Thresholds) -> float | None:
    """Share of the samples in which the host's processors were saturated; None without samples."""
    if "cpu_busy" not in samples.columns:
        return None
    return _rounded(samples.select((col("cpu_busy").drop_nulls() > thresholds.host_cpu_full).mean()).item())


def _launch_latency(collected: Collected) -> float | None:
    """Median of the trace seconds from Slurm's start of a job to sigsleep's.

    Slurm truncates its instant to whole seconds, so the difference is half a second too long if starts are spread evenly over the
    second: this is subtracted. slurmctld may start jobs at nearly the same fraction of every second, so the uncertainty is half a
    second of Slurm's time, and the figure can be negative.
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


def _backfill_cycle(diagnostics: pl.DataFrame, second: float) -> float | None:
    """Trace seconds of the longest backfill cycle of the run. The controller measures it by its virtual clock.

    The maximum counts from the start of the controller's statistics: the value in the first sample may belong to an earlier run,
    but larger values in later samples belong to this one.
    """
    if diagnostics.is_empty() or not {"backfill_last_cycle_us", "backfill_max_cycle_us"} <= set(diagnostics.columns):
        return None
    largest = col("backfill_max_cycle_us")
    grown = diagnostics.select(largest.filter(largest.diff() > 0).max()).item()
    longest = diagnostics.select(pl.max_horizontal(col("backfill_last_cycle_us").max(), pl.lit(grown, pl.Float64))).item()
    return None if longest is None else _rounded(longest * _MICROSECOND * second)


def _clock_speed(collected: Collected) -> float | None:
    """The speed of Slurm's clock: the slope of the submissions in Slurm's record over the journal's real time.

    The slope over all jobs is used because each instant of Slurm has an error of up to a second.
    """
    both = (
        collected.jobs.select("id", submit=col("submit") + col("submit_lag"))
        .join(collected.evidence, on="id")
        .drop_nulls("slurm_submit")
    )
    if both.height < 2 or both["submit"].n_unique() < 2:
        return None
    slope = both.select(pl.cov("submit", "slurm_submit") / col("submit").var()).item()
    return _rounded(slope * collected.time.clock.speed)


def _messages(of_head: Mapping[str, int] | None, complaints: Mapping[str, Any]) -> dict[str, int] | None:
    """Number of error messages by kind: those of the head, counted by the replay at its end, and those of the other hosts."""
    if of_head is None:
        return None
    counts = Counter(of_head)
    for host, host_counts in complaints.get("counts", {}).items():
        if host != complaints["head"]:
            counts.update(host_counts)
    return dict(counts)


def _clock_offset(collected: Collected, measured: Mapping[str, Any]) -> float | None:
    """Lower bound of the largest difference of a host's clock from the head's: offset minus error, in trace seconds."""
    measurements = [host for hosts in measured.values() for host in hosts if host["offset"] is not None]
    if not measurements:
        return None
    differences = [abs(host["offset"]) - host["error"] for host in measurements]
    return _rounded(max(0.0, *differences) * collected.time.clock.speed * collected.time.second)


def start_latencies(collected: Collected, processors: int, nodes: int) -> pl.Series:
    """Trace seconds from acceptance (or eligibility, if later) to start of the jobs that could have started immediately.

    These are the jobs at whose acceptance the idle processors sufficed for them and for all waiting jobs. An empty queue would be a
    simpler condition, but if launches are slow compared with the intervals between submissions, the queue is never empty, which
    this figure has to show. Jobs with whole nodes count with all processors of the nodes. Jobs with a dependency or a memory
    request are left out, as these may have delayed them.
    """
    whole = collected.evidence.select("id", "whole_nodes", "bound")
    jobs = collected.jobs.filter(col("state") != "LOST").join(whole, on="id", maintain_order="left")
    taken = pl.when("whole_nodes").then(col("nodes") * (processors / nodes)).otherwise(0)
    jobs = jobs.with_columns(accepted=col("submit") + col("submit_lag"))
    jobs = jobs.with_columns(width=pl.max_horizontal("processors", taken), left=pl.coalesce("start", "end"))
    ran = jobs.drop_nulls("start")
    pauses = collected.suspensions.drop_nulls().join(jobs.select("id", "width"), left_on="job", right_on="id")

    def change(table: pl.DataFrame, time: str, waiting: int, busy: int) -> pl.DataFrame:
        submitted = col("id") if time == "accepted" else pl.lit(None, pl.Int64)
        events = table.select(time=time, submitted=submitted, waiting=waiting * col("width"), busy=busy * col("width"))
        return events.drop_nulls("time")

    events = pl.concat(
        [
            change(jobs, "accepted", 1, 0),
            change(jobs, "left", -1, 0),
            change(ran, "start", 0, 1),
            change(ran, "end", 0, -1),
            change(pauses, "suspend", 0, -1),
            change(pauses, "resume", 0, 1),
        ]
    )
    # At the same instant, changes of processors in use come before submissions.
    events = events.sort("time", col("submitted").is_not_null(), maintain_order=True)
    sums = events.with_columns(col("waiting", "busy").cum_sum())
    immediate = sums.filter(col("submitted").is_not_null() & (col("waiting") + col("busy") <= processors))
    started = ran.filter(~col("bound")).join(immediate, left_on="id", right_on="submitted", how="semi", maintain_order="left")
    return started.select(latency=col("start") - pl.max_horizontal("accepted", "eligible")).to_series()


def _ended(complaints: Mapping[str, Any]) -> dict[str, int] | None:
    """Number of unexpected ends of daemons of all hosts, by kind of daemon; None if they were not collected."""
    if "events" not in complaints:
        return None
    events = [event for of_host in complaints["events"].values() for event in of_host]
    return dict(Counter(event["kind"] for event in events if event["event"] == "ended"))


# ---- reasons ----


def _counted(count: int, noun: str) -> str:
    """The number with its noun, in the plural unless it is 1."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _remedy(collected: Collected, too_large: float = 0.0) -> str:
    """Advice on how to reduce the emulation's share of the times by the factor `too_large` (0: unknown)."""
    clock = collected.time.clock
    if clock.speed <= 1:
        return "raise SHRINK"
    slower = f"lower SPEED to {_two_digits(clock.speed / too_large)} or less" if 0 < too_large <= clock.speed else "lower SPEED"
    return slower if clock.shrink >= 100 else f"{slower}, or raise SHRINK"


def _two_digits(value: float) -> str:
    """A number rounded down to two significant digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{round(math.floor(value / unit + 1e-9) * unit, 9):.12g}"


def _broken(collected: Collected) -> list[tuple[str, int, str]]:
    """Events that are caused by the emulation and must not happen to any job: kind, number of jobs, description."""
    table = collected.jobs.join(collected.evidence, on="id", maintain_order="left")
    state, failed = col("state"), col("state").is_in(["FAILED", "BOOT_FAIL", "OUT_OF_MEMORY"])
    # Tolerance for rounding errors of floats.
    within_limit = col("runtime") < col("limit") * (1 - 1e-9)
    slack = "" if table["limit_extended"].any() else "OVERRUN=extend gives limits slack, or "
    rules = [
        ("lost", state == "LOST", "submitted and not in any record"),
        ("not ended", state.is_in(NOT_ENDED), "not ended when the records were collected"),
        (
            "false timeout",
            (state == "TIMEOUT") & within_limit,
            f"killed at a time limit above the run time: {slack}{_remedy(collected)}",
        ),
        (
            "launch failure",
            failed & ~col("recorded"),
            "failed at launch, without a record of sigsleep: see the logs of slurmd",
        ),
        (
            "failure",
            failed & col("recorded"),
            "failed after the start, which sigsleep does not do by itself: see the logs of slurmd",
        ),
        ("node failure", state == "NODE_FAIL", "ended by a node failure"),
        ("cancelled", (state == "CANCELLED") & ~col("cancel_wanted"), "cancelled, but not by the workload"),
    ]
    return [
        *((kind, table.filter(condition).height, description) for kind, condition, description in rules),
        ("not submitted", collected.unsubmitted, "of the plan never submitted"),
    ]


def _foreign(collected: Collected) -> list[str]:
    """Reason for jobs that the run did not submit, with the first of them."""
    if collected.foreign.is_empty():
        return []
    count = collected.foreign.height
    named = [" ".join(map(str, row)) for row in collected.foreign.select("name", "slurm_id", "user").head(_NAMED).iter_rows()]
    more = ["..."] if count > _NAMED else []
    words = f"{_counted(count, 'job')} that this run did not submit ran or waited in the cluster ({', '.join([*named, *more])})"
    return [f"{words}: cancel what is left of them, and repeat the run"]


def _troubled(result: Mapping[str, Any], figures: Mapping[str, Any], thresholds: Thresholds, jobs: int) -> list[str]:
    """Reasons from the replay, the nodes and the daemons."""
    reasons = []
    if "ended" not in result:
        reasons.append(f"the replay has not finished ({result.get('message') or 'see replay.log'})")
    if figures["released"]:
        reasons.append(f"{_counted(figures['released'], 'launch failure')} after which Slurm held the job: see the logs of slurmd")
    not_responding = figures["nodes_not_responding"] or 0
    if not_responding > thresholds.nodes_not_responding:
        nodes = _counted(not_responding, "node")
        reasons.append(f"{nodes} did not respond at some time of the run; allowed: {thresholds.nodes_not_responding}")
    known = {kind: count for kind, count in (figures["messages"] or {}).items() if kind != OTHER}
    count, allowed = sum(known.values()), thresholds.messages_share * jobs
    if count > allowed:
        kinds = ", ".join(f"{kind}: {number}" for kind, number in sorted(known.items(), key=lambda item: -item[1]))
        reasons.append(
            f"slurmctld and slurmd complained {_counted(count, 'time')}, over {allowed:.3g} "
            f"({thresholds.messages_share:.3g} of the jobs): {kinds}"
        )
    return reasons


def _not_measured(figures: Mapping[str, Any]) -> list[str]:
    """Reasons for figures of the verdict that could not be measured."""
    if figures["nodes_not_responding"] is None:
        return ["no sample of the nodes in samples.csv: whether all of them responded is not known"]
    return []


def _causes(complaints: Mapping[str, Any]) -> list[str]:
    """What went wrong on the hosts during the run: full folders and unexpected ends of daemons. These cause other reasons."""
    full: list[str] = []
    ended: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    events = complaints.get("events", {})
    for host, of_host in events.items():
        where = f" on {host}" if len(events) > 1 else ""
        for event in of_host:
            if event["event"] == "full":
                full.append(f"no space was left on {event['path']}{where} at {_time_of_day(event)}: free some, and repeat the run")
            else:
                ended.setdefault(event["kind"], []).append((where, event))
    return [*dict.fromkeys(full), *(_of_ended(kind, ended[kind]) for kind in sorted(ended, key=_order))]


def _order(kind: str) -> int:
    """Place of a kind of daemon: others depend on the first ones."""
    return ("farm", *KIND_ORDER).index(kind) if kind in KIND_ORDER else 0


def _of_ended(kind: str, ended: list[tuple[str, Mapping[str, Any]]]) -> str:
    """Reason that names the ends of daemons of one kind, and how the first of them ended."""
    names = list(dict.fromkeys(event["daemon"] for _, event in ended))
    several = f" of {', '.join(names[:SHOWN])}{' ...' if len(names) > SHOWN else ''}" if names != [kind] else ""
    where, first = ended[0]
    memory = any(event["out_of_memory"] for _, event in ended)
    what_to_do = "take fewer NODES, or a host with more memory" if memory else "repeat the run"
    return (
        f"{kind}{several} ended {_counted(len(ended), 'time')} "
        f"({how_it_ended(first)}, at {_time_of_day(first)}{where}): {what_to_do}"
    )


def _time_of_day(event: Mapping[str, Any]) -> str:
    return f"{datetime.fromtimestamp(event['real'], UTC):%H:%M:%S} UTC"


@dataclass(frozen=True)
class Bound:
    """The largest valid value of a figure."""

    seconds: float
    """Trace seconds."""
    why: str
    """The threshold that it follows from."""


def bounds(collected: Collected, thresholds: Thresholds) -> dict[str, Bound]:
    """The bounds of the figures that are times, for this run, by name of the figure."""
    second = collected.time.second
    run_time = collected.jobs.select(col("runtime").mean()).item() or 0.0
    wait = collected.jobs.select((col("start") - col("submit")).mean()).item() or 0.0

    def larger(knob: str, scale_name: str, scale: float) -> Bound:
        share, seconds = getattr(thresholds, f"{knob}_share"), getattr(thresholds, f"{knob}_seconds")
        if share * scale > seconds * second:
            return Bound(share * scale, f"{share * 100:g} % of the {scale_name}")
        return Bound(seconds * second, f"{seconds:g} s of Slurm's time")

    return {
        "halted": larger("submit_lag", "mean run time", run_time),
        "interrupted": larger("submit_lag", "mean run time", run_time),
        "submit_lag_p99": larger("submit_lag", "mean run time", run_time),
        "start_latency_p50": larger("start_latency", "mean wait", wait),
        "runtime_stretch_p50": larger("stretch_p50", "mean run time", run_time),
        "runtime_stretch_p99": larger("stretch_p99", "mean run time", run_time),
        "backfill_cycle_max": larger("backfill_cycle", "mean wait", wait),
        "clock_offset_max": larger("submit_lag", "mean run time", run_time),
    }


_NAMES = {
    "halted": "the time without a slurmctld that starts jobs",
    "interrupted": "the replay's interruption",
    "submit_lag_p99": "submit lag p99",
    "start_latency_p50": "start latency p50",
    "runtime_stretch_p50": "run-time stretch p50",
    "runtime_stretch_p99": "run-time stretch p99",
    "backfill_cycle_max": "longest backfill cycle",
    "clock_offset_max": "the difference between the hosts' clocks",
}


HALTED = frozenset({"halted"})
"""The figure that stands before all others: they follow from it."""


def _exceeded(
    collected: Collected, figures: Mapping[str, Any], thresholds: Thresholds, names: Set[str], *, has_cause: bool = False
) -> list[str]:
    """Reasons for those figures of `names` that are above their bounds. `has_cause`: something else than SPEED and SHRINK caused
    them (see `_causes`)."""
    lost = collected.resubmitted
    reasons = []
    limits = bounds(collected, thresholds)
    was_halted = (figures["halted"] or 0.0) > limits["halted"].seconds
    for name, bound in limits.items():
        value = figures[name]
        if name not in names or value is None or value <= bound.seconds:
            continue
        advice = f"{_remedy(collected, value / bound.seconds)}{_of_cpu(figures, thresholds)}" if bound.seconds else "repeat the run"
        if has_cause or name in ("interrupted", "halted"):
            advice = "repeat the run"
        elif name == "clock_offset_max":
            advice = f"have the hosts keep time by NTP, or {_remedy(collected, value / bound.seconds if bound.seconds else 0.0)}"
        elif name == "submit_lag_p99" and lost:
            advice = f"slurmctld lost {_counted(lost, 'job')}, submitted again later"
        elif was_halted:
            advice = "repeat the run, which was held up as said before"
        name_of_figure = _halts(collected) if name == "halted" and collected.halts else _NAMES[name]
        reasons.append(f"{name_of_figure} is {value:.4g} trace s, over {bound.seconds:.4g} s ({bound.why}): {advice}")
    return reasons


def _halts(collected: Collected) -> str:
    """What was halted, for how long and when, as the subject of a reason."""
    words = {CONTROLLER: "slurmctld was halted", REPLAY: "the replay's host or process was suspended"}
    said = []
    for what, text in words.items():
        halts = [halt for halt in collected.halts if halt["what"] == what]
        if halts:
            longest = max(halts, key=lambda halt: float(halt["seconds"]))
            at = datetime.fromtimestamp(longest["since"], UTC)
            times = f"from {at:%H:%M:%S}" if len(halts) == 1 else f"{len(halts)} times, the longest from {at:%H:%M:%S}"
            said.append(f"{text} for {sum(halt['seconds'] for halt in halts):.0f} s ({times} UTC)")
    return f"{' and '.join(said)}: the time in which no job could start"


def _of_cpu(figures: Mapping[str, Any], thresholds: Thresholds) -> str:
    """Text that names the host's processors if they are a likely cause; else ""."""
    busy, saturated = figures["host_cpu"] or 0.0, figures["host_cpu_saturated"] or 0.0
    if busy <= thresholds.host_cpu_busy and saturated <= thresholds.host_cpu_saturated:
        return ""
    return f" (the host's processors were busy to {busy:.0%}, and saturated in {saturated:.0%} of the samples)"


def _clock(collected: Collected, speed: float | None, thresholds: Thresholds) -> list[str]:
    """Reason for a speed of Slurm's clock that is not the requested one."""
    requested = collected.time.clock.speed
    submits = collected.jobs["submit"]
    if speed is None or submits.is_empty():
        return []
    span = collected.jobs.select(col("submit").max() - col("submit").min()).item()
    # Slurm's instants have an error of up to 1 s at both ends.
    allowed = max(thresholds.clock_speed_share, 2 * collected.time.second / span)
    if abs(speed / requested - 1) <= allowed:
        return []
    return [f"Slurm's clock ran {speed:.4g} times as fast as real time, not {requested:g} times (to {allowed:.2%})"]


def _records(collected: Collected, thresholds: Thresholds) -> list[str]:
    """Reason for too many disagreements of the records, with the three most frequent kinds."""
    count, allowed = collected.disagreements.height, thresholds.disagreements_share * collected.jobs.height
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
        f"sigsleep's and Slurm's records disagree {_counted(count, 'time')}, over {allowed:.3g} "
        f"({thresholds.disagreements_share:.3g} of the jobs): {shown}"
    ]
