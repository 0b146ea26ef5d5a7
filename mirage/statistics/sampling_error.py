"""95 % intervals of a single schedule's metrics for other jobs like its own; docs/comparison-method.md has the method."""

from __future__ import annotations

import math

import polars as pl

from mirage.metrics.formulas import Settings
from mirage.metrics.registry import METRICS
from mirage.statistics import inference
from mirage.statistics.intervals import LEVEL
from mirage.statistics.other_jobs import CYCLES, too_few
from mirage.statistics.sums_over_jobs import FOR_OTHER_JOBS, ForOthers

NOT_SHOWN = "intervals of this metric for other jobs were not shown to hold"
NOTHING_VARIES = "all parts of the jobs have the same value, or none"


def intervals(inside: pl.DataFrame, settings: Settings) -> dict[str, tuple[float, float] | str]:
    """The interval of each metric, or why it has none.

    inside: columns of `Population.inside`
    """
    found = ForOthers.of(inside.sort("a", "id"), settings)
    ends: dict[str, tuple[float, float] | str] = dict.fromkeys(METRICS, NOT_SHOWN)
    for column, name in enumerate(FOR_OTHER_JOBS):
        chance = inference.of_jobs(found.without[:, column])
        if found.cycles[column] < CYCLES:
            ends[name] = too_few(float(found.cycles[column]))
        elif chance is None or not chance.error:
            ends[name] = NOTHING_VARIES
        else:
            value, half = float(found.rest[column]), chance.half_width((1 - LEVEL) / 2)
            most = 1.0 if METRICS[name].is_share else math.inf
            ends[name] = max(METRICS[name].least, value - half), min(most, value + half)
    return ends
