"""Separates the error of the virtual clock from the random variation (noise) of a metric's mean.

A schedule is chaotic: a job that starts a moment later may let another job start first, so repeated runs give different means. A
speed's deviation from the slowest speed is an error of the clock only as far as it exceeds this noise. Two estimates of the noise:

* from replicas: the standard deviation s within each speed, pooled over all speeds, with one degree of freedom for each replica
beyond a speed's first. This assumes the same noise at each speed. noise = t * s * sqrt(1/n + 1/m) is the half width of the 95 %
confidence interval of the difference between the means of n and of m replicas;
* from jobs, for runs without replicas: the per-job differences between two runs. Successive jobs deviate together, so jobs are
grouped into BLOCKS blocks of successive submissions, whose means are treated as independent (batch means: Law, Simulation Modeling
and Analysis). noise = t * s(means of the blocks) / sqrt(BLOCKS).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirage.statistics.intervals import student

BLOCKS = 10


@dataclass(frozen=True)
class Deviation:
    """Deviation of a speed's mean from the slowest speed's mean, in per cent of the latter.

    `percent` is None if that mean is 0; `noise` is also None if there are no replicas.
    """

    speed: float
    mean: float
    percent: float | None
    noise: float | None


def deviations(values: Mapping[float, Sequence[float]]) -> list[Deviation]:
    """Return the deviation of each speed except the slowest. `values` holds a metric's values by speed, one per replica."""
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
    """Return the half width of the 95 % confidence interval of the mean of the per-job differences, given by submission time.

    Returns None for fewer than two jobs per block.
    """
    size = len(differences) // BLOCKS
    if size < 2:
        return None
    # Jobs that do not fill a block are dropped at the beginning, where the machine is still empty and the runs do not differ.
    rest = len(differences) - size * BLOCKS
    means = [statistics.fmean(differences[rest + size * k : rest + size * (k + 1)]) for k in range(BLOCKS)]
    return student(BLOCKS - 1) * statistics.stdev(means) / math.sqrt(BLOCKS)


def exceeding(percent: float | None, noise: float) -> float | None:
    """Return the part of a deviation that exceeds the noise, with the deviation's sign; 0 if it does not exceed it."""
    if percent is None:
        return None
    return math.copysign(max(0.0, abs(percent) - noise), percent)


def trend(speeds: Sequence[float], values: Sequence[float]) -> dict[str, float] | None:
    """Return the trend of a metric with SPEED; each run is one observation, with its speed and its value of the metric.

    Linear regression on SPEED, because a delay in real time lasts SPEED times as long in virtual time: `slope`, with its 95 %
    interval `low` to `high`, per 100 of SPEED, the two-sided `p` of no slope, and `at_zero`, the line's value at SPEED=0. Kendall's
    tau-b, which assumes no form: `tau`, and its two-sided p `tau_p`. Further `runs`, their number.

    Returns None for fewer than three runs or a single speed.
    """
    if len(values) < 3 or len(set(speeds)) < 2:
        return None
    from scipy.stats import kendalltau, linregress

    line, rank = linregress(speeds, values), kendalltau(speeds, values)
    slope, half = float(line.slope) * 100, student(len(values) - 2) * float(line.stderr) * 100
    found = {"slope": slope, "low": slope - half, "high": slope + half, "p": float(line.pvalue)}
    return {
        "runs": len(values),
        "at_zero": float(line.intercept),
        **found,
        "tau": float(rank.statistic),
        "tau_p": float(rank.pvalue),
    }
