"""When Slurm said that waiting jobs would start, beside when they did: start_estimates.csv, and its summary in metrics.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from mirage.records.run_records import NS, read_text
from mirage.records.time_map import TimeMap
from mirage.traces.csv_frame import read_csv

SCHEMA: dict[str, pl.DataType] = {"job": pl.Int64(), "at": pl.Float64(), "promised": pl.Float64(), "start": pl.Float64()}
"""Columns of start_estimates.csv, a row for the first plan of a job and for each hour after it, in trace seconds: `at` the job was
to start at `promised`; it did at `start`."""
HORIZONS = {"below 10 min": 600.0, "10 min to 1 h": 3600.0, "1 to 6 h": 21_600.0, "6 h to 1 d": 86_400.0, "above 1 d": math.inf}
"""Upper bounds of classes of the time until the promised start, in trace seconds."""
AT_SUBMISSION = "first plan"
UNIT = 60.0
"""Seconds below which differences hardly count, for logarithms of waits."""
col = pl.col


def estimates(path: Path, time: TimeMap, ids: pl.DataFrame, starts: pl.DataFrame) -> pl.DataFrame:
    """The rows of start_estimates.csv, by job and instant; none without the file `path` (PROMISES_FILE). Torn lines, jobs that
    never started, and plans made after the last start are left out.

    ids: id and slurm_id of the jobs. starts: job and start of each execution; the first one after a plan counts
    """
    if not path.exists():
        return pl.DataFrame(schema=SCHEMA)
    lines = read_text(path).split("\n")[1:-1]
    fields = [parts for line in lines if len(parts := line.split(",")) == 3]
    named = pl.DataFrame(fields, schema=dict.fromkeys(("virtual", "job_id", "planned"), pl.String), orient="row").select(
        col("virtual").cast(pl.Float64, strict=False),
        col("job_id").cast(pl.Int64, strict=False),
        col("planned").cast(pl.Float64, strict=False),
    )
    plans = named.drop_nulls().join(ids.drop_nulls().select(job="id", job_id="slurm_id"), on="job_id")
    plans = plans.select("job", at=_trace(time, "virtual"), promised=_trace(time, "planned")).sort("at")
    # Slurm's record resolves a second.
    came = starts.select("job", "start", until=col("start").cast(pl.Float64) + 1.0).drop_nulls().sort("until")
    joined = plans.join_asof(came, left_on="at", right_on="until", by="job", strategy="forward", check_sortedness=False)
    joined = joined.drop_nulls("start")
    return joined.select(col(name).cast(kind) for name, kind in SCHEMA.items()).sort("job", "at")


def _trace(time: TimeMap, name: str) -> pl.Expr:
    return time.trace((col(name) * NS).round().cast(pl.Int64))


def read(path: Path) -> pl.DataFrame:
    """start_estimates.csv. Raises WrongUse."""
    return read_csv(path, SCHEMA, "run")


def summary(rows: pl.DataFrame) -> Mapping[str, Any]:
    """Errors of the plans by the time until the promised start, and of the first plan of each job.

    Each class has `plans`, their number; `late`, the median of how much later the job started (seconds, negative: earlier);
    `error`, the median of the absolute difference; `log10`, the median of |log10| of the real to the promised time, each plus a
    minute; `within_minute`, the share that was right to a minute.
    """
    table = rows.with_columns(ahead=(col("promised") - col("at")).clip(0.0), came=(col("start") - col("at")).clip(0.0))
    bound = 0.0
    classes: dict[str, Any] = {AT_SUBMISSION: _errors(table.filter(col("job").is_first_distinct()))}
    for name, upper in HORIZONS.items():
        classes[name] = _errors(table.filter(col("ahead") >= bound, col("ahead") < upper))
        bound = upper
    return {name: errors for name, errors in classes.items() if errors["plans"]}


def _errors(table: pl.DataFrame) -> dict[str, Any]:
    late = col("came") - col("ahead")
    found = table.select(
        plans=pl.len(),
        late=late.median(),
        error=late.abs().median(),
        log10=((col("came") + UNIT) / (col("ahead") + UNIT)).log10().abs().median(),
        within_minute=(late.abs() <= UNIT).mean(),
    )
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in found.row(0, named=True).items()}
