"""Decides whether a run is valid: whether its schedule is that of the scheduler, or was influenced by the emulation.

The emulation's delays are in real time (about 5 ms per submission, 15 to 40 ms per launch at any speed), and Slurm's record has
whole virtual seconds. In trace seconds both grow, by SPEED * 100/SHRINK and by 100/SHRINK. Their effect is relative: a launch of 30
trace seconds does not matter if jobs run and wait for hours. So bounds are shares of what the run itself measures.

A run is valid if all figures were measured and are within their bounds; invalid if one of them is not; inconclusive if a figure
could not be measured, or if what the run resolves is too large a share of what it measures. docs/validity.md gives the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from mirage.metrics.registry import METRICS
from mirage.records.record import RunRecord
from mirage.records.rounding import rounded
from mirage.records.run_folder import RunFolder
from mirage.verdict import aspects, clock_speed, dispatch_gaps, event_clock, events, incidents
from mirage.verdict.advice import counted, remedy, with_one_speed
from mirage.verdict.bounds import FIGURES, HALTED, bounds, doubtful, exceeded, stretched_classes
from mirage.verdict.figures import measure
from mirage.verdict.resolution import Resolution, Scales, metrics_too_coarse, too_coarse
from mirage.verdict.thresholds import KNOWN_SHARE, Thresholds
from mirage.verdict.verdict import INCONCLUSIVE, INVALID, VALID
from slurm_mirage.rm.evidence import Layout
from slurm_mirage.rm.managers import DEFAULT
from slurm_mirage.rm.registry import IMPLEMENTATIONS

FEWEST_LATENCIES = 10
"""Jobs of which the start latency has to be known; all, in a run of fewer. If half of all starts are too late, the chance that no
more than one of 10 is late is 1 %."""


def judge(
    run: RunFolder,
    record: RunRecord,
    layout: Layout,
    thresholds: Thresholds | None = None,
    *,
    immediate_below: float | None = None,
    gaps: pl.DataFrame | None = None,
) -> dict[str, Any]:
    """Computes the member "validity" of metrics.json. Times are trace seconds; figures without data are null.

    record: the records of the run; layout: its machine
    immediate_below: threshold of the metric immediate_fraction; None: it is not judged
    gaps: of `dispatch_gaps`; None: not known
    """
    thresholds = thresholds or Thresholds()
    gaps = pl.DataFrame(schema=dispatch_gaps.SCHEMA) if gaps is None else gaps
    figures = measure(run, record, layout, thresholds, gaps)
    causes = incidents.causes(run.complaints, record)
    wrong_clock, unsure_clock = clock_speed.judged(record, figures["clock_speed"], thresholds)
    broken = [f"{counted(count, 'job')} {description}" for _, count, description in incidents.broken(record) if count]
    reasons = [
        *exceeded(record, figures, thresholds, HALTED),
        *broken,
        *incidents.foreign(record),
        *aspects.reasons(record, layout),
        *incidents.troubled(record, run.result, figures, thresholds, len(layout.nodes)),
        *event_clock.unlisted(figures),
        *exceeded(record, figures, thresholds, FIGURES - HALTED, has_cause=bool(causes)),
        *stretched_classes(record, figures, thresholds),
        *wrong_clock,
        *incidents.records(record, thresholds),
    ]
    own_wait = (figures["submit_lag_mean"] or 0.0) + (figures["start_latency_p50"] or 0.0)
    coarse = too_coarse(Resolution.of(record), Scales.of(record), own_wait, thresholds)
    unsure = with_one_speed(
        [
            *coarse,
            # In a run that is too coarse, these figures follow from that.
            *([] if coarse else doubtful(record, figures, thresholds)),
            *_not_measured(run, record, figures),
            *events.not_carried_out(record),
            *unsure_clock,
        ]
    )
    verdict = INVALID if reasons else INCONCLUSIVE if unsure else VALID
    return {
        "verdict": verdict,
        "valid": verdict == VALID,
        # The end of a daemon that disturbed nothing beyond a bound is in the figures only.
        "reasons": [*causes, *with_one_speed(reasons)] if reasons else unsure,
        "inconclusive": unsure,
        "inconclusive_metrics": metrics_too_coarse(Resolution.of(record), immediate_below, thresholds),
        **figures,
        **_of_manager(record),
        "bounds": {name: rounded(bound.most) for name, bound in bounds(record, thresholds).items()},
    }


def judge_errors(found: dict[str, Any], thresholds: Thresholds, record: RunRecord) -> None:
    """Adds to the member `validity`, as `uncertain_metrics` with the reason, the metrics of which the emulation may have changed
    more than `error_share`. A run with a main metric among them is inconclusive, unless it is invalid.

    A wait is known to what the run resolves, and a fraction of the jobs to one job: smaller errors do not count.
    found: content of metrics.json with its errors
    """
    judged, resolved, most = found["validity"], Resolution.of(record).trace_seconds, f"{100 * thresholds.error_share:g} %"
    one_job = 1 / max(1, record.jobs["start"].count())
    amounts = {}
    for name, errors in found["errors"].items():
        metric, value, error = METRICS[name], found["metrics"][name], errors["emulation"]
        floor = one_job if metric.is_share else resolved if metric.unit == "s" else 0.0
        if value is not None and error is not None and error > max(thresholds.error_share * abs(value), floor):
            share = f", {100 * error / abs(value):.2g} % of it" if value else ""
            amounts[name] = f"{error:.3g} {metric.unit}".rstrip() + share
    judged["uncertain_metrics"] = {
        name: f"the emulation may have changed it by {amount}; at most {most} is conclusive" for name, amount in amounts.items()
    }
    if main := [f"{name} by {amount}" for name, amount in amounts.items() if METRICS[name].is_main]:
        clock = record.time.clock
        advice = "" if record.event_clock.is_used or clock.speed <= 1 else f"{remedy(record)}, or "
        reason = f"the emulation may have changed main metrics by more than {most} ({'; '.join(main)})"
        add_unsure(judged, f"{reason}: {advice}take more JOBS")


def add_unsure(judged: dict[str, Any], reason: str) -> None:
    """Add a reason for which a valid run is inconclusive to the member `validity`."""
    judged["inconclusive"] = [*judged["inconclusive"], reason]
    if judged["verdict"] != INVALID:
        judged |= {"verdict": INCONCLUSIVE, "valid": False, "reasons": judged["inconclusive"]}


def _of_manager(record: RunRecord) -> dict[str, Any]:
    """What the verdict says of another resource manager than the default one: its name as `manager`, and as `not_measured`, by
    figure, why it is not measured, which is not a fault of the run."""
    if record.names == IMPLEMENTATIONS[DEFAULT].records.names:
        return {}
    why = f"not measured: {record.names.manager} records the end of a job when its processors are free"
    unmeasured = dict.fromkeys(("freed_p50", "freed_p99"), why) if record.manager.frees_at_end else {}
    return {"manager": record.names.manager, "not_measured": unmeasured}


def _not_measured(run: RunFolder, record: RunRecord, figures: Mapping[str, Any]) -> list[str]:
    """Reasons for figures of the verdict that could not be measured, where there is no good reason for it.

    A run on one host has no difference of clocks. A scheduler whose queue is empty has no backfill cycles, although it is asked.
    """
    started = record.jobs["start"].count()
    ran, few = started > 0, min(FEWEST_LATENCIES, started)
    # On a machine that is always full, the waiting jobs show how soon the scheduler starts one.
    known, enough = figures["start_latency_jobs"] + figures["dispatch_gap_jobs"], KNOWN_SHARE
    rules = [
        (
            figures["nodes_not_responding"] is None,
            "no sample of the nodes in samples.csv: whether all of them responded is not known",
        ),
        (
            ran and known == 0,
            "start latency could not be measured: no job came while processors that it could use were idle",
        ),
        (
            0 < known < few,
            f"how late jobs were started is known of {counted(known, 'job')} only, of at least {few}: too few came while "
            "processors were idle, and of no other it is known when it could have started",
        ),
        (
            ran and figures["stretch_share_p50"] is None,
            "run-time stretch could not be measured: no job completed in its first run",
        ),
        (
            ran and figures["stretch_share_p50"] is not None and figures["stretch_known"] < enough,
            f"run-time stretch is known of {figures['stretch_known'] or 0:.0%} of the jobs that ran only, of at least {enough:.0%}",
        ),
        (
            run.scheduling.has_cycles and run.diagnostics.is_empty(),
            f"no sample of the scheduler's diagnostics: the longest {record.names.cycle} is not known",
        ),
        (
            bool(run.clock_offsets) and figures["clock_offset_max"] is None,
            "the hosts' clocks could not be compared: have them keep time by NTP, and repeat the run",
        ),
        (
            bool(record.launches.reason),
            f"what a launch costs could not be measured: {record.launches.reason}",
        ),
        (
            ran and figures["freed_p50"] is None and not record.manager.frees_at_end,
            "when the processors of jobs were free again is not known: "
            f"{record.manager.freed_reason or 'no job has a record of it'}",
        ),
        (
            ran and figures["freed_p50"] is not None and figures["freed_known"] < enough,
            f"when processors were free again is known of {figures['freed_known'] or 0:.0%} of the jobs that ran only, of at least "
            f"{enough:.0%}",
        ),
        ("ended" in run.result and figures["messages"] is None, "the daemons' error messages were not counted"),
        (record.event_clock.is_used, event_clock.not_known(figures) if record.event_clock.is_used else ""),
    ]
    return [words for applies, words in rules if applies and words]
