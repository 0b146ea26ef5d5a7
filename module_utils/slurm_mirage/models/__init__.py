"""Workload models: from a model's name, a number of jobs and a seed to an SWF frame. See docs/models.md.

The same seed gives the same jobs, to the byte, with the locked numpy.
"""

from __future__ import annotations

import polars as pl

from ..errors import WrongUse
from . import default
from .default import default_workload

__all__ = ["MODELS", "default_workload", "generate", "header"]

MODELS = ("raijin",)


def generate(model: str, jobs: int, seed: int, processors: int, *, load: float | None = None) -> pl.DataFrame:
    """A workload of `jobs` jobs for a machine of `processors` processors, as an SWF frame (waits unknown).

    `load` is the offered load: the sum of processors x run time, divided by processors x the time from the
    first to the last submission; None leaves the model's own arrivals. Raises WrongUse for an unknown model
    or nothing to generate.
    """
    if model not in MODELS:
        raise WrongUse(f"MODEL: {model!r} may be {' or '.join(MODELS)}")
    frame = default.generate(jobs, seed, processors)
    return frame if load is None else _offering(frame, processors, load)


def header(model: str, seed: int, processors: int, nodes: int) -> dict[str, str]:
    """The SWF header of a generated log: labels and values for swf.write_swf."""
    return {"Note": f"model {model}, seed {seed}", "MaxNodes": str(nodes), "MaxProcs": str(processors)}


def _offering(frame: pl.DataFrame, processors: int, load: float) -> pl.DataFrame:
    """The frame with its times between submissions multiplied by one factor, so that it offers the load."""
    area, span = frame.select((pl.col("allocated_processors") * pl.col("run_time")).sum(), pl.col("submit").max()).row(0)
    factor = area / (processors * load * span) if span else 1.0
    return frame.with_columns((pl.col("submit") * factor).floor())
