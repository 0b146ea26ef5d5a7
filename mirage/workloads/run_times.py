"""Run times of jobs that run or wait, drawn from those of the record. A time limit is not a run time.

The distribution of a job is that of the jobs of its user with its limit, as far as there are enough; otherwise of all jobs of its
user, of the jobs with similar limits, of all jobs, and of any run time up to the limit. What is less specific weighs
`STRENGTH` jobs: a Dirichlet process at each level, whose base is the next level (Teh et al., "Hierarchical Dirichlet processes",
JASA 2006). Each draw has distributions of its own (the Bayesian bootstrap, Rubin, 1981): what is not known of a user is the same
for all jobs of the user in one draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

Times = NDArray[np.float64]
Numbers = NDArray[np.int64]
_Key = tuple[float, ...]

STRENGTH = 3.0
"""Jobs that the next level weighs as much as."""
HALF = (20.0, 50.0)
"""Jobs of a user after which one counts half, at the first two levels: users change what they run."""
_USER, _LIMIT, _SIMILAR = range(3)
_LEVELS = ((_USER, _LIMIT), (_USER,), (_SIMILAR,), ())
"""What the jobs of each level have in common: user, limit, the power of two next to the limit."""
_SHORTEST = 1.0
"""Seconds; the least run time."""
_UNLIMITED = 2.0
"""The limit of jobs whose limit is unknown or none, in times of the longest job so far, which may still run."""


@dataclass(frozen=True)
class Jobs:
    """Jobs whose run times are known or asked for: an element each. elapsed: seconds of execution; limit: requested seconds, NaN
    or not above 0 if unknown; user: number."""

    user: Numbers
    limit: Times
    elapsed: Times

    @property
    def count(self) -> int:
        """Number of jobs."""
        return int(self.user.size)


@dataclass(frozen=True)
class _Pool:
    """A distribution of run times as shares of the limit. shares: ascending; tails: the weight of each and all after it, and 0
    at the end; base: weight of the next level."""

    shares: Times
    tails: Times
    base: float

    @classmethod
    def of(cls, shares: Times, weights: Times, base: float) -> _Pool:
        """The pool of these jobs with these weights."""
        order = np.argsort(shares, kind="stable")
        tails = np.concatenate([np.cumsum(weights[order][::-1])[::-1], [0.0]])
        return cls(shares[order], tails, base)

    def above(self, share: float) -> float:
        """The weight of shares above this one."""
        return float(self.tails[np.searchsorted(self.shares, share, side="right")])

    def pick(self, mass: float) -> float:
        """The share above which there is this weight."""
        place = int(np.searchsorted(-self.tails, -mass, side="right")) - 1
        return float(self.shares[min(max(place, 0), self.shares.size - 1)])


def _known_limits(jobs: Jobs, longest: float) -> Times:
    """The limits; `longest` where they are unknown or none."""
    known = np.isfinite(jobs.limit) & (jobs.limit > 0)
    limits: Times = np.where(known, jobs.limit, longest)
    return limits


class _Pools:
    """The distributions of one draw. jobs: those whose run times are known (`elapsed`), the last ones of a user last."""

    def __init__(self, jobs: Jobs, longest: float, rng: np.random.Generator) -> None:
        self._longest, self._rng = longest, rng
        limits = _known_limits(jobs, longest)
        self._shares = (jobs.elapsed / limits).clip(0.0, 1.0)
        self._places = [_places(_columns(jobs.user, limits), equal) for equal in _LEVELS]
        self._pools: dict[tuple[int, _Key], _Pool] = {}

    def draw(self, jobs: Jobs) -> Times:
        """A run time of each job: longer than what has elapsed of it, and at most its limit. A job that has reached its limit ends
        a second later."""
        limits = _known_limits(jobs, self._longest)
        drawn = np.empty(jobs.count)
        for place, own in enumerate(zip(*(column.tolist() for column in _columns(jobs.user, limits)), strict=True)):
            elapsed, limit = float(jobs.elapsed[place]), float(limits[place])
            chain = [self._pool(level, tuple(own[column] for column in equal)) for level, equal in enumerate(_LEVELS)]
            least = min(max(elapsed, _SHORTEST) / limit, 1.0)
            drawn[place] = _share(chain, min(elapsed / limit, 1.0), least, self._rng) * limit
        result: Times = np.maximum(drawn, jobs.elapsed + 1.0)
        return result

    def _pool(self, level: int, key: _Key) -> _Pool:
        """The jobs that have the values `key` in the columns of the level."""
        if (level, key) not in self._pools:
            places = self._places[level].get(key, np.empty(0, np.int64))
            ages = np.arange(places.size)[::-1]
            weights = 2.0 ** (-ages / HALF[level]) if level < len(HALF) else np.ones(places.size)
            drawn = self._rng.standard_gamma(weights)
            self._pools[level, key] = _Pool.of(self._shares[places], drawn, float(self._rng.standard_gamma(STRENGTH)))
        return self._pools[level, key]


class Course:
    """One possible course: the run times of the jobs that run (`running`, seconds), and of others."""

    def __init__(self, ended: Jobs, running: Jobs, rng: np.random.Generator) -> None:
        """ended: jobs of the record in order of their ends, `elapsed` is their run time. running: those that run.

        Jobs that run are longer than those that have ended: their run times, as drawn, count for the other jobs.
        """
        longest = _UNLIMITED * float(max([_SHORTEST, *ended.elapsed, *running.elapsed]))
        self.running = _Pools(ended, longest, rng).draw(running)
        both = (np.concatenate(pair) for pair in zip(_members(ended), (running.user, running.limit, self.running), strict=True))
        self._pools = _Pools(Jobs(*both), longest, rng)

    def draw(self, jobs: Jobs) -> Times:
        """A run time of each job that waits or comes, in seconds."""
        return self._pools.draw(jobs)


def _members(jobs: Jobs) -> tuple[Numbers, Times, Times]:
    return jobs.user, jobs.limit, jobs.elapsed


def _columns(user: Numbers, limit: Times) -> tuple[NDArray[np.generic], ...]:
    """The columns of _LEVELS."""
    return user, limit, np.round(np.log2(limit)).astype(np.int64)


def _places(columns: Sequence[NDArray[np.generic]], equal: Sequence[int]) -> dict[_Key, Numbers]:
    """The places of the jobs that have the same values in the columns `equal`, in order, by these values."""
    if not equal:
        return {(): np.arange(columns[0].size)}
    names = [str(column) for column in equal]
    frame = pl.DataFrame({str(column): columns[column] for column in equal}).with_columns(place=pl.int_range(pl.len()))
    groups = frame.group_by(names, maintain_order=True).agg("place")
    return {key: places.to_numpy() for key, places in zip(groups.select(names).iter_rows(), groups["place"], strict=True)}


def _share(chain: Sequence[_Pool], elapsed: float, least: float, rng: np.random.Generator) -> float:
    """A share of the limit above `elapsed`, from the first pool of the chain. least: the smallest share of any run time."""
    # The weight above `elapsed` of each level as a share of all of it, from the last level on: any run time, by its logarithm.
    any_time = float(np.log(1.0 / least) / np.log(1.0 / min(least, 1e-4))) if least < 1.0 else 0.0
    masses = [any_time]
    for pool in reversed(chain):
        masses.append((pool.above(elapsed) + pool.base * masses[-1]) / (float(pool.tails[0]) + pool.base))
    masses.reverse()
    for pool, after in zip(chain, masses[1:], strict=True):
        own, base = pool.above(elapsed), pool.base * after
        point = rng.random() * (own + base)
        if point < own:
            return pool.pick(point)
    return float(np.exp(rng.random() * np.log(least)))
