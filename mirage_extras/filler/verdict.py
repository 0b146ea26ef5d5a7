"""The member "fillers" of metrics.json: what the filler jobs did in all, the machine's load over time, and the bound of the gain.

The bound is that of Polyakov and Dubenskaya (2018) for any share of idle processors: idle (1 - t) c, where t is what a start and a
save take of a slot, and c the speed of a filler compared with a bare process. mirage_extras/filler/README.md explains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from polars import col

from mirage.metrics.measured_jobs import Population
from mirage.metrics.usage_over_time import course
from mirage.records.record import RunRecord
from mirage.records.rounding import rounded
from mirage.statistics.intervals import student
from mirage_extras.filler.figures import FIGURES as FIGURES
from mirage_extras.filler.metrics import FAILED, OUTCOMES
from mirage_extras.filler.metrics import METRICS as METRICS
from mirage_extras.filler.records import Fillers
from slurm_mirage.extras.filler.words import SLOTS
from slurm_mirage.rm.evidence import Layout

KNOBS: tuple[str, ...] = ("FILLER", "FILLER_JOBS")
UNUSED, MEMBER = "no", "fillers"

INTERVALS = 20
"""Number of equal parts of the schedule for which loads are reported, and from which intervals of means are estimated."""

Floats = np.ndarray[Any, np.dtype[np.float64]]


def members(
    record: RunRecord, measured: Mapping[str, Any], population: Population, suspensions: pl.DataFrame | None
) -> dict[str, Any]:
    """The member of metrics.json; none without fillers. measured, population, suspensions: as for `summary`"""
    fillers = record.of(Fillers)
    return {} if fillers is None else {MEMBER: summary(fillers, measured, population, suspensions)}


def summary(
    fillers: Fillers, measured: Mapping[str, Any], population: Population, suspensions: pl.DataFrame | None
) -> dict[str, Any]:
    """The member; shares are of the machine over the window of the metrics.

    measured: members of `metrics.compute`; population, suspensions: as it took them
    """
    runs = fillers.executions
    counts = {outcome: runs.filter(col("outcome") == outcome).height for outcome in OUTCOMES}
    second = fillers.time.second
    member: dict[str, Any] = {
        "variant": fillers.variant,
        "words": fillers.words.text(),
        "fillers": runs["filler"].n_unique(),
        "executions": runs.height,
        "outcomes": counts,
        "saves": int(runs["saves"].sum()),
        "failed_saves": int(runs["failed_saves"].sum()),
        "work": rounded(runs["work"].sum()),
        "faults": fillers.faults,
    }
    saves = int(runs["saves"].sum()) + int(runs["failed_saves"].sum())
    means: dict[str, Any] = runs.select(
        restore_mean=col("restoring").filter(col("ready").is_not_null()).mean(),
        save_mean=pl.when(saves > 0).then(col("saving").sum() / saves),
        slot=(col("end") - col("start")).mean() if fillers.variant != SLOTS else pl.lit(fillers.words.slot * second),
    ).row(0, named=True)
    restoring, saving, slot = means["restore_mean"], means["save_mean"], means["slot"]
    share = (restoring + saving) / slot if slot and restoring is not None and saving is not None else None
    member |= {name: rounded(value) for name, value in means.items()} | {"t": rounded(share), "c": fillers.words.speed}
    return member | _of_time(runs, measured, population, suspensions, share, fillers)


def _of_time(
    runs: pl.DataFrame,
    measured: Mapping[str, Any],
    population: Population,
    suspensions: pl.DataFrame | None,
    share: float | None,
    fillers: Fillers,
) -> dict[str, Any]:
    """Members `over_time` (a row for each of `INTERVALS` parts of the window) and `bound`: means over the parts of the idle share,
    the largest possible gain, the gain and their difference, with half widths of 95 % intervals; mean of each of its causes."""
    window = population.window
    if window is None or window.length <= 0 or share is None:
        return {"over_time": [], "bound": None}
    edges = np.linspace(window.begin, window.end, INTERVALS + 1)
    capacity = measured["settings"]["processors"] * window.length / INTERVALS
    levels = course(population, suspensions, with_nodes=False).filter(col("time").is_finite())
    main = _integrals(levels["time"].to_numpy(), levels["busy"].to_numpy().astype(np.float64), edges) / capacity
    taken = {name: _filled(runs, quantity, edges) / capacity for name, quantity in _QUANTITIES.items()}
    filler, useful, lost, overhead = taken.values()
    rows = [
        {
            "begin": rounded(edges[place]),
            **{name: rounded(values[place]) for name, values in (("main", main), *taken.items())},
            "idle": rounded(1 - main[place] - filler[place]),
        }
        for place in range(INTERVALS)
    ]
    speed, idle = fillers.words.speed, 1 - main
    bound = idle * (1 - share) * speed
    parts = {"not_filled": speed * (idle - filler), "lost": speed * lost, "beyond_t": speed * (overhead - share * idle)}
    return {
        "over_time": rows,
        "bound": {
            "idle": _with_interval(idle),
            "value": _with_interval(bound),
            "gain": _with_interval(useful),
            "difference": _with_interval(useful - bound),
            "because": {name: rounded(values.mean()) for name, values in parts.items()},
        },
    }


_QUANTITIES = {
    "filler": pl.lit(None, pl.Float64),
    "useful": col("work"),
    "lost": col("lost"),
    "overhead": col("saving") + col("restoring") + col("waiting"),
}
"""Columns of an execution, which count in proportion to its time in a part of the schedule; null: its length."""


def _filled(runs: pl.DataFrame, quantity: pl.Expr, edges: Floats) -> Floats:
    """Processor seconds of a quantity of the executions in each part of the time."""
    until = pl.coalesce("end", pl.lit(float(edges[-1])))
    table = runs.select("start", end=until, length=until - col("start"), amount=quantity, p="processors").filter(col("length") > 0)
    table = table.with_columns(density=pl.coalesce(col("amount") / col("length"), pl.lit(1.0)) * col("p"))
    moves = pl.concat([table.select(time="start", by="density"), table.select(time="end", by=-col("density"))]).sort("time")
    return _integrals(moves["time"].to_numpy(), np.cumsum(moves["by"].to_numpy()), edges)


def _integrals(times: Floats, levels: Floats, edges: Floats) -> Floats:
    """Integrals between the edges of a step function that has the level `levels[i]` from `times[i]` on, and 0 before."""
    if times.size == 0:
        return np.zeros(edges.size - 1)
    end = max(times[-1], edges[-1]) + 1.0
    points = np.concatenate([[min(times[0], edges[0]) - 1.0], times, [end]])
    area = np.concatenate([[0.0, 0.0], np.cumsum(levels * np.diff(np.concatenate([times, [end]])))])
    return np.diff(np.interp(edges, points, area))


def _with_interval(values: Floats) -> list[float | None]:
    """The mean of the parts, and half the width of its 95 % interval by Student's t: parts are long, and taken as independent."""
    half = student(values.size - 1) * values.std(ddof=1) / np.sqrt(values.size)
    return [rounded(values.mean()), rounded(half)]


