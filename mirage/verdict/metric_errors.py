"""The members "errors" and "error_reasons" of metrics.json.

"emulation": by how much the emulation may have changed it (docs/emulation-error.md); "other_jobs": both ends of its 95 %
interval for other jobs (docs/comparison-method.md). Null has a reason. Classes of jobs only have "emulation".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from polars import col

from mirage.metrics import classes as job_classes
from mirage.metrics.formulas import Settings
from mirage.metrics.measured_jobs import Population
from mirage.metrics.registry import METRICS
from mirage.records.record import RunRecord
from mirage.statistics import emulation_error, sampling_error
from mirage.statistics.emulation_error import NOT_ESTIMATED, MeasuredRun
from mirage.statistics.sums_over_jobs import CLASS_METRICS
from mirage.verdict import aspects, dispatch_gaps
from mirage.verdict.thresholds import KNOWN_SHARE
from slurm_mirage.rm.evidence import Scheduling

NO_DELAYS = "no delays of an emulation are recorded with this schedule"

_Error = float | tuple[float, float] | str
"""A half width, both ends of an interval, or why there is none."""
_LARGEST_FRACTION = 0.5
"""Virtual seconds by which the run times of a run on the event clock differ from the log's at most: SEED draws them."""
_DIGITS = 4  # significant ones of an error
_DIGITS_OF_TIMES = 6  # as in `Population`


def errors(
    run: RunRecord,
    jobs: pl.DataFrame,
    population: Population,
    measured: Mapping[str, Any],
    gaps: pl.DataFrame,
    scheduling: Scheduling,
    *,
    backfill_interval: float,
) -> dict[str, Any]:
    """Both members for a run, and the member "classes" with errors.

    jobs: those that were measured; population: of them; measured: the members of `metrics.compute`
    gaps: of `dispatch_gaps`; scheduling: what the run's scheduler does by itself
    backfill_interval: trace seconds between two passes of the backfill scheduler, if there is one
    """
    settings = Settings.of(measured["settings"])
    classes: list[dict[str, float]] = [{} for _ in measured["classes"]]
    replicas: dict[str, float] = {}
    emulation: dict[str, float | str] = dict.fromkeys(measured["metrics"], NOT_ESTIMATED)
    frame = delayed_jobs(run, jobs, population, gaps) if population.window is not None else pl.DataFrame()
    if unknown := "" if frame.is_empty() else _unknown_delays(frame):
        emulation = dict.fromkeys(emulation, unknown)
    elif population.window is not None:
        # The manager itself postpones a start until jobs beside the workload's have left its nodes.
        # At a constant speed nobody knows whether the scheduler or the emulation postponed a start.
        own = dispatch_gaps.own_delay(run, scheduling) if run.event_clock.is_used else 0.0
        own = math.inf if run.beside is not None else own
        if run.events:
            # Nodes that were absent or reserved postponed starts.
            latency = measured["validity"]["start_latency_p50"] or 0.0
            frame = frame.with_columns(late=pl.lit(max(0.0, latency - own)))
        cycle = backfill_interval if scheduling.backfills else 0.0
        executed = (frame["end"] - frame["start"] - frame["suspended"]).round(_DIGITS_OF_TIMES)
        members = job_classes.members(frame["p"].to_numpy(), executed.to_numpy(), measured["classes"])
        policies, resolution = dispatch_gaps.policies(scheduling), dispatch_gaps.run_time_resolution(run)
        half_widths = emulation_error.errors(
            MeasuredRun(frame, settings, population.window, policies, own, resolution, cycle, _drawn(run), members)
        )
        whole, classes, replicas = half_widths.emulation, half_widths.classes, half_widths.replicas
        emulation |= whole
        emulation |= _like_others(measured["metrics"], emulation)
        capacity = settings.processors * population.window.length
        emulation |= aspects.errors(run, measured["metrics"], emulation, capacity)
        if share := measured["validity"].get("false_quiet_share"):
            emulation |= with_false_quiets(emulation, measured["metrics"], share)
            classes = [with_false_quiets(widths, row, share) for widths, row in zip(classes, measured["classes"], strict=True)]
    both: dict[str, Mapping[str, _Error]] = {
        "emulation": emulation,
        "other_jobs": sampling_error.intervals(population.inside, settings),
    }
    members_of_errors = _members(measured, both)
    for name, width in replicas.items():
        if measured["metrics"].get(name) is not None:
            members_of_errors["errors"][name]["replicas"] = _rounded(width)
    return members_of_errors | {"classes": _with_errors(measured["classes"], classes)}


def with_false_quiets(widths: Mapping[str, float | str], values: Mapping[str, float | None], share: float) -> dict[str, float]:
    """The half widths, with what the event clock's false quiets may have added to each value: at most its `share`.

    While time passes that the host did not have, all waiting jobs wait. By Little's law the number of these is on average the mean
    wait times the jobs by the length of the run: a share of the run's time that was lost is that share of the mean wait.
    """
    known = {name: width for name, width in widths.items() if not isinstance(width, str)}
    return {name: width + share * abs(values.get(name) or 0.0) for name, width in known.items()}


