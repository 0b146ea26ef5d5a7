"""For how much longer, or shorter, than wanted jobs held their processors, as a share of each job's own run time.

A mean would hide what happens to most jobs: run times have heavy tails. Shares of each job's run time are looked at by quantile,
and by class of size and of run time, because an error of equal seconds is a small share of the long jobs only. They are signed:
jobs that run too short, because too much was taken off for their launch, spoil a schedule as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
from polars import col

from mirage.metrics.classes import ALL, RUNTIMES, sizes
from mirage.records.record import RunRecord
from mirage.verdict.resolution import Resolution, relative

FEWEST = 20
"""Jobs of a class whose median is judged."""
FEWEST_OF_TAILS = 100
"""Jobs of a class whose 1st and 99th percentiles are judged: of fewer, one job alone is beyond them."""


@dataclass(frozen=True)
class Stretch:
    """Quantiles of the stretch of a set of jobs, as shares of their run times; None without jobs."""

    jobs: int
    p1: float | None
    """1st percentile of what is beyond the resolution of the run, as is p99: single jobs may be wrong by the resolution."""
    p50: float | None
    """Median as measured, in which Slurm's whole seconds mostly cancel out."""
    p50_beyond: float | None
    """Median of what is beyond a second of Slurm's record."""
    p99: float | None

    @classmethod
    def of(cls, jobs: pl.DataFrame) -> Stretch:
        """`jobs` has the columns of `shares`."""

        def quantile(column: str, share: float) -> float | None:
            value = jobs[column].quantile(share, "linear")
            return None if value is None else round(value, 6)

        return cls(
            jobs.height,
            quantile("beyond_resolution", 0.01),
            quantile("measured", 0.5),
            quantile("beyond_record", 0.5),
            quantile("beyond_resolution", 0.99),
        )


def shares(record: RunRecord, resolution: Resolution) -> pl.DataFrame:
    """A row per job whose stretch is known: processors, runtime (up to the limit, of a job killed at it), stretch (trace seconds),
    and this as a share of the run time: measured, beyond_record (a second of Slurm's record), beyond_resolution (what the run
    resolves)."""
    jobs = record.jobs.select("id", "processors", "runtime", "state").join(
        record.evidence.select("id", "stretch", "limit", "expected"), on="id", maintain_order="left"
    )
    jobs = jobs.with_columns(runtime=pl.coalesce("expected", "runtime"))
    until = pl.when(col("state") == "TIMEOUT").then(pl.min_horizontal("runtime", "limit")).otherwise("runtime")
    jobs = jobs.select("id", "processors", "stretch", runtime=until)
    jobs = jobs.drop_nulls("stretch").filter(col("runtime") > 0)
    return jobs.with_columns(
        measured=relative(col("stretch"), col("runtime")),
        beyond_record=relative(col("stretch"), col("runtime"), resolution.record),
        beyond_resolution=relative(col("stretch"), col("runtime"), resolution.trace_seconds),
    )


def of_load(jobs: pl.DataFrame) -> float | None:
    """The stretch of all jobs together, in processor time, as a share of the processor time that they wanted; `jobs` is that of
    `shares`. Few long jobs are most of a load, and no quantile over jobs shows them."""
    wanted = jobs.select((col("processors") * col("runtime")).sum()).item()
    added = jobs.select((col("processors") * col("stretch")).sum()).item()
    return round(added / wanted, 6) if wanted else None


def by_class(jobs: pl.DataFrame) -> list[tuple[dict[str, Any], Stretch]]:
    """The classes of size and of run time (classes.py) that have jobs, and the stretch of each; `jobs` is that of `shares`.

    A class is described by size and runtime, of which one is `all`.
    """
    widest = jobs["processors"].max()
    if not isinstance(widest, int):
        return []
    classes: list[tuple[dict[str, Any], Stretch]] = []
    for kind, column, edges in (("size", "processors", sizes(widest)), ("runtime", "runtime", RUNTIMES)):
        below = 0
        for name, most in edges.items():
            inside = (col(column) > below) & (pl.lit(True) if most is None else col(column) <= most)
            if (members := jobs.filter(inside)).height:
                classes.append(({"size": ALL, "runtime": ALL, kind: name}, Stretch.of(members)))
            below = most or below
    return classes
