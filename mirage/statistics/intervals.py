"""Parts of intervals: their level, Student's t, ratios."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Interval = tuple[float, float] | None

LEVEL = 0.95


def student(freedom: float, share: float = 0.5 + LEVEL / 2) -> float:
    """Quantile of Student's t. freedom: degrees of freedom, any number above 0; share: the probability below the quantile."""
    from scipy.special import stdtrit  # takes as long to import as all else that a command without intervals imports

    return float(stdtrit(freedom, share))


def ratios(above: Floats, below: Floats) -> Floats:
    """Element-wise ratio; NaN where the denominator is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = above / below
    return np.where(np.isfinite(ratio), ratio, np.nan)