def _with_errors(rows: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """The rows of metrics.json's classes with the member errors: null where the error is not known."""
    return [
        {**row, "errors": {name: {"emulation": _rounded(widths.get(name))} for name in CLASS_METRICS}}
        for row, widths in zip(rows, found, strict=True)
    ]


def _written(part: _Error) -> float | list[float] | None:
    if isinstance(part, str):
        return None
    return [float(f"{end:.{_DIGITS}g}") for end in part] if isinstance(part, tuple) else _rounded(part)


def _rounded(width: float | None) -> float | None:
    return None if width is None else float(f"{width:.{_DIGITS}g}")


def _like_others(values: Mapping[str, float | None], emulation: Mapping[str, float | str]) -> dict[str, float]:
    """Half widths of the metrics with `error_like`. Where either value is 0 the half width is that of the other metric."""
    half_widths = {}
    for name, metric in METRICS.items():
        other = metric.error_like
        error, value, of_other = emulation.get(other), values.get(name), values.get(other)
        if isinstance(error, float) and value is not None and of_other is not None:
            half_widths[name] = error * value / of_other if value and of_other else error
    return half_widths


def _unknown_delays(frame: pl.DataFrame) -> str:
    """Why the delays of a run are not known of enough jobs, from `MeasuredRun.jobs`; "" if they are."""
    ran = frame.drop_nulls("start")
    delays = {"lag": "how late submissions were accepted", "freed": "when the processors of jobs were free again"}
    for name, words in delays.items():
        share = ran[name].is_not_null().mean()
        if isinstance(share, float) and share < KNOWN_SHARE:
            return f"{words} is known of {share:.0%} of the jobs that ran only"
    return ""


def of_schedule(
    jobs: pl.DataFrame,
    measured: Mapping[str, Any],
    suspensions: pl.DataFrame | None = None,
    allocations: pl.DataFrame | None = None,
) -> dict[str, Any]:
    """Both members for a schedule without records of an emulation: a log's, a simulated one, jobs.csv. Parameters as for
    `metrics.compute`."""
    settings = Settings.of(measured["settings"])
    cuts = measured["settings"]["warmup_cut"], measured["settings"]["cooldown_cut"]
    changes: dict[str, Any] = {"suspensions": suspensions, "allocations": allocations}
    population = Population.of(jobs, settings.processors, settings.nodes, *cuts, **changes)
    by_jobs = sampling_error.intervals(population.inside, settings)
    return _members(measured, {"emulation": dict.fromkeys(measured["metrics"], NO_DELAYS), "other_jobs": by_jobs})


def _drawn(run: RunRecord) -> float:
    """Trace seconds by which the wanted run times differ from the log's at most."""
    return _LARGEST_FRACTION * run.time.second if run.event_clock.is_used else 0.0


def delayed_jobs(run: RunRecord, jobs: pl.DataFrame, population: Population, gaps: pl.DataFrame) -> pl.DataFrame:
    """`MeasuredRun.jobs` of a run: the jobs that are measured, and those that were cancelled while they waited. gaps: of
    `dispatch_gaps`

    The drawn fractions of the run times are wanted.
    """
    drawn = _drawn(run)
    evidence = run.evidence.select("id", "limit", "allocated", "stretch", "freed", "expected")
    measured = population.measured.select(
        "id", "s", "f", "p", "c", "m", "suspended", counted=col("id").is_in(population.inside["id"].implode())
    )
    joined = jobs.join(measured, on="id", how="left", maintain_order="left", suffix="_measured")
    for known in (evidence, gaps.select("id", "late")):
        joined = joined.join(known, on="id", how="left", maintain_order="left")
    accepted = col("submit") + col("submit_lag").fill_null(0)
    waited = col("start").is_null() & (col("state") == "CANCELLED") & col("end").is_not_null() & (col("processors") > 0)
    ran = col("s").is_not_null()
    executed = col("f") - col("s") - col("suspended").fill_null(0)
    expected = pl.coalesce("expected", "runtime", pl.lit(0.0))
    return joined.filter((ran | waited) & col("submit").is_not_null()).select(
        due="submit",
        eligible=pl.when(col("eligible") > accepted + run.time.second).then("eligible"),
        lag="submit_lag",
        start="s",
        end=pl.when(ran).then("f"),
        suspended=col("suspended").fill_null(0),
        # Other jobs were cancelled or put back in the queue: how long they ran does not follow from the workload.
        wanted=pl.when((col("state") == "TIMEOUT") & col("stretch").is_not_null())
        .then((executed - col("stretch")).clip(0))
        .when(col("stretch").is_not_null() | ~ran)
        .then(expected + (executed - expected).clip(-drawn, drawn).fill_null(0.0)),
        # What the record counts as the run of a job has all of the time until its processors were free.
        freed=pl.when(col("start").is_not_null()).then(0.0) if run.manager.frees_at_end else "freed",
        late="late",
        limit="limit",
        leave=pl.when(~ran).then("end"),
        allocated=pl.coalesce("allocated", "p", "processors"),
        p=pl.coalesce("p", "processors"),
        c=pl.coalesce("c", "nodes"),
        m=pl.coalesce("m", "p", "processors").cast(pl.Float64),
        counted=col("counted").fill_null(False),
    )


def _members(measured: Mapping[str, Any], found: Mapping[str, Mapping[str, _Error]]) -> dict[str, Any]:
    errors: dict[str, dict[str, Any]] = {}
    reasons: dict[str, str] = {}
    for name, value in measured["metrics"].items():
        parts = {kind: values.get(name, NOT_ESTIMATED) for kind, values in found.items()}
        if name == "wait_restricted_mean" and not measured["censored"]["jobs"]:
            # The restricted mean of waits that all ended is their mean.
            parts["other_jobs"] = found["other_jobs"]["wait_mean"]
        if value is None:
            parts = dict.fromkeys(found, measured["null_reasons"].get(name, "the metric is not known"))
        errors[name] = {kind: _written(part) for kind, part in parts.items()}
        lacking = {kind: part for kind, part in parts.items() if isinstance(part, str)}
        if lacking:
            same = len(lacking) == len(found) and len(set(lacking.values())) == 1
            reasons[name] = next(iter(lacking.values())) if same else "; ".join(f"{kind}: {why}" for kind, why in lacking.items())
    return {"errors": errors, "error_reasons": reasons}
