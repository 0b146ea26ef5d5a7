"""Scheduling metrics of a schedule; docs/metrics.md has definitions, sources and decisions.

A job has a submission a, a start s (of its last execution), an end f, processors p, nodes c. Its wait is w = s - a, its
response r = f - a, its run time t = f - s - (time suspended). All in trace seconds. The metrics are in registry.py.

Worked example: six jobs on four nodes of one processor each (used by tests/unit/metrics/test_metrics.py).

    job  a   s   f  suspended  p |  w   t   r  r/t   r/max(10,t)  p*t  p*r  w/t
      1  0   0  10             2 |  0  10  10  1     1             20   20  0
      2  0   0  20             2 |  0  20  20  1     1             40   40  0
      3  5  10  30             2 |  5  20  25  1.25  1.25          40   50  0.25
      4 10  30  50  40 to 44   4 | 20  16  40  2.5   2.5           64  160  1.25
      5 12  50  51             1 | 38   1  39  39    3.9            1   39  (t <= 1: not in W1 to W4)
      6 20  20  30             1 |  0  10  10  1     1             10   10  0

    wait mean 63/6, median 2.5, p90 29, p95 33.5, p99 37.1, max 38; response 144/6; immediate 3/6; makespan 51
    slowdown 45.75/6; bounded 10.65/6; per processor (only job 5 above 1) 8.9/6
    weighted slowdown 319/175 by area, (2 + 2 + 2.5 + 10 + 39 + 1)/12 by processors; utilisation 175/(4*51)
    loss of capacity: 20 to 30 one processor idle, jobs 4 and 5 wait; 40 to 44 all idle, job 5 wants one:
        (1*10 + 1*4)/(4*51)
    busy nodes: 4 for 36 s, 3 for 10 s, 1 for 1 s, none for 4 s; F(3) = 5/51, F(1) = 4/51
    W 63/6; W1 1.5/5; W2 (5/10 + 20/10)/5; W3 (0.25*F(3) + 1.25*F(1))/5; W4 (0.25*3/4 + 1.25*1/4)/5
    suspensions 1/6, time suspended 4/6, share of jobs suspended 1/6

    distribution of busy nodes: none 4/51, one 1/51, three 10/51, four 36/51
    classes: all run for up to 1 min; size 1 are jobs 5 and 6, with 11/175 of the area, waits 38, 0, bounded slowdowns 3.9, 1,
        responses 39, 10; size 2-4 are the others, with 164/175, waits 0, 0, 5, 20, bounded 1, 1, 1.25, 2.5, responses 95/4

    With a warm-up of 5 s and a cool-down of 6 s the window is 5 to 45: jobs 3 to 6, and of jobs 1 and 2 what lies in it
    wait mean 63/4, median 12.5, p90 32.6, p95 35.3, p99 37.46; response 114/4; immediate 1/4; makespan 40
    slowdown 43.75/4; bounded 8.65/4; per processor 6.9/4; weighted 259/115 by area, (2.5 + 10 + 39 + 1)/8 by processors
    busy: 4 from 5 to 20, 3 to 30, 4 to 40, none to 44, 4 to 45; utilisation 134/(4*40), loss of capacity 14/(4*40)
    W1 1.5/3; W2 2.5/3; W3, as F(3) = F(1) = 4/40, 0.15/3; W4 (0.25*3/4 + 1.25*1/4)/3
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from mirage.metrics.classes import by_class
from mirage.metrics.formulas import MeanByNodes, OfSchedule, Settings, Value, Values, mean_by_nodes
from mirage.metrics.jobs_frame import (
    ALLOCATIONS_SCHEMA,
    EXECUTIONS_SCHEMA,
    JOBS_SCHEMA,
    SUSPENSIONS_SCHEMA,
    executions_from_sigsleep,
    frame_from_sigsleep,
    frame_from_swf,
    suspensions_from_sigsleep,
)
from mirage.metrics.measured_jobs import Cut, Population
from mirage.metrics.metric import Metric
from mirage.metrics.per_job import over_jobs
from mirage.metrics.registry import METRICS
from mirage.metrics.usage_over_time import MeasuredSchedule
from mirage.traces import states
from slurm_mirage.base.errors import WrongUse

__all__ = [
    "ALLOCATIONS_SCHEMA",
    "EXECUTIONS_SCHEMA",
    "JOBS_SCHEMA",
    "METRICS",
    "SUSPENSIONS_SCHEMA",
    "compute",
    "executions_from_sigsleep",
    "frame_from_sigsleep",
    "frame_from_swf",
    "suspensions_from_sigsleep",
    "table",
]

_COUNTED = {
    "completed": ["COMPLETED"],
    "failed": ["FAILED", "OUT_OF_MEMORY", "DEADLINE", *states.LOST],
    "cancelled": ["CANCELLED"],
    "timeout": ["TIMEOUT"],
    "lost": ["LOST"],
}
_NOBODY = "no job has a recorded submission, start and end"
FEWEST_STEADY = 20
"""A steady part of fewer jobs has no metrics."""


def compute(
    jobs: pl.DataFrame,
    processors: int,
    nodes: int | None = None,
    tau: float = 10.0,
    *,
    suspensions: pl.DataFrame | None = None,
    allocations: pl.DataFrame | None = None,
    executions: pl.DataFrame | None = None,
    tables: Mapping[str, pl.DataFrame] | None = None,
    availability: pl.DataFrame | str | None = None,
    w2_reading: str = "magnitude",
    immediate_below: float = 1.0,
    warmup_cut: Cut = 0.0,
    cooldown_cut: Cut = 0.0,
) -> dict[str, Any]:
    """The members "jobs", "metrics", "null_reasons", "settings", "excluded", "censored", "steady", "distribution" and "classes" of
    metrics.json.

    jobs: columns of `JOBS_SCHEMA`
    processors, nodes: of the machine; nodes None: unknown
    tau: seconds
    suspensions: columns job, suspend, resume (suspensions.csv), all of them; None if not known
    allocations: columns of `ALLOCATIONS_SCHEMA` (allocations.csv): changes of size after the start; None: no job changed its size
    executions: columns of `EXECUTIONS_SCHEMA` (executions.csv): executions before the last one; None: no job had any
    tables: those of aspects, by the names of a run's files; None: none
    availability: columns of `AVAILABILITY_SCHEMA` (availability.csv): when nodes were out of service; None: never; a text: why that
        is not known
    w2_reading: "magnitude" (w / 10^floor(log10 t)) or "log" (w / ln t)
    immediate_below: seconds; a job with a shorter wait started immediately (immediate_start.py)
    warmup_cut, cooldown_cut: what is cut off the schedule before it is measured, in seconds or as text ("3600", "5%")

    A metric that cannot be computed is null, with its reason. Raises WrongUse for a setting out of range, and for cuts that
    leave nothing.
    """
    _check_settings(processors, nodes, tau, w2_reading, immediate_below)
    chosen = Settings(processors, nodes, tau, w2_reading, immediate_below)
    changes = {"suspensions": suspensions, "allocations": allocations, "executions": executions}
    population = Population.of(jobs, processors, nodes, warmup_cut, cooldown_cut, **changes)
    inside, window = population.inside, population.window
    classes = by_class(inside, chosen)  # before the course of the schedule, which may be a larger table, is there
    values: Values = dict.fromkeys(METRICS, _NOBODY)
    busy_nodes: pl.DataFrame | str = _NOBODY
    excluded, waits = population.excluded, population.waits
    steady: dict[str, Any] = {"window": None, "jobs": 0, "metrics": None, "reason": _NOBODY}
    if window is not None:
        of_jobs, narrower = over_jobs(inside, {name: metric.formula for name, metric in METRICS.items()}, chosen)
        schedule = MeasuredSchedule(population, window, chosen, suspensions, tables or {}, availability)
        values |= of_jobs | _of_schedule(schedule, METRICS)
        busy_nodes = schedule.busy_nodes
        excluded = excluded | narrower
        steady = _steady(schedule)
    reasons = {name: value for name, value in values.items() if isinstance(value, str)}
    if isinstance(busy_nodes, str):
        reasons["distribution"] = busy_nodes
    return {
        "jobs": _counts(jobs),
        "metrics": {name: None if name in reasons else value for name, value in values.items()},
        "null_reasons": reasons,
        "settings": {
            "tau": tau,
            "w2_reading": w2_reading,
            "processors": processors,
            "nodes": nodes,
            "warmup_cut": 0.0 if window is None else window.warmup,
            "cooldown_cut": 0.0 if window is None else window.cooldown,
            "window": None if window is None else [window.begin, window.end],
            "percentiles": "linear",
            "immediate_below": immediate_below,
            "wait_horizon": waits.horizon,
            "job_nodes": _job_nodes(inside, nodes),
        },
        "excluded": {reason: count for reason, count in excluded.items() if count},
        "censored": {"jobs": len(waits.censored), "share": waits.share},
        "steady": steady,
        "distribution": None if isinstance(busy_nodes, str) else busy_nodes.to_dict(as_series=False),
        "classes": classes,
    }


def _steady(schedule: MeasuredSchedule) -> dict[str, Any]:
    """Member "steady": the main metrics of the part of the schedule between the first and the last tenth of the submissions' time.

    Members: window (its ends), jobs, metrics, and reason: why metrics is null, which it is for few jobs.
    """
    part = schedule.population.steady()
    window, jobs = part.window, part.inside.height
    assert window is not None
    member: dict[str, Any] = {"window": [window.begin, window.end], "jobs": jobs}
    if jobs < FEWEST_STEADY:
        return {**member, "metrics": None, "reason": f"fewer than {FEWEST_STEADY} jobs were submitted in it"}
    main = {name: metric for name, metric in METRICS.items() if metric.is_main}
    values: Values = over_jobs(part.inside, {name: metric.formula for name, metric in main.items()}, schedule.settings)[0]
    values |= _of_schedule(schedule.within(part), main)
    return {**member, "metrics": {name: None if isinstance(values[name], str) else values[name] for name in main}, "reason": ""}


def _of_schedule(schedule: MeasuredSchedule, metrics: Mapping[str, Metric]) -> dict[str, Value]:
    """Values of those metrics that are not over jobs."""
    values: dict[str, Value] = {}
    for name, metric in metrics.items():
        if isinstance(metric.formula, OfSchedule):
            values[name] = metric.formula.function(schedule)
        elif isinstance(metric.formula, MeanByNodes):
            values[name] = mean_by_nodes(schedule, metric.formula)
    return values


def table(metrics: dict[str, Any]) -> list[tuple[str, float | None, str, str]]:
    """Rows (name, value, unit, meaning) of `compute`'s result for tables; for a null, the reason instead of the meaning."""
    values, reasons, settings = metrics["metrics"], metrics["null_reasons"], metrics["settings"]
    return [
        (name, values[name], metric.unit, reasons.get(name, meaning_of(metric, settings)))
        for name, metric in METRICS.items()
        if name in values  # metrics.json has none that came later
    ]


