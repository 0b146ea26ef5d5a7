"""What the sampler is told of trials. Without Optuna, which only a checkout has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mirage.tuning.surrogate import Axis, Point


@dataclass(frozen=True)
class Told:
    """A trial as the sampler knows it.

    figure: what is to be small; None: not known, as of a run that is not valid
    is_whole: whether it is the figure of all jobs, and not an estimate from a part of them
    """

    point: Point
    figure: float | None
    is_whole: bool = True


def startup(axes: Sequence[Axis]) -> int:
    """Number of the first trials, which are spread over the grid. Fewer tell nothing, unless they are all points of it."""
    return min(max(5, len(axes) + 2), math.prod(axis.count for axis in axes))
