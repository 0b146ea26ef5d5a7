"""Common parts of the pages of runs, sweeps and comparisons: metrics as text, tables by job class, tables of inputs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import polars as pl

from mirage.knobs.table import BY_NAME
from mirage.metrics.classes import ALL, RUNTIMES
from mirage.metrics.formulas import Settings
from mirage.metrics.registry import METRICS, WAIT, job_value
from mirage.reports.page import Table
from mirage.text.words import counted, duration, number, percent, three_digits, two_digits

_EMPTY: tuple[Any, ...] = ("", None, {}, [])


def figure(name: str, value: float | None) -> str:
    """The value of a metric as text with its unit; - for None."""
    if value is None:
        return "-"
    metric = METRICS[name]
    if metric.is_share:
        return percent(value)
    return duration(value) if metric.unit == "s" else number(round(value, 2))


def with_errors(name: str, value: float | None, errors: Mapping[str, Mapping[str, Any]]) -> str:
    """The value of a metric with its errors: 292 s (5 min) ± 9 s (emulation) ± 2 s (replicas), other jobs 230 s to 310 s. errors:
    member of metrics.json"""
    of_metric = errors.get(name, {})
    known = {kind: of_metric[kind] for kind in ("emulation", "replicas") if of_metric.get(kind) is not None}
    shown = figure(name, value)
    if known and value is not None and METRICS[name].unit == "s":
        # In seconds, as the errors may be less than a minute.
        shown = f"{number(value)} s" + (f" ({shown})" if value >= 90 else "")
    text = " ± ".join([shown, *(f"{_error(name, error)} ({kind})" for kind, error in known.items())])
    ends = of_metric.get("other_jobs")
    return text if ends is None else f"{text}, other jobs {' to '.join(_error(name, end, three_digits) for end in ends)}"


def _error(name: str, error: float, rounded: Callable[[float], str] = two_digits) -> str:
    """A half width with two digits, or another number of `rounded`; a share in per cent."""
    metric = METRICS[name]
    if metric.unit == "s":
        return f"{number(float(rounded(error)))} s"
    return f"{rounded(100 * error)} %" if metric.is_share else rounded(error)


def suspended_words(validities: Sequence[Mapping[str, Any]]) -> str:
    """A sentence about the agreement of sigsleep's and Slurm's records on times suspended; "" if none can be compared."""
    known = [one for one in validities if one.get("suspended_compared")]
    if not known:
        return ""
    compared = sum(one["suspended_compared"] for one in known)
    apart = max(one["suspended_apart_max"] for one in known)
    beyond = sum(one["disagreements_by_kind"].get("suspended", 0) for one in known)
    result = "they agree" if beyond == 0 else f"they disagree on {beyond}"
    return (
        f"For {counted(compared, 'suspended job')} both sigsleep and Slurm recorded the time suspended: {result}; "
        f"the largest difference is {duration(apart)} (docs/records.md gives the resolution of the records)."
    )


def immediate_words(below: float) -> str:
    """A sentence that defines which jobs count as started immediately."""
    return (
        f"Jobs that waited less than {duration(below)}, the resolution of the record and of a start, count as started immediately."
    )


def waits_of(inside: pl.DataFrame) -> pl.Series:
    """Waits in seconds of the jobs of `Population.inside`."""
    return inside.select(WAIT).to_series()


def slowdowns_of(inside: pl.DataFrame, settings: Mapping[str, Any]) -> pl.Series:
    """Bounded slowdowns of the jobs of `Population.inside`. settings: member of metrics.json."""
    return inside.select(job_value("bounded_slowdown_mean", Settings.of(settings))).to_series()


def class_table(caption: str, rows: Mapping[tuple[str, str], Mapping[str, Any]], metric: str, told: Any, shade: Any) -> Table:
    """A table with a row per class of processors and a column per class of run times.

    rows: metrics by class of processors and class of run times
    metric: key of the metric in a row
    told: function that formats a value as text
    shade: function of a value and all known values to the darkness of its cell, from 0 to 1
    """
    sizes, runtimes = ([*dict.fromkeys(key[by] for key in rows if key[by] != ALL), ALL] for by in (0, 1))
    runtimes = [name for name in (*RUNTIMES, ALL) if name in runtimes]
    values = [[rows.get((size, runtime), {}).get(metric) for runtime in runtimes] for size in sizes]
    known = [value for line in values for value in line if value is not None]
    texts = [
        (
            size if size == ALL else f"{size} processors" if size != "1" else "1 processor",
            *("" if v is None else told(v) for v in line),
        )
        for size, line in zip(sizes, values, strict=True)
    ]
    shades = [[None if value is None else shade(value, known) for value in line] for line in values]
    return Table(f"{caption}, by processors and run time", ("", *runtimes), texts, shades)


def log_shade(value: float, known: list[float]) -> float:
    """Darkness of a value: 0 for the smallest to 1 for the largest, logarithmic; values below 1 count as 1."""
    low, high = (math.log(max(1.0, edge)) for edge in (min(known), max(known)))
    return (math.log(max(1.0, value)) - low) / (high - low) if high > low else 0.0


def inputs(experiment: Mapping[str, Any], unused: Set[str] = frozenset()) -> Iterable[Table]:
    """The content of experiment.json, a table per member, without what is empty or not used. Each knob is shown once.

    unused: names of knobs, see `features.unused_rows`
    """
    experiment = {**experiment, "knobs": _other_knobs(experiment)}
    rest = {name: value for name, value in experiment.items() if not isinstance(value, Mapping)}
    groups = {name: value for name, value in experiment.items() if isinstance(value, Mapping) and name not in unused}
    titles = {
        "inputs": "Inputs that define the run, without those that it did not use; experiment.json has all",
        "knobs": "Other knobs",
        "trace": "Source of the workload",
    }
    for name in dict.fromkeys(["inputs", "trace", *groups]):
        rows = [(key, _plain(value)) for key, value in groups.get(name, {}).items() if key not in unused and value not in _EMPTY]
        if rows:
            yield Table(titles.get(name, name), ("", "value"), rows, prose=(1,))
    if rest:
        yield Table("Other", ("", "value"), [(key, _plain(value)) for key, value in rest.items()], prose=(1,))


def _other_knobs(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """The knobs of the command that are not inputs, and those that have another value in the run than in its campaign."""
    command = "compare" if "comparison" in experiment else "experiment"
    known = experiment.get("inputs") or {}
    return {
        name: value
        for name, value in (experiment.get("knobs") or {}).items()
        if known.get(name) != value and (name not in BY_NAME or command in BY_NAME[name].targets)
    }


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text != "" else "-"
