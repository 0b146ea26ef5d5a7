"""What users ask for: requested times in place of those of a log or a model. See docs/models.md."""

from __future__ import annotations

import polars as pl

from ..errors import WrongUse


def replace(frame: pl.DataFrame, how: str, seed: int) -> pl.DataFrame:
    """The SWF frame with other requested times. how: "keep" (as they are) or "exact" (the run time)."""
    if how == "keep":
        return frame
    if how == "exact":
        return frame.with_columns(requested_time=pl.when(pl.col("run_time") >= 0).then("run_time").otherwise("requested_time"))
    raise WrongUse(f"ESTIMATES: {how!r} may be keep or exact (seed {seed})")