def meaning_of(metric: Metric, settings: Mapping[str, Any]) -> str:
    """What a metric means, with the setting that it depends on."""
    return f"{metric.meaning}, {metric.setting.format(**settings)}" if metric.setting else metric.meaning


def _check_settings(processors: int, nodes: int | None, tau: float, w2_reading: str, immediate_below: float) -> None:
    if processors < 1:
        raise WrongUse(f"processors: {processors} may be 1 or more")
    if nodes is not None and not 1 <= nodes <= processors:
        raise WrongUse(f"nodes: {nodes} may be from 1 to the number of processors, {processors}")
    if not tau > 0:
        raise WrongUse(f"{tau:g} may be any number of seconds above 0", parameter="tau")
    if not immediate_below > 0:
        raise WrongUse(f"{immediate_below:g} may be any number of seconds above 0", parameter="immediate")
    if w2_reading not in ("magnitude", "log"):
        raise WrongUse(f"w2_reading: {w2_reading!r} may be magnitude or log")


def _counts(jobs: pl.DataFrame) -> dict[str, int]:
    """Jobs by how they ended; `other`: none of these (not ended, or not recorded)."""
    by_state = dict(jobs["state"].value_counts().iter_rows())
    counts = {name: sum(by_state.get(state, 0) for state in of_these) for name, of_these in _COUNTED.items()}
    return {"submitted": jobs.height, **counts, "other": jobs.height - sum(counts.values())}


def _job_nodes(jobs: pl.DataFrame, nodes: int | None) -> str | None:
    """Where the nodes of jobs come from: the record, or as few as hold their processors, or some of both."""
    missing = jobs["nodes"].null_count()
    if nodes is None or jobs.height == 0:
        return None
    return "recorded" if missing == 0 else "packed" if missing == jobs.height else "mixed"
