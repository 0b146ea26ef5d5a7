"""What the trials so far tell of settings that were not tried: a Gaussian process over the grid of their values.

Its covariance is a sum over the settings, so that few trials tell the effect of each one, and a smaller part of their product, for
settings that act together (Duvenaud, Nickisch and Rasmussen 2011). Places of ordered values lie evenly from 0 to 1. How much each
setting matters, and the noise, are those of a few candidates under which the trials are likeliest.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from mirage.statistics.intervals import Floats

Point = tuple[int, ...]
"""The place of each setting's value among its values."""
_LENGTH = 0.4  # over which the effect of a setting changes, as a share of its range
_SUM = 0.8  # share of the variance of the sum over the settings; the rest is of the product
_SCALES = (0.1, 1.0)  # candidates of how much a setting matters
_NOISES = (1e-3, 0.1)  # candidates of the variance of a trial's noise, as a share of that of all trials
_LEAST = 1e-9
_ALL_SCALES = 6  # settings up to which all combinations of scales are looked at


@dataclass(frozen=True)
class Axis:
    """The values of a setting: how many, and whether they have an order."""

    count: int
    is_ordered: bool = True


def _covariance(axes: Sequence[Axis], some: Floats, others: Floats) -> Floats:
    """Covariance by each setting alone: (settings, points, points)."""
    parts = []
    for place, axis in enumerate(axes):
        apart = np.subtract.outer(some[:, place], others[:, place])
        distance = apart / max(axis.count - 1, 1) if axis.is_ordered else (apart != 0).astype(float)
        parts.append(np.exp(-0.5 * (distance / _LENGTH) ** 2))
    return np.array(parts)


def _sum_of(parts: Floats, scales: Floats) -> Floats:
    """The covariance of all settings. scales: how much each matters, with the sum 1"""
    total: Floats = _SUM * np.tensordot(scales, parts, 1) + (1 - _SUM) * np.prod(parts, axis=0)
    return total


class Surrogate:
    """The process with the trials that it knows."""

    def __init__(self, axes: Sequence[Axis], points: Sequence[Point], figures: Sequence[float]) -> None:
        self._axes, self._points = axes, np.array(points, float)
        values = np.array(figures, float)
        self._mean, spread = float(values.mean()), float(values.std())
        self._spread = spread if spread > 1e-12 * max(1.0, abs(self._mean)) else 0.0
        known = (values - self._mean) / (self._spread or 1.0)
        parts, best = _covariance(axes, self._points, self._points), -np.inf
        for scales, noise in itertools.product(self._candidates(len(axes)), _NOISES):
            factor = np.linalg.cholesky(_sum_of(parts, scales) + noise * np.eye(len(known)))
            weights = np.linalg.solve(factor.T, np.linalg.solve(factor, known))
            size = max(float(known @ weights) / len(known), 1e-3)
            likelihood = -0.5 * len(known) * np.log(size) - float(np.log(np.diag(factor)).sum())
            if likelihood > best:
                best, self._scales, self._factor, self._weights, self._size = likelihood, scales, factor, weights, size

    @staticmethod
    def _candidates(settings: int) -> list[Floats]:
        if settings > _ALL_SCALES:
            return [np.full(settings, 1 / settings)]
        every = np.array(list(itertools.product(_SCALES, repeat=settings)))
        return list(every / every.sum(1, keepdims=True))

    def expected(self, points: Sequence[Point]) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the figure at points."""
        across = _sum_of(_covariance(self._axes, np.array(points, float), self._points), self._scales)
        rest = 1 - (np.linalg.solve(self._factor, across.T) ** 2).sum(0)
        deviation = np.sqrt(np.maximum(rest, _LEAST) * self._size)
        return self._mean + self._spread * (across @ self._weights), self._spread * deviation

    def improvement(self, points: Sequence[Point], best: float) -> Floats:
        """By how much the figure at each point is expected to be below the best one (Jones, Schonlau and Welch 1998)."""
        mean, deviation = self.expected(points)
        if not self._spread:
            return np.zeros(len(points))
        z = (best - mean) / deviation
        gain: Floats = (best - mean) * ndtr(z) + deviation * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
        return gain

    def effects(self) -> list[Floats]:
        """By how much each value of each setting alone moves the figure, with the mean 0 over its values."""
        found = []
        for place, axis in enumerate(self._axes):
            probe = np.zeros((axis.count, len(self._axes)))
            probe[:, place] = np.arange(axis.count)
            parts = _covariance(self._axes, probe, self._points)
            moved = self._spread * _SUM * self._scales[place] * (parts[place] @ self._weights)
            found.append(moved - moved.mean())
        return found
