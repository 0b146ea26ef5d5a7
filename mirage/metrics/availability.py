"""Metrics of the part of the machine that was in service, in runs whose events took nodes out of service (docs/events.md)."""

from __future__ import annotations

import polars as pl

from mirage.metrics.formulas import Value
from mirage.metrics.usage_over_time import NO_LENGTH, MeasuredSchedule, loss_of_capacity, utilisation

AVAILABILITY_SCHEMA: dict[str, pl.DataType] = {
    "kind": pl.String(),
    "begin": pl.Float64(),
    "end": pl.Float64(),
    "nodes": pl.String(),
    "processors": pl.Int64(),
}
"""Columns of availability.csv: times in which nodes were of a kind, OUT or EMPTIED. Times in trace seconds, the end null if it is
after the run. nodes: a host list; processors: all of these nodes together. No node is in two rows of one kind at the same time."""
OUT, EMPTIED = "out of service", "emptied for maintenance"
"""OUT: by an event (drain, down, fail, not-responding) or in a maintenance window. EMPTIED: without a job from the end of the last
one on the node, but not before the announcement of a maintenance window, until its begin."""
NOTHING_IN_SERVICE = "no processor was in service"
NOT_RECORDED = "the record does not tell which nodes were out of service"
OF_NO_EVENT = "nodes were out of service, and not by an event of the run"


def absent_fraction(schedule: MeasuredSchedule) -> Value:
    """Share of the machine's processor time in the window that was out of service."""
    if schedule.availability is None:
        return 0.0
    levels = _levels(schedule)
    return levels if isinstance(levels, str) else 1 - _available(levels) / schedule.capacity


def utilisation_available(schedule: MeasuredSchedule) -> Value:
    """Processor time in use over that in service."""
    if schedule.availability is None:
        return utilisation(schedule)
    used, levels = schedule.used, _levels(schedule)
    if isinstance(used, str):
        return used
    if isinstance(levels, str):
        return levels
    available = _available(levels)
    return used[0] / available if available > 0 else NOTHING_IN_SERVICE


def loss_of_capacity_available(schedule: MeasuredSchedule) -> Value:
    """Processor time in service that was idle although waiting jobs asked for as many processors, over that in service."""
    if schedule.availability is None:
        return loss_of_capacity(schedule)
    levels = _levels(schedule)
    if isinstance(levels, str):
        return levels
    available = _available(levels)
    lost = levels.select((pl.min_horizontal("waiting", pl.col("available") - pl.col("busy")).clip(0) * pl.col("dt")).sum()).item()
    return float(lost) / available if available > 0 else NOTHING_IN_SERVICE


def maintenance_idle(schedule: MeasuredSchedule) -> Value:
    """Share of the machine's processor time in the window on nodes emptied for maintenance, while jobs waited."""
    if schedule.availability is None:
        return 0.0
    levels = _levels(schedule)
    if isinstance(levels, str):
        return levels
    idle = levels.filter(pl.col("waiting") > 0).select((pl.col("emptied") * pl.col("dt")).sum()).item()
    return float(idle) / schedule.capacity


def _available(levels: pl.DataFrame) -> float:
    """Processor seconds in service in the window, from its intervals (`_levels`)."""
    return float(levels.select((pl.col("available") * pl.col("dt")).sum()).item())


def _levels(schedule: MeasuredSchedule) -> pl.DataFrame | str:
    """The intervals of the window, each of `dt` seconds: waiting, busy, as of `usage_over_time.course`, available and emptied.

    A job that goes on on a drained node has processors that are in service.
    """
    course, window, table = schedule.course, schedule.window, schedule.availability
    if window.length == 0:
        return NO_LENGTH
    if isinstance(table, str) or isinstance(course, str):
        return table if isinstance(table, str) else course
    assert table is not None
    of_kind = {kind: pl.when(pl.col("kind") == kind).then("processors").otherwise(0) for kind in (OUT, EMPTIED)}
    spans = table.select("begin", "end", out=of_kind[OUT], emptied=of_kind[EMPTIED])
    levels_of = pl.col("out", "emptied")
    steps = pl.concat([spans.select(levels_of, time="begin"), spans.drop_nulls("end").select(-levels_of, time="end")])
    sums = steps.sort("time").select("time", pl.col("out", "emptied").cum_sum())
    both = pl.concat([course.select("time", "waiting", "busy"), sums], how="diagonal").sort("time", maintain_order=True)
    # Of rows of one instant the last one has what all of them lead to, and lasts.
    filled = both.with_columns(pl.exclude("time").forward_fill().fill_null(0))
    time = pl.col("time").clip(window.begin, window.end)
    processors = schedule.settings.processors
    in_service = pl.max_horizontal(processors - pl.col("out"), pl.min_horizontal("busy", pl.lit(processors)))
    levels = filled.select("waiting", "busy", "emptied", available=in_service, dt=time.shift(-1, fill_value=window.end) - time)
    return levels.filter(pl.col("dt") > 0)
