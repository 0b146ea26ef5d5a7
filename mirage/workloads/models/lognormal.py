"""Whole numbers of a lognormal distribution with a maximum, for models of which only mean, deviation and maximum are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from mirage.workloads.models.draft import Floats, Wholes


@dataclass(frozen=True)
class Ceiled:
    """X = min(ceil(exp(mu + sigma Z)), most), given that exp(mu + sigma Z) > above; Z is standard normal.

    Values above `most` are taken as `most`: the limit of a machine, which some jobs always reach.
    """

    mu: float
    sigma: float
    above: int
    most: int

    def draw(self, rng: np.random.Generator, count: int, at_most: int | None = None) -> Wholes:
        """`count` values; with at_most < most only such as are not larger than that (the others are left out)."""
        low, high = self._probabilities(at_most)
        normal = ndtri(low + rng.random(count) * (high - low))
        values = np.ceil(np.exp(self.mu + self.sigma * normal))
        whole: Wholes = values.clip(self.above + 1, min(self.most, at_most or self.most)).astype(np.int64)
        return whole

    def moments(self, at_most: int | None = None) -> tuple[float, float]:
        """Mean and standard deviation, exactly: summed over all values."""
        low, high = self._probabilities(at_most)
        below = np.arange(self.above, min(self.most, at_most or self.most))
        more = (high - self._below(below)) / (high - low)
        mean = self.above + float(more.sum())
        square = self.above**2 + float(((2 * below + 1) * more).sum())
        return mean, (square - mean * mean) ** 0.5

    def _probabilities(self, at_most: int | None) -> tuple[float, float]:
        """Of exp(mu + sigma Z) to be `above` or less, and to be among what may be drawn or less."""
        high = 1.0 if at_most is None or at_most >= self.most else float(self._below(np.array([at_most]))[0])
        return float(self._below(np.array([self.above]))[0]), high

    def _below(self, values: Wholes) -> Floats:
        with np.errstate(divide="ignore"):
            below: Floats = ndtr((np.log(values.astype(np.float64)) - self.mu) / self.sigma)
        return below
