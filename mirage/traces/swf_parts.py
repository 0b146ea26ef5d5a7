"""Joins the lines of SWF that are parts of one job, which was swapped out or restarted from checkpoints between them.

SWF 2.2 has two ways (header Preemption): `Double`, a line for the whole job, whose run time is the sum of its parts', beside their
lines; and `Yes`, lines of the parts alone. Parts have status 2, the last one 3 (completed) or 4 (failed). Only the first has a
submission, and the wait of the others counts from the end of the part before.
"""

from __future__ import annotations

import polars as pl

_FIRST, _LAST = 2, 4
_STATUS = {2: -1, 3: 1, 4: 0}
"""Status of the job by that of its last part."""


def joined(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The jobs (`swf.SCHEMA`), a line each, and the number of lines that were parts.

    If there are any, the jobs have the column `suspended`: seconds between the first start and the last end without a run. A job
    that has no line for the whole is made from its parts, with the size of the first one, in whose place it is.
    """
    col = pl.col
    placed = frame.with_row_index("place")
    is_part = col("status").is_between(_FIRST, _LAST)
    parts = placed.filter(is_part)
    if parts.is_empty():
        return frame, 0
    ends_before = (col("status") > _FIRST).cast(pl.Int64).cum_sum().over("job_number") - (col("status") > _FIRST)
    others = [name for name in frame.columns if name not in ("run_time", "status")]
    made = (
        parts.with_columns(number=ends_before)
        .group_by("job_number", "number", maintain_order=True)
        .agg(
            col("place", *(name for name in others if name != "job_number")).first(),
            run_time=pl.when((col("run_time") >= 0).any()).then(col("run_time").clip(0).sum()).otherwise(-1.0),
            status=col("status").last().replace_strict(_STATUS, return_dtype=pl.Int64),
            suspended=col("wait").slice(1).clip(0).sum(),
        )
    )
    whole = placed.filter(~is_part).with_columns(number=pl.int_range(pl.len()).over("job_number"))
    key = ["job_number", "number"]
    whole = whole.join(made.select(*key, "suspended"), on=key, how="left", maintain_order="left")
    alone = made.join(whole, on=key, how="anti")
    jobs = pl.concat([whole, alone.select(whole.columns)]).sort("place")
    return jobs.select(*frame.columns, pl.col("suspended").fill_null(0.0)), parts.height
