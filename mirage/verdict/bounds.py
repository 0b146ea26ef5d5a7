"""The bounds of the figures of a run, and the reasons that name the figures beyond them.

A bound is a share of what the figure disturbs: of the waits, or of the jobs' own run times. It is at least what the run resolves; a
run that resolves too little is inconclusive (resolution.py), so no bound grows without a limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from mirage.metrics.classes import ALL
from mirage.records.record import RunRecord
from mirage.verdict import aspects, event_clock, incidents
from mirage.verdict.advice import counted, remedy
from mirage.verdict.resolution import Resolution, Scales
from mirage.verdict.thresholds import Thresholds
from slurm_mirage.rm.evidence import Names


@dataclass(frozen=True)
class Bound:
    """The bound of a figure, above and below 0."""

    most: float
    """Largest absolute value of a valid run."""
    why: str
    """The threshold that it follows from."""
    doubtful: float = 0.0
    """Up to this value, if it is larger than `most`, the resource manager itself may have caused the figure: then the run is
    inconclusive."""
    why_doubtful: str = ""
    is_share: bool = False
    """Whether the figure is a share, and not trace seconds."""


_NAMES = {
    "halted": "the time without a {controller} that starts jobs",
    "interrupted": "the replay's interruption",
    "submit_lag_mean": "mean submit lag",
    "submit_lag_p99": "submit lag p99",
    "start_latency_p50": "start latency p50",
    "start_latency_mean": "mean start latency",
    "start_latency_p99": "start latency p99",
    "stretch_of_load": "run-time stretch of all jobs together",
    "stretch_share_p1": "run-time stretch p1",
    "stretch_share_p50": "run-time stretch p50",
    "stretch_share_p99": "run-time stretch p99",
    "launch_cost_share": "the launch cost that was taken off each job, in the median,",
    "clipped": "the share of jobs that are shorter than a launch",
    "launch_cost_error": "the standard error of the launch cost",
    "freed_p50": "the time until processors are free after a job's end, p50,",
    "freed_p99": "the time until processors are free after a job's end, p99,",
    "dispatch_gap_mean": "the time by which waiting jobs were started late, in the mean,",
    "dispatch_gap_of_load": "the time for which free processors were not given to waiting jobs",
    "backfill_cycle_mean": "mean {cycle}",
    "clock_offset_max": "the difference between the hosts' clocks",
    "false_quiet_share": "the time that the event clock may have let pass while the host worked",
    **{bound.figure: bound.name for bound in aspects.bounds()},
}
_OF_WHAT = {
    "dispatch_gap_of_load": " of the jobs' processor time",
    "stretch_of_load": " of their processor time",
    "stretch_share_p1": " of a job's run time",
    "stretch_share_p50": " of a job's run time",
    "stretch_share_p99": " of a job's run time",
    "launch_cost_share": " of a job's run time",
    "clipped": " of the jobs",
    "false_quiet_share": " of the run's time",
    **{bound.figure: bound.of_what for bound in aspects.bounds()},
}

HALTED = frozenset({"halted"})
"""The figure whose reason comes first, because the others follow from it."""
FIGURES = frozenset(_NAMES)


def in_words(figure: str, names: Names) -> str:
    """The figure in words. names: those of the resource manager"""
    return _NAMES[figure].format(controller=names.controller, cycle=names.cycle)


def _name(record: RunRecord, figure: str) -> str:
    return in_words(figure, record.names)


def bounds(record: RunRecord, thresholds: Thresholds) -> dict[str, Bound]:
    """The bounds of this run by name of the figure; times are trace seconds."""
    resolution, scales = Resolution.of(record), Scales.of(record)
    wait, wait_p99, runtime = scales.mean_wait or 0.0, scales.wait_p99 or 0.0, scales.median_runtime or 0.0

    def time(knob: str, scale_name: str, scale: float) -> Bound:
        share: float = getattr(thresholds, f"{knob}_share")
        if share * scale > resolution.trace_seconds:
            return Bound(share * scale, f"{share * 100:g} % of the {scale_name}")
        return Bound(resolution.trace_seconds, "what this run resolves")

    def of_manager(knob: str, scale_name: str = "mean wait", scale: float = wait) -> Bound:
        bound, seconds = time(knob, scale_name, scale), getattr(thresholds, f"{knob}_seconds")
        return Bound(bound.most, bound.why, seconds * record.time.second, f"{seconds:g} s of {record.names.manager}'s time")

    def share(name: str, uncertain: float = 0.0) -> Bound:
        most: float = getattr(thresholds, name)
        return Bound(most, "", most + uncertain, "its record has whole seconds", is_share=True)

    of_cost = thresholds.launch_cost_error_share
    of_event_clock = {"false_quiet_share": share("false_quiet_share")} if record.event_clock.is_used else {}
    return {
        "halted": time("interruption", "mean wait", wait),
        "interrupted": time("interruption", "mean wait", wait),
        "submit_lag_mean": time("submit_lag", "mean wait", wait),
        "submit_lag_p99": time("submit_lag", "waits' p99", wait_p99),
        "start_latency_p50": of_manager("start_latency"),
        "start_latency_mean": of_manager("start_latency"),
        "start_latency_p99": of_manager("start_latency", "waits' p99", wait_p99),
        "stretch_share_p1": share("stretch_tail_share"),
        # The median may be wrong by a part of a second of Slurm's record, if many jobs start at the same fraction of one.
        "stretch_share_p50": share("stretch_p50_share", resolution.record / runtime if runtime else 0.0),
        "stretch_share_p99": share("stretch_tail_share"),
        "stretch_of_load": share("stretch_of_load_share", resolution.record / scales.load_runtime if scales.load_runtime else 0.0),
        "launch_cost_share": share("launch_cost_share"),
        "launch_cost_error": Bound(of_cost * runtime, f"{of_cost * 100:g} % of the median run time"),
        "clipped": share("clipped_share"),
        "freed_p50": time("freed", "mean wait", wait),
        "freed_p99": time("freed", "waits' p99", wait_p99),
        "dispatch_gap_mean": time("dispatch_gap", "mean wait", wait),
        "dispatch_gap_of_load": share(
            "dispatch_gap_of_load_share", resolution.record / scales.load_runtime if scales.load_runtime else 0.0
        ),
        "backfill_cycle_mean": of_manager("backfill_cycle"),
        "clock_offset_max": time("clock_offset", "median run time", runtime),
        **{bound.figure: share(bound.threshold) for bound in aspects.bounds() if record.of(bound.of_run) is not None},
        **of_event_clock,
    }


def exceeded(
    record: RunRecord, figures: Mapping[str, Any], thresholds: Thresholds, names: Set[str], *, has_cause: bool = False
) -> list[str]:
    """Reasons for those figures of `names` that are beyond their bounds. `has_cause`: something else than SPEED and SHRINK caused
    them (`incidents.causes`)."""
    limits = bounds(record, thresholds)
    was_halted = (figures["halted"] or 0.0) > limits["halted"].most
    reasons = []
    for name, bound in limits.items():
        value = figures[name]
        if name not in names or value is None or abs(value) <= max(bound.most, bound.doubtful):
            continue
        advice = _advice(record, figures, thresholds, name, abs(value) / bound.most if bound.most else 0.0)
        if has_cause or name in ("interrupted", "halted") or not bound.most:
            advice = "repeat the run"
        elif was_halted and not (name == "submit_lag_p99" and record.replay.resubmitted):
            advice = "repeat the run, which was held up as said before"
        subject = incidents.halts(record) if name == "halted" and record.replay.halts else _name(record, name)
        reasons.append(f"{subject} is {_words(name, value, bound)}: {advice}")
    return reasons


def doubtful(record: RunRecord, figures: Mapping[str, Any], thresholds: Thresholds) -> list[str]:
    """Reasons for figures beyond their bounds that the manager itself may have caused, by its timers or its whole seconds."""
    manager = record.names.manager
    longer = f"take a workload that waits longer{'' if record.time.clock.shrink >= 100 else ', or raise SHRINK'}"
    return [
        f"{_name(record, name)} is {_words(name, value, bound)}, which {manager} itself may cause ({bound.why_doubtful}): "
        f"{remedy(record, abs(value) / bound.most if bound.most else 0.0) if bound.is_share else longer}"
        for name, bound in bounds(record, thresholds).items()
        if (value := figures[name]) is not None and bound.most < abs(value) <= bound.doubtful
    ]


def _words(name: str, value: float, bound: Bound) -> str:
    """The value and its bound."""
    if bound.is_share:
        beyond = "over" if value > 0 else "below"
        sign = "" if value > 0 else "-"
        return f"{100 * value:.3g} %{_OF_WHAT[name]}, {beyond} {sign}{100 * bound.most:g} %"
    if abs(value) > bound.doubtful > bound.most:
        return f"{value:.4g} trace s, over {bound.doubtful:.4g} s ({bound.why_doubtful})"
    return f"{value:.4g} trace s, over {bound.most:.4g} s ({bound.why})"


def _advice(record: RunRecord, figures: Mapping[str, Any], thresholds: Thresholds, name: str, too_large: float) -> str:
    if name == "clock_offset_max":
        return f"have the hosts keep time by NTP, or {remedy(record, too_large)}"
    if name.startswith("submit_lag") and record.replay.resubmitted:
        return f"{record.names.controller} lost {counted(record.replay.resubmitted, 'job')}, submitted again later"
    if name == "clipped":
        return f"leave out short jobs (MIN_RUNTIME), or {remedy(record)}"
    if name == "backfill_cycle_mean" and event_clock.charges(figures):
        return "the scheduler's own processor time counts; CHARGE=no leaves it out"
    if record.event_clock.is_used:
        return remedy(record)
    pause = _shorter_pause(record, figures, name) if name.startswith("submit_lag") else ""
    return f"{remedy(record, too_large)}{pause}{_of_cpu(figures, thresholds)}"


def _shorter_pause(record: RunRecord, figures: Mapping[str, Any], lag: str) -> str:
    """Advice to let submissions in during a scheduling cycle, where a cycle took as long as the submit lag; else "".

    At a higher SPEED a lower one has the same effect, and is advised alone.
    """
    setting, cycle = record.names.cycle_pause, figures["backfill_cycle_max"]
    if not setting or record.time.clock.speed > 1 or cycle is None or cycle < figures[lag]:
        return ""
    return f", or lower {setting} in CONFIG: submissions wait for it, and the longest {record.names.cycle} took {cycle:.3g} trace s"


def _of_cpu(figures: Mapping[str, Any], thresholds: Thresholds) -> str:
    """Text that names the host's processors if they are a likely cause; else ""."""
    busy, saturated = figures["host_cpu"] or 0.0, figures["host_cpu_saturated"] or 0.0
    if busy <= thresholds.host_cpu_busy and saturated <= thresholds.host_cpu_saturated:
        return ""
    return f" (the host's processors were busy to {busy:.0%}, and saturated in {saturated:.0%} of the samples)"


def stretched_classes(record: RunRecord, figures: Mapping[str, Any], thresholds: Thresholds) -> list[str]:
    """The reason that names the classes of jobs whose run times are wrong, if there are any."""
    limits = {"p50": thresholds.stretch_class_share, "p1": thresholds.stretch_tail_share, "p99": thresholds.stretch_tail_share}
    beyond, largest = [], 0.0
    for row in figures["stretch_classes"]:
        for quantile in {"all": ("p50", "p1", "p99"), "median": ("p50",), "nothing": ()}[row["judged"]]:
            if abs(row[quantile]) > limits[quantile]:
                name = (
                    f"{row['size']} processor{'s' * (row['size'] != '1')}" if row["size"] != ALL else f"run time {row['runtime']}"
                )
                beyond.append(f"{name}: {quantile} {100 * row[quantile]:.3g} %, over {100 * limits[quantile]:g} %")
                largest = max(largest, abs(row[quantile]) / limits[quantile] if limits[quantile] else 0.0)
                break
    if not beyond:
        return []
    classes = "1 class" if len(beyond) == 1 else f"{len(beyond)} classes"
    return [f"run-time stretch of {classes} of jobs ({'; '.join(beyond)}): {remedy(record, largest)}"]
