"""Malleable jobs in a run's verdict: how long they waited for the broker, and the most processors that were allocated at once.

Jobs that change their size must not have more than the machine has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from polars import col

from mirage.metrics.allocations import holdings
from mirage.metrics.measured_jobs import Population
from mirage.records.record import RunRecord
from mirage.records.rounding import quantile, rounded
from mirage.verdict.aspects import AspectBound
from mirage_extras.malleable.figures import FIGURES as FIGURES
from mirage_extras.malleable.metrics import METRICS as METRICS
from mirage_extras.malleable.records import Resizes
from slurm_mirage.rm.evidence import Layout

KNOBS: tuple[str, ...] = ("MALLEABLE", "MALLEABLE_JOBS")
UNUSED, MEMBER = "0", "resizes"

BOUNDS = (
    AspectBound(
        Resizes,
        "broker_wait_share",
        "broker_wait_share",
        "the time for which malleable jobs waited for the broker",
        " of the time that they ran",
    ),
)


def members(
    record: RunRecord, measured: Mapping[str, Any], population: Population, suspensions: pl.DataFrame | None
) -> dict[str, Any]:
    """The member of metrics.json: what the broker answered; none without malleable jobs."""
    resizes = record.of(Resizes)
    return {} if resizes is None else {MEMBER: resizes.summary()}


def figures(record: RunRecord) -> dict[str, Any]:
    """How long malleable jobs waited for the broker, from question to answer, and for which share of the time that they
    ran; none without any."""
    if (resizes := record.of(Resizes)) is None:
        return {}
    took = resizes.changes["done"] - resizes.changes["asked"]
    waited = record.evidence.drop_nulls(["own_waits", "expected"])
    share = waited.select(col("own_waits").sum() / col("expected").sum()).item() if waited.height else None
    most = most_allocated(record)
    return {
        "resizes": resizes.changes.filter(col("outcome") == "done").height,
        "resizes_not_done": resizes.changes.filter(col("outcome") != "done").height,
        "resize_delay_mean": rounded(took.mean()),
        "resize_delay_p50": quantile(took, 0.5),
        "resize_delay_p99": quantile(took, 0.99),
        "broker_wait_share": rounded(share),
        "allocated_most": None if most is None else most[0],
    }


def most_allocated(record: RunRecord) -> tuple[int, float] | None:
    """The most processors that were certainly allocated at once, and since when (trace s); None if no job may change its size.

    Slurm's record tells instants to a second. So a job certainly had its processors from a second after each start or change of
    size to a second before its next change or its end. Suspended jobs have none.
    """
    if record.of(Resizes) is None:
        return None
    jobs = record.jobs.join(record.evidence.select("id", "allocated"), on="id", maintain_order="left")
    last = jobs.select(pl.max_horizontal(pl.col("submit", "start", "end").max())).item()
    sizes = jobs.drop_nulls("start").select(
        "id",
        s="start",
        f=pl.coalesce("end", pl.lit(last)),
        p=pl.coalesce("allocated", "processors"),
        c=col("nodes").fill_null(0),
    )
    earlier = record.tables.executions.join(sizes.select("id", "p", "c"), left_on="job", right_on="id")
    changes = record.tables.allocations.select(id="job", time="from", p="processors", c="nodes")
    held = pl.concat(
        [
            holdings(sizes, record.tables.suspensions, changes).select("begin", "end", "p"),
            earlier.select(begin="start", end="end", p="p"),
        ],
        how="vertical_relaxed",
    )
    second = record.time.second
    held = held.with_columns(col("begin") + second, col("end") - second).filter(col("end") > col("begin"))
    if held.is_empty():
        return 0, 0.0
    moves = pl.concat([held.select(at="begin", by="p"), held.select(at="end", by=-col("p"))])
    # At the same instant, ends are counted before begins.
    course = moves.sort("at", "by").with_columns(total=col("by").cum_sum())
    most, since = course.select(col("total").max(), col("at").get(col("total").arg_max())).row(0)
    return int(most), float(since)


def reasons(record: RunRecord, layout: Layout) -> list[str]:
    """The reason why a run is invalid in which more processors were allocated at once than the machine has."""
    allocated, processors = most_allocated(record), sum(node.processors for node in layout.nodes.values())
    if allocated is None or allocated[0] <= processors:
        return []
    most, since = allocated
    return [
        f"{most} processors were allocated at once, {since:.0f} s into the trace, and the machine has {processors}: see resizes.csv"
    ]
