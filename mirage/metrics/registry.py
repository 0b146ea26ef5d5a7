"""All metrics: name, unit, meaning, direction and formula of each, once. docs/metrics.md explains them; its table is `as_markdown`.

A job has a submission a, a start s of its last execution, an end f, a run time t = f - s - (time suspended), processors p and nodes
c at its start, and m processors in the mean while it ran (m = p for a job that keeps its size). Its wait is w = s - a, its response
r = f - a. The machine has P processors and N nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from mirage.metrics import fillers
from mirage.metrics import usage_over_time as usage
from mirage.metrics.formulas import (
    RAN,
    RAN_LONG,
    SUSPENSION_KNOWN,
    Formula,
    Maximum,
    Mean,
    MeanByNodes,
    OfSchedule,
    Quantile,
    RatioOfSums,
    Settings,
    expression,
)


@dataclass(frozen=True)
class Metric:
    """A metric.

    unit: "s" or nothing
    meaning: short text for tables, where it stands below the metrics before it
    definition, source: for docs/metrics.md
    formula: how it is computed
    better: the direction that is an improvement
    noun: name in sentences; default: the metric's name
    comparative: words for a lower and a higher value
    explained: meaning for a reader who does not see the metrics before it; default: `meaning`
    setting: added to the meaning in tables, with settings in braces
    is_share: shown in per cent on pages
    is_main: in the first table of pages about runs and comparisons
    main_if: name of a metric: in that table only where it is above 0
    in_sweep: a column of sweep.csv
    same_as: name of another metric that has the same value; pages and comparisons show that one only
    """

    name: str
    unit: Literal["s", ""]
    meaning: str
    definition: str
    source: str
    formula: Formula
    better: Literal["lower", "higher", "neither"] = "lower"
    noun: str = ""
    comparative: tuple[str, str] = ("lower", "higher")
    explained: str = ""
    setting: str = ""
    is_share: bool = False
    is_main: bool = False
    main_if: str = ""
    in_sweep: bool = False
    same_as: str = ""

    @property
    def in_sentences(self) -> str:
        return self.noun or self.name

    @property
    def of_waits(self) -> bool:
        """Whether it depends on waits of jobs."""
        formula = self.formula
        if isinstance(formula, OfSchedule):
            return formula.of_waits
        return not (isinstance(formula, Mean) and formula.jobs is SUSPENSION_KNOWN)


_SHORTER, _SMALLER, _FEWER = ("shorter", "longer"), ("smaller", "larger"), ("fewer", "more")

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
        comparative=_SHORTER,
        is_main=True,
        in_sweep=True,
    ),
    Metric(
        "wait_median",
        "s",
        "median",
        "median of w",
        "the thesis",
        Quantile(WAIT, 0.5),
        noun="median wait",
        comparative=_SHORTER,
        explained="half of the jobs waited at most this long",
        is_main=True,
        in_sweep=True,
    ),
    Metric(
        "wait_p90",
        "s",
        "90th percentile",
        "90th percentile of w, with linear interpolation between the two nearest jobs",
        "",
        Quantile(WAIT, 0.9),
        noun="90th percentile of the wait",
        comparative=_SHORTER,
    ),
    Metric(
        "wait_p95",
        "s",
        "95th percentile",
        "95th percentile of w",
        "",
        Quantile(WAIT, 0.95),
        noun="95th percentile of the wait",
        comparative=_SHORTER,
        explained="95 % of the jobs waited at most this long",
        is_main=True,
        in_sweep=True,
    ),
    Metric(
        "wait_p99",
        "s",
        "99th percentile",
        "99th percentile of w",
        "",
        Quantile(WAIT, 0.99),
        noun="99th percentile of the wait",
        comparative=_SHORTER,
    ),
    Metric(
        "wait_max",
        "s",
        "longest",
        "largest w",
        "the thesis",
        Maximum(WAIT),
        noun="longest wait",
        comparative=_SHORTER,
        explained="longest wait of any job",
        is_main=True,
        in_sweep=True,
    ),
    Metric(
        "wait_restricted_mean",
        "s",
        "mean with the jobs that never started",
        "area below the Kaplan-Meier estimate of the share of jobs that still wait, up to `wait_horizon`",
        "Kaplan and Meier 1958; Royston and Parmar 2013",
        OfSchedule(usage.wait_restricted_mean, of_waits=True),
        noun="restricted mean wait",
        comparative=_SHORTER,
        explained="mean wait that counts jobs which never started for as long as they waited",
        setting="up to {wait_horizon:g} s",
    ),
    Metric(
        "response_mean",
        "s",
        "time from submission to end",
        "mean of r, which is w + t + time suspended",
        "the thesis",
        Mean(RESPONSE),
        noun="mean response",
        comparative=_SHORTER,
        is_main=True,
        in_sweep=True,
    ),
    Metric(
        "slowdown_mean",
        "",
        "response over run time",
        "mean of r / t, over t > 0",
        "the thesis",
        Mean(RESPONSE / _T, RAN),
        noun="mean slowdown",
        in_sweep=True,
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
        in_sweep=True,
    ),
    Metric(
        "pp_bounded_slowdown_mean",
        "",
        "the same per processor",
        "mean of max(1, r / (m max(tau, t)))",
        "Zotkin and Keleher 1999",
        Mean(lambda settings: (RESPONSE / (_M * _bounded_runtime(settings))).clip(1)),
        noun="mean bounded slowdown per processor",
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
        in_sweep=True,
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
        OfSchedule(usage.utilisation),
        better="higher",
        noun="utilisation",
        is_share=True,
        is_main=True,
        in_sweep=True,
    ),
    Metric(
        "goodput",
        "",
        "the same without executions whose work was lost",
        "utilisation (1 - wasted_fraction)",
        "",
        OfSchedule(usage.goodput),
        better="higher",
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
        comparative=_SMALLER,
        is_share=True,
        main_if="wasted_fraction",
    ),
    Metric(
        "useful_utilisation",
        "",
        "the same by work done: as if no job had changed its size",
        "goodput with p x (run time wanted with p processors) in place of m t for completed jobs that changed their size",
        "",
        OfSchedule(usage.useful_utilisation),
        better="higher",
        noun="utilisation by useful work",
        explained="work done, each job's in processors and run time of its submission, over all that the machine had",
        is_share=True,
        main_if="resizes_mean",
    ),
    Metric(
        "resizes_mean",
        "",
        "changes of size of a job",
        "mean number of times that a job changed its size while it ran",
        "",
        OfSchedule(usage.resizes_mean),
        better="neither",
        noun="changes of size of a job",
        comparative=_FEWER,
        main_if="resizes_mean",
    ),
    Metric(
        "filler_load",
        "",
        "share of the machine that filler jobs occupied",
        "processor time of executions of fillers within the window over P makespan",
        "",
        OfSchedule(fillers.filler_load),
        better="neither",
        noun="load of filler jobs",
        is_share=True,
        main_if="filler_load",
    ),
    Metric(
        "total_load",
        "",
        "utilisation and load of filler jobs together",
        "utilisation + filler_load",
        "",
        OfSchedule(fillers.total_load),
        better="higher",
        noun="total load",
        explained="processors that jobs of the workload used or filler jobs occupied, over all that the machine had",
        is_share=True,
        main_if="filler_load",
    ),
    Metric(
        "filler_useful",
        "",
        "work of filler jobs that was saved",
        "saved work of fillers (c times the time in which it was done) over P makespan",
        "Polyakov and Dubenskaya 2018",
        OfSchedule(fillers.filler_useful),
        better="higher",
        noun="useful work of filler jobs",
        explained="saved work of filler jobs, over all that the machine could have done",
        is_share=True,
        main_if="filler_load",
    ),
    Metric(
        "filler_lost",
        "",
        "computed by filler jobs after their last save",
        "processor time after the last save of fillers that were ended without one, over P makespan",
        "",
        OfSchedule(fillers.filler_lost),
        noun="lost time of filler jobs",
        comparative=_SMALLER,
        explained="time in which filler jobs computed what they had not saved when they ended, over all that the machine had",
        is_share=True,
        main_if="filler_load",
    ),
    Metric(
        "filler_overhead",
        "",
        "saving, restoring, and waiting of filler jobs for their ends",
        "processor time in which fillers saved, restored, or waited after their last save, over P makespan",
        "",
        OfSchedule(fillers.filler_overhead),
        noun="overhead of filler jobs",
        comparative=_SMALLER,
        explained="time in which filler jobs saved, restored, or waited for their ends, over all that the machine had",
        is_share=True,
        main_if="filler_load",
    ),
    Metric(
        "filler_preemptions",
        "",
        "executions of filler jobs that ended for another job",
        "number of executions of fillers that ended within the window for a job of the workload, by Slurm or on request",
        "",
        OfSchedule(fillers.filler_preemptions),
        better="neither",
        noun="preemptions of filler jobs",
        comparative=_FEWER,
        main_if="filler_load",
    ),
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
        "makespan",
        "s",
        "first submission to last end, less the cuts",
        "max f - min a; with cuts the length of the window",
        "",
        OfSchedule(lambda schedule: schedule.window.length),
        noun="makespan",
        comparative=_SHORTER,
        in_sweep=True,
    ),
    Metric("W", "s", "mean wait", "mean of w (`wait_mean` under its other name)", _INDICES, Mean(WAIT), same_as="wait_mean"),
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
        comparative=_SMALLER,
        setting="after less than {immediate_below:g} s",
        is_share=True,
        is_main=True,
    ),
    Metric(
        "suspensions_mean",
        "",
        "suspensions of a job",
        "mean number of suspensions of a job",
        "the thesis",
        OfSchedule(usage.suspensions_mean),
        noun="suspensions of a job",
        comparative=_FEWER,
        in_sweep=True,
    ),
    Metric(
        "suspended_mean",
        "s",
        "time for which a job was suspended",
        "mean of the time suspended, over jobs of which it is recorded",
        "the thesis",
        Mean(pl.col("suspended"), SUSPENSION_KNOWN),
        noun="mean time suspended",
        comparative=_SHORTER,
        in_sweep=True,
    ),
    Metric(
        "suspended_fraction",
        "",
        "share of jobs suspended at least once",
        "share of jobs with a time suspended above 0, over jobs of which it is recorded",
        "the thesis",
        Mean(pl.col("suspended") > 0, SUSPENSION_KNOWN),
        noun="share of jobs suspended",
        comparative=_SMALLER,
        is_share=True,
    ),
)

METRICS = {metric.name: metric for metric in _ALL}
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
        raise TypeError(f"{name} is no mean over jobs")
    return expression(formula.quantity, settings)


def as_markdown(metrics: Iterable[Metric] = tuple(METRICS.values())) -> str:
    """The table of docs/metrics.md."""
    lines = ["| name | unit | better | definition | source |", "|---|---|---|---|---|"]
    lines += [f"| `{one.name}` | {one.unit} | {one.better} | {one.definition} | {one.source} |" for one in metrics]
    return "\n".join(lines) + "\n"
