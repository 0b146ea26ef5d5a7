"""Noise and error told apart: how far the mean of a metric may be off by chance.

A schedule is chaotic: a job that starts a moment later may let another one pass, so the same run twice gives different means. A
speed's deviation from the slowest one is the clock's error only as far as it exceeds that noise. There are two measures of it:

* from replicas: the spread within each speed, pooled over all speeds, which has a degree of freedom for each replica beyond a
  speed's first. That takes the noise to be the same at each speed. noise = t * s * sqrt(1/n + 1/m) is the half width of the 95 %
  confidence interval of the difference between means of n and of m replicas;
* from jobs, for runs without replicas: the differences of two runs job by job. Neighbours in the queue deviate together, so jobs
  are taken in BLOCKS blocks of successive submissions, and the blocks' means as independent (batch means: Law, Simulation Modeling
  and Analysis). noise = t * s(means of the blocks) / sqrt(BLOCKS).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirage.statistics.bootstrap import student

BLOCKS = 10


@dataclass(frozen=True)
class Deviation:
    """Of a speed's mean from that of the slowest speed; percentages of the latter, None where it is 0 or there are no replicas."""

    speed: float
    mean: float
    percent: float | None
    noise: float | None


def deviations(values: Mapping[float, Sequence[float]]) -> list[Deviation]:
    """For each speed but the slowest; `values` are a metric's values by speed, one for each replica."""
    slowest = min(values)
    reference = statistics.fmean(values[slowest])
    freedom = sum(len(replicas) - 1 for replicas in values.values())
    squares = sum((value - statistics.fmean(replicas)) ** 2 for replicas in values.values() for value in replicas)
    spread = math.sqrt(squares / freedom) if freedom else None
    found = []
    for speed in sorted(set(values) - {slowest}):
        mean = statistics.fmean(values[speed])
        noise = None
        if spread is not None and reference:
            both = math.sqrt(1 / len(values[speed]) + 1 / len(values[slowest]))
            noise = student(freedom) * spread * both / abs(reference) * 100
        found.append(Deviation(speed, mean, (mean - reference) / reference * 100 if reference else None, noise))
    return found


def paired_noise(differences: Sequence[float]) -> float | None:
    """Half width of the 95 % confidence interval of the mean of two runs' differences, job by job in order of submission.

    None for fewer than two jobs a block.
    """
    size = len(differences) // BLOCKS
    if size < 2:
        return None
    # What does not fill a block is left out, at the beginning: there the machine is still empty, and nothing differs.
    rest = len(differences) - size * BLOCKS
    means = [statistics.fmean(differences[rest + size * k : rest + size * (k + 1)]) for k in range(BLOCKS)]
    return student(BLOCKS - 1) * statistics.stdev(means) / math.sqrt(BLOCKS)


def exceeding(percent: float | None, noise: float) -> float | None:
    """What of a deviation exceeds the noise, with its sign; 0 if nothing does."""
    if percent is None:
        return None
    return math.copysign(max(0.0, abs(percent) - noise), percent)
