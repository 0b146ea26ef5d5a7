"""What the pages about schedules have in common: metrics in words, tables by class of jobs, tables of inputs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from mirage.metrics import metrics as definitions
from mirage.metrics.classes import ALL, RUNTIMES
from mirage.reports.page import Table
from mirage.reports.words import counted, duration, number, percent

# Of the main table, in its order.
MAIN = (
    "wait_mean",
    "wait_median",
    "wait_p95",
    "wait_max",
    "response_mean",
    "bounded_slowdown_mean",
    "utilisation",
    "immediate_fraction",
)
_SHARES = ("utilisation", "loss_of_capacity", "immediate_fraction", "suspended_fraction")


def figure(name: str, value: float | None) -> str:
    """A metric as people read it, with its unit."""
    if value is None:
        return "-"
    if name in _SHARES:
        return percent(value)
    return duration(value) if definitions.MEANINGS[name][0] == "s" else number(round(value, 2))


def suspended_words(validities: Sequence[Mapping[str, Any]]) -> str:
    """How far sigsleep's and Slurm's records agree on how long jobs were suspended; empty where none can be compared."""
    known = [one for one in validities if one.get("suspended_compared")]
    if not known:
        return ""
    compared = sum(one["suspended_compared"] for one in known)
    apart = max(one["suspended_apart_max"] for one in known)
    beyond = sum(one["disagreements_by_kind"].get("suspended", 0) for one in known)
    found = "they agree" if beyond == 0 else f"they disagree on {beyond}"
    return (
        f"Of {counted(compared, 'suspended job')} both the job's own record and Slurm's tell for how long it was stopped: {found}; "
        f"the largest difference is {duration(apart)} (docs/validity.md: what the two records resolve)."
    )


def immediate_words(below: float) -> str:
    """Which jobs count as started at once."""
    return f"A job started at once if it waited less than {duration(below)}, which is what the record and a start can tell."


def waits_of(inside: pl.DataFrame) -> pl.Series:
    """Of `Population.inside`."""
    return inside.select(pl.col("s") - pl.col("a")).to_series()


def slowdowns_of(inside: pl.DataFrame, tau: float) -> pl.Series:
    """Bounded slowdowns of `Population.inside`."""
    return inside.select(((pl.col("f") - pl.col("a")) / pl.max_horizontal("t", pl.lit(tau))).clip(1)).to_series()


def class_table(caption: str, rows: Mapping[tuple[str, str], Mapping[str, Any]], metric: str, told: Any, shade: Any) -> Table:
    """Processors downwards, run times across."""
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
    """From 0 for the least to 1 for the largest, in logarithmic steps, from 1 on."""
    low, high = (math.log(max(1.0, edge)) for edge in (min(known), max(known)))
    return (math.log(max(1.0, value)) - low) / (high - low) if high > low else 0.0


def inputs(experiment: Mapping[str, Any]) -> Iterable[Table]:
    """All of experiment.json, a table for each of its members."""
    rest = {name: value for name, value in experiment.items() if not isinstance(value, Mapping)}
    groups = {name: value for name, value in experiment.items() if isinstance(value, Mapping)}
    titles = {"inputs": "Inputs that make the run what it is", "knobs": "All knobs", "trace": "The workload's source"}
    for name in dict.fromkeys(["inputs", "trace", *groups]):
        if groups.get(name):
            rows = [(key, _plain(value)) for key, value in groups[name].items()]
            yield Table(titles.get(name, name), ("", "value"), rows, prose=(1,))
    if rest:
        yield Table("Further", ("", "value"), [(key, _plain(value)) for key, value in rest.items()], prose=(1,))


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text != "" else "-"
