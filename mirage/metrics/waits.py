"""Waits of jobs of which some never started, and their restricted mean.

A job that is cancelled while it waits, or still waits when the record ends, has no wait, but it is known how long it waited at
least: its wait is censored. A mean over the jobs that started leaves it out, and falls when more users give up. The restricted mean
up to a horizon h is the mean of min(wait, h), the area below the Kaplan-Meier estimate of the share of jobs that still wait:

    S(x) = product over the waits v <= x of (1 - started after v / waited at least v),    mean = integral of S from 0 to h

Without censored waits, and with h the longest wait, it is the mean wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Waits:
    """Waits of jobs in seconds.

    started: of those that started
    censored: how long those waited that never started; NaN if it is unknown: such jobs are counted, without a wait
    """

    started: Floats
    censored: Floats

    @property
    def share(self) -> float:
        """Share of the jobs that never started."""
        jobs = len(self.started) + len(self.censored)
        return len(self.censored) / jobs if jobs else 0.0

    @property
    def _known(self) -> Floats:
        return self.censored[~np.isnan(self.censored)]

    @property
    def horizon(self) -> float:
        """The longest time that any job waited, started or not: nothing is known of longer waits."""
        return float(max(part.max(initial=0.0) for part in (self.started, self._known)))

    @property
    def known_up_to(self) -> float:
        """The time up to which S is known: to infinity, where it is 0, if a job that started waited longest; else `horizon`."""
        return np.inf if self.started.max(initial=-1.0) > self._known.max(initial=-1.0) else self.horizon

    def restricted_mean(self, horizon: float) -> float:
        """Mean of min(wait, horizon); see the module's text. Beyond `known_up_to` S is taken as constant."""
        censored = self._known
        if not len(censored):
            return float(np.minimum(self.started, horizon).mean())
        times, places = np.unique(np.concatenate([self.started, censored]), return_inverse=True)
        starts = np.bincount(places[: len(self.started)], minlength=len(times))
        leaving = np.bincount(places, minlength=len(times))
        waiting = leaving[::-1].cumsum()[::-1]
        still = np.concatenate([[1.0], np.cumprod(1.0 - starts / waiting)])
        edges = np.concatenate([[0.0], np.minimum(times, horizon), [horizon]])
        return float((still * np.diff(edges)).sum())


def common_horizon(waits: Sequence[Waits]) -> float:
    """The one horizon for all schedules of a comparison, so that their means are of the same quantity: the longest horizon of any,
    but no longer than each schedule is known (`known_up_to`)."""
    return min(max(one.horizon for one in waits), *(one.known_up_to for one in waits))
