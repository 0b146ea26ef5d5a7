"""All metrics: name, unit, meaning, direction and formula of each, once. docs/metrics.md explains them; its table is `as_markdown`.

A job has a submission a, a start s of its last execution, an end f, a run time t = f - s - (time suspended), processors p and nodes
c at its start, and m processors in the mean while it ran (m = p for a job that keeps its size). Its wait is w = s - a, its response
r = f - a. The machine has P processors and N nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from mirage.aspects import listed
from mirage.metrics import availability
from mirage.metrics import usage_over_time as usage
from mirage.metrics.formulas import (
    RAN,
    RAN_LONG,
    SUSPENSION_KNOWN,
    Maximum,
    Mean,
    MeanByNodes,
    OfSchedule,
    Quantile,
    RatioOfSums,
    Settings,
    expression,
)
from mirage.metrics.metric import FEWER, SHORTER, SMALLER, Metric

_INDICES = "Golovinsky et al. 2011"

_A, _S, _F, _T, _C, _M = (pl.col(name) for name in "asftcm")
WAIT = _S - _A
RESPONSE = _F - _A


def _bounded_runtime(settings: Settings) -> pl.Expr:
    return pl.max_horizontal(_T, pl.lit(settings.tau))


def _order(runtime: pl.Expr) -> pl.Expr:
    """10^floor(log10 t), by comparison, because log10(1000) comes out below 3."""
    powers = [10.0**power for power in range(16)]
    place = pl.lit(pl.Series(powers)).search_sorted(runtime, side="right").cast(pl.Int64) - 1
    return pl.lit(pl.Series(powers)).gather(place.clip(0))


def _w2(settings: Settings) -> pl.Expr:
    return WAIT / (_order(_T) if settings.w2_reading == "magnitude" else _T.log())


_ALL = (
    Metric(
        "wait_mean",
        "s",
        "time from submission to start, mean",
        "mean of w",
        "the thesis",
        Mean(WAIT),
        noun="mean wait",
        comparative=SHORTER,
        is_main=True,
        in_sweep="shown",
        for_other_jobs=True,
    ),
    Metric(
        "wait_median",
        "s",
        "median",
        "median of w",
        "the thesis",
        Quantile(WAIT, 0.5),
        noun="median wait",
        comparative=SHORTER,
        explained="half of the jobs waited at most this long",
        is_main=True,
        in_sweep="column",
    ),
    Metric(
        "wait_p90",
        "s",
        "90th percentile",
        "90th percentile of w, with linear interpolation between the two nearest jobs",
        "",
        Quantile(WAIT, 0.9),
        noun="90th percentile of the wait",
        comparative=SHORTER,
    ),
    Metric(
        "wait_p95",
        "s",
        "95th percentile",
        "95th percentile of w",
        "",
        Quantile(WAIT, 0.95),
        noun="95th percentile of the wait",
        comparative=SHORTER,
        explained="95 % of the jobs waited at most this long",
        is_main=True,
        in_sweep="shown",
        short="95th percentile",
    ),
    Metric(
        "wait_p99",
        "s",
        "99th percentile",
        "99th percentile of w",
        "",
        Quantile(WAIT, 0.99),
        noun="99th percentile of the wait",
        comparative=SHORTER,
    ),
    Metric(
        "wait_max",
        "s",
        "longest",
        "largest w",
        "the thesis",
        Maximum(WAIT),
        noun="longest wait",
        comparative=SHORTER,
        explained="longest wait of any job",
        is_main=True,
        in_sweep="column",
    ),
    Metric(
        "wait_restricted_mean",
        "s",
        "mean with the jobs that never started",
        "area below the Kaplan-Meier estimate of the share of jobs that still wait, up to `wait_horizon`",
        "Kaplan and Meier 1958; Royston and Parmar 2013",
        OfSchedule(usage.wait_restricted_mean, of_waits=True),
        noun="restricted mean wait",
        comparative=SHORTER,
        explained="mean wait that counts jobs which never started for as long as they waited",
        setting="up to {wait_horizon:g} s",
        error_like="wait_mean",
    ),
    Metric(
        "response_mean",
        "s",
        "time from submission to end",
        "mean of r, which is w + t + time suspended",
        "the thesis",
        Mean(RESPONSE),
        noun="mean response",
        comparative=SHORTER,
        is_main=True,
        in_sweep="shown",
        for_other_jobs=True,
        also_of_others=True,
    ),
    Metric(
        "slowdown_mean",
        "",
        "response over run time",
        "mean of r / t, over t > 0",
        "the thesis",
        Mean(RESPONSE / _T, RAN),
        noun="mean slowdown",
        in_sweep="column",
    ),
    Metric(
        "bounded_slowdown_mean",
        "",
        "the same, run times below tau taken as tau, at least 1",
        "mean of max(1, r / max(tau, t)); tau is 10 s",
        "Feitelson; Tsafrir, Etsion, Feitelson 2007",
        Mean(lambda settings: (RESPONSE / _bounded_runtime(settings)).clip(1)),
        noun="mean bounded slowdown",
        explained="response time over run time, at least 1; run times below tau count as tau",
        is_main=True,
        in_sweep="shown",
        for_other_jobs=True,
        least=1.0,
        short="bounded slowdown",
    ),
    Metric(
        "pp_bounded_slowdown_mean",
        "",
        "the same per processor",
        "mean of max(1, r / (m max(tau, t)))",
        "Zotkin and Keleher 1999",
        Mean(lambda settings: (RESPONSE / (_M * _bounded_runtime(settings))).clip(1)),
        noun="mean bounded slowdown per processor",
        for_other_jobs=True,
    ),
    Metric(
        "weighted_slowdown",
        "",
        "slowdown weighted by processors x run time",
        "sum(x r/t) / sum(x), x = m t, over t > 0",
        "the thesis; AWSD of Alea",
        # x r/t = m r: t cancels out.
        RatioOfSums(_M * RESPONSE, _M * _T, RAN),
        noun="weighted slowdown",
        in_sweep="column",
    ),
    Metric(
        "weighted_slowdown_processors",
        "",
        "slowdown weighted by processors",
        "sum(m r/t) / sum(m), over t > 0",
        "",
        RatioOfSums(_M * RESPONSE / _T, _M, RAN),
        noun="slowdown weighted by processors",
    ),
    Metric(
        "utilisation",
        "",
        "processors x run time over all that the machine had",
        "(sum(m t) + processor time of earlier executions) / (P makespan); with cuts the integral of the processors in use over "
        "the window",
        "the thesis; Krevat et al. 2002",
        OfSchedule(usage.utilisation, of_use=lambda used, processors, length: used / (processors * length)),
        better="higher",
        noun="utilisation",
        is_share=True,
        is_main=True,
        in_sweep="shown",
    ),
    Metric(
        "goodput",
        "",
        "the same without executions whose work was lost",
        "utilisation (1 - wasted_fraction)",
        "",
        OfSchedule(usage.goodput),
        better="higher",
        # Which work is lost stays as it was.
        error_like="utilisation",
        noun="goodput",
        explained="processors x run time of work that was kept, over all that the machine had",
        is_share=True,
        main_if="wasted_fraction",
    ),
    Metric(
        "wasted_fraction",
        "",
        "share of the processor time in use that was lost by requeues, preemptions and node failures",
        "processor time of executions whose work was lost over that of all executions",
        "",
        OfSchedule(usage.wasted_fraction),
        noun="wasted processor time",
        comparative=SMALLER,
        is_share=True,
        main_if="wasted_fraction",
    ),
    *listed("metrics", "METRICS"),
    Metric(
        "loss_of_capacity",
        "",
        "share of the machine idle although jobs waited that could use it",
        "integral of min(processors asked for by eligible waiting jobs, idle processors) / (P makespan)",
        "Leung, Sabin, Sadayappan",
        OfSchedule(usage.loss_of_capacity, of_waits=True),
        noun="loss of capacity",
        is_share=True,
    ),
    Metric(
        "absent_fraction",
        "",
        "share of the machine that events took out of service",
        "1 - S / (P makespan), S the processor time in service: of nodes neither out of service by an event nor in a maintenance "
        "window, and of jobs on the others",
        "",
        OfSchedule(availability.absent_fraction),
        better="neither",
        noun="share of the machine out of service",
        is_share=True,
        main_if="absent_fraction",
    ),
    Metric(
        "utilisation_available",
        "",
        "utilisation of what was in service",
        "utilisation P makespan / S",
        "",
        OfSchedule(availability.utilisation_available),
        better="higher",
        noun="utilisation of what was in service",
        explained="processors x run time over all that was in service",
        is_share=True,
        main_if="absent_fraction",
        error_like="utilisation",
    ),
    Metric(
        "loss_of_capacity_available",
        "",
        "loss of capacity of what was in service",
        "integral of min(processors asked for by eligible waiting jobs, idle processors in service) / S",
        "",
        OfSchedule(availability.loss_of_capacity_available, of_waits=True),
        noun="loss of capacity of what was in service",
        explained="share of what was in service that was idle although jobs waited that could use it",
        is_share=True,
        main_if="absent_fraction",
    ),
    Metric(
        "maintenance_idle",
        "",
        "share of the machine that was empty before maintenance windows while jobs waited",
        "processor time of the nodes of each maintenance window, from the end of the last job on the node, but not before the "
        "announcement, until the window's begin, as long as any eligible job waited, over P makespan",
        "",
        OfSchedule(availability.maintenance_idle, of_waits=True),
        noun="idle time before maintenance",
        comparative=SMALLER,
        is_share=True,
        main_if="absent_fraction",
        also_of_others=True,
    ),
    Metric(
        "makespan",
        "s",
        "first submission to last end, less the cuts",
        "max f - min a; with cuts the length of the window",
        "",
        OfSchedule(lambda schedule: schedule.window.length, of_use=lambda used, processors, length: length),
        noun="makespan",
        comparative=SHORTER,
        in_sweep="shown",
    ),
    Metric(
        "W",
        "s",
        "mean wait",
        "mean of w (`wait_mean` under its other name)",
        _INDICES,
        Mean(WAIT),
        same_as="wait_mean",
        for_other_jobs=True,
    ),
    Metric("W1", "", "wait over run time", "mean of w / t, over t > 1 s", _INDICES, Mean(WAIT / _T, RAN_LONG)),
    Metric(
        "W2",
        "",
        "wait over the order of the run time",
        "mean of w / 10^floor(log10 t) (`magnitude`), or of w / ln t (`log`), over t > 1 s",
        _INDICES,
        Mean(_w2, RAN_LONG),
    ),
    Metric(
        "W3",
        "",
        "W1 with the chance that enough nodes are free",
        "mean of (w / t) F(N - c + 1), over t > 1 s; F(x) is the share of the time from min a to max f (or of the window) in which "
        "fewer than x nodes were busy",
        _INDICES,
        OfSchedule(usage.w3, of_waits=True),
        error_like="W1",
    ),
    Metric(
        "W4",
        "",
        "W1 with that chance taken as uniform",
        "mean of (w / t) (N - c + 1) / N, this factor kept within 0 and 1, over t > 1 s",
        _INDICES,
        MeanByNodes(lambda nodes: ((nodes - _C + 1) / nodes).clip(0, 1)),
    ),
    Metric(
        "immediate_fraction",
        "",
        "share of jobs that started at once",
        "share of jobs with w below `immediate_below`, which for a log in whole seconds is 1 s, so w = 0",
        _INDICES,
        Mean(lambda settings: settings.immediate_below > WAIT),
        better="higher",
        noun="share of jobs that started at once",
        comparative=SMALLER,
        setting="after less than {immediate_below:g} s",
        is_share=True,
        is_main=True,
        for_other_jobs=True,
        also_of_others=True,
        short="started at once",
    ),
    Metric(
        "suspensions_mean",
        "",
        "suspensions of a job",
        "mean number of suspensions of a job",
        "the thesis",
        OfSchedule(usage.suspensions_mean),
        noun="suspensions of a job",
        comparative=FEWER,
        in_sweep="column",
        used_if="suspended_fraction",
    ),
    Metric(
        "suspended_mean",
        "s",
        "time for which a job was suspended",
        "mean of the time suspended, over jobs of which it is recorded",
        "the thesis",
        Mean(pl.col("suspended"), SUSPENSION_KNOWN),
        noun="mean time suspended",
        comparative=SHORTER,
        in_sweep="column",
        used_if="suspended_fraction",
    ),
    Metric(
        "suspended_fraction",
        "",
        "share of jobs suspended at least once",
        "share of jobs with a time suspended above 0, over jobs of which it is recorded",
        "the thesis",
        Mean(pl.col("suspended") > 0, SUSPENSION_KNOWN),
        noun="share of jobs suspended",
        comparative=SMALLER,
        is_share=True,
        used_if="suspended_fraction",
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
"""All metrics by name, in the order in which they are shown."""


def main_of(runs: Iterable[Mapping[str, float | None]]) -> tuple[str, ...]:
    """Names of the metrics in the first table about some runs, of which the values are given by name."""
    known = list(runs)
    return tuple(
        name
        for name, metric in METRICS.items()
        if metric.is_main or (metric.main_if and any((values.get(metric.main_if) or 0) > 0 for values in known))
    )


def main_of_comparison(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The same for a comparison, from comparison.json."""
    metrics = content["metrics"]
    labels = [one["label"] for one in content["configurations"]]
    means = [{name: one["configurations"][label]["mean"] for name, one in metrics.items()} for label in labels]
    return tuple(name for name in main_of(means) if name in metrics)


def job_value(name: str, settings: Settings) -> pl.Expr:
    """What each job adds to a metric that is a mean over jobs, in columns of `Population.inside`."""
    formula = METRICS[name].formula
    if not isinstance(formula, Mean):
        raise TypeError(f"{name} is not a mean over jobs")
    return expression(formula.quantity, settings)


def as_markdown(metrics: Iterable[Metric] = tuple(METRICS.values())) -> str:
    """The table of docs/metrics.md."""
    lines = ["| name, unit | better | definition (source) |", "|---|---|---|"]
    for one in metrics:
        name = f"`{one.name}`, {one.unit}" if one.unit else f"`{one.name}`"
        source = f" ({one.source})" if one.source else ""
        lines.append(f"| {name} | {one.better} | {one.definition}{source} |")
    return "\n".join(lines) + "\n"