def figures(record: RunRecord) -> dict[str, Any]:
    """The figures of the verdict about fillers; none without fillers."""
    fillers = record.of(Fillers)
    if fillers is None:
        return {}
    failed = fillers.executions.filter(col("outcome") == FAILED).height
    return {"filler_faults": len(fillers.faults), "fillers_failed": failed}


def reasons(record: RunRecord, layout: Layout) -> list[str]:
    """Reasons why a run is invalid for what its fillers did: work that was counted twice, and fillers that failed."""
    fillers = record.of(Fillers)
    if fillers is None:
        return []
    lines = [f"the records of filler jobs contradict each other: {'; '.join(fillers.faults)}"] if fillers.faults else []
    if failed := figures(record)["fillers_failed"]:
        lines.append(f"{failed} executions of filler jobs failed: see the logs of slurmd")
    return lines


def errors(
    record: RunRecord, values: Mapping[str, float | None], emulation: Mapping[str, float | str], capacity: float
) -> dict[str, float]:
    """Half widths of the metrics of fillers: the launches of their programs, which took time of their executions. Without fillers
    they are exactly 0.

    capacity: processor seconds of the machine over the window
    """
    fillers = record.of(Fillers)
    share = 0.0 if fillers is None or capacity <= 0 else fillers.launch / capacity
    widths = {
        name: share for name in ("filler_load", "filler_useful", "filler_lost", "filler_overhead") if values[name] is not None
    }
    of_jobs = emulation.get("utilisation")
    return widths | ({"total_load": share + of_jobs} if isinstance(of_jobs, float) and values["total_load"] is not None else {})


def sentences(metrics: Mapping[str, Any]) -> list[str]:
    """A sentence without a full stop about the fillers of metrics.json; none without fillers."""
    fillers = metrics.get("fillers")
    if not fillers:
        return []
    ended = metrics["metrics"]["filler_preemptions"] or 0
    counts = f"{fillers['fillers']} fillers in {fillers['executions']} executions, {ended:.0f} ended for other jobs"
    if (bound := fillers["bound"]) is None:
        return [f"filler jobs ({fillers['variant']}): {counts}"]
    gain, least, idle = (f"{100 * bound[name][0]:.2f} ± {100 * bound[name][1]:.2g} %" for name in ("gain", "value", "idle"))
    return [
        f"filler jobs ({fillers['variant']}): {counts}; their useful work is {gain} of the machine, the bound idle (1 - t) c is "
        f"{least} (idle {idle}, t {fillers['t']:.3g}, c {fillers['c']:g})"
    ]
