"""Bounds of a mean over all pairs of runs, from some of them, whatever the distribution of their values; and a test for most pairs.

Values of runs may fall into groups that lie far apart. No bound of a mean holds for every distribution: a group that is rare enough
is missed, and may lie anywhere. The bounds here are of the mean in which values beyond a quantile count as that quantile. So many
pairs all lie on the near side of the quantile that a share of all pairs reaches with probability (1 - share)^pairs; otherwise the
highest value that was seen is as high, which is what the bound takes as the end of the distribution.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from mirage.statistics.intervals import Floats, student

_DRAWS = 20_000
_SEED = 1


def mean_bounds(values: Floats, below: float, above: float) -> tuple[float, float]:
    """Ends that the mean over all pairs lies below, and above, with these probabilities: those of Student's t or, where these are
    farther, those that hold for any distribution between the lowest and the highest value (Gaffke 2005): of the means with weights
    from a Dirichlet distribution and one more value, as low, or as high, as one that was seen.

    values: of two pairs or more
    """
    count, mean = len(values), float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(count)
    weights = _weights(count)
    drawn, one_more = weights[:, 1:] @ values, weights[:, 0]
    low = float(np.quantile(drawn + one_more * values.min(), below))
    high = float(np.quantile(drawn + one_more * values.max(), 1 - above))
    return min(low, mean - student(count - 1, 1 - below) * error), max(high, mean + student(count - 1, 1 - above) * error)


@lru_cache(maxsize=16)
def _weights(count: int) -> Floats:
    """(draws, count + 1)"""
    return np.random.default_rng([_SEED, count]).dirichlet(np.ones(count + 1), _DRAWS)


def is_in_most(number: int, pairs: int, error: float) -> bool:
    """Whether what so many of the pairs show is in more than half of all pairs (sign test). error: probability of a wrong yes"""
    return bool(sum(math.comb(pairs, k) for k in range(number, pairs + 1)) <= error * 2.0**pairs)
