"""Which points a search tries next: the sampler of its Optuna study.

The first trials are spread over the grid, so that each value of each setting comes about as often; the later ones are those from
which most is expected (`Surrogate`). A search has tens of trials of a minute each, on a grid. There Optuna's own TPE is hardly
better than chance (tests/unit/tuning/test_sampler.py compares both), and its Gaussian process needs torch.

Nothing is kept between two calls: the same trials, settings and seed give the same points.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from mirage.tuning.surrogate import Axis, Point, Surrogate
from mirage.tuning.told import Told, startup

MOST_LOOKED_AT = 20_000
"""Points of the grid that are looked at; of a larger grid a random part."""
_ESTIMATE = "estimate"


def next_points(axes: Sequence[Axis], told: Sequence[Told], count: int, seed: int, first: Point) -> list[Point]:
    """Up to `count` points that were not tried; fewer where the grid has no others. first: the one that is tried first"""
    left = math.prod(axis.count for axis in axes) - len({one.point for one in told})
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=_Sampler(axes, seed, first))
    distributions: dict[str, BaseDistribution] = {str(k): IntDistribution(0, axis.count - 1) for k, axis in enumerate(axes)}
    for one in told:
        study.add_trial(_as_trial(one, distributions))
    asked = [study.ask(distributions) for _ in range(min(count, left))]
    return [_point(one.params) for one in asked]


def _as_trial(one: Told, distributions: Mapping[str, BaseDistribution]) -> FrozenTrial:
    whole = one.is_whole and one.figure is not None
    state = TrialState.FAIL if one.figure is None else TrialState.COMPLETE if whole else TrialState.PRUNED
    return create_trial(
        state=state,
        value=one.figure if whole else None,
        params={str(k): place for k, place in enumerate(one.point)},
        distributions=dict(distributions),
        user_attrs={} if whole or one.figure is None else {_ESTIMATE: one.figure},
    )


def _point(params: Mapping[str, Any]) -> Point:
    return tuple(int(params[str(k)]) for k in range(len(params)))


class _Sampler(BaseSampler):
    """Points of the grid that no trial of the study has."""

    def __init__(self, axes: Sequence[Axis], seed: int, first: Point) -> None:
        self._axes, self._seed, self._first = axes, seed, first

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {str(k): IntDistribution(0, axis.count - 1) for k, axis in enumerate(self._axes)}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        others = [one for one in study.get_trials(deepcopy=False) if one.number != trial.number]
        return {str(k): place for k, place in enumerate(self._next(others))}

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> Any:
        raise AssertionError(param_name)  # all settings are in the relative search space

    def _next(self, others: Sequence[FrozenTrial]) -> Point:
        # The trial that is asked for has no parameters yet, those that were asked for before it have.
        tried = [_point(one.params) for one in others]
        if not tried:
            return self._first
        random = np.random.default_rng([self._seed, len(tried)])
        left = self._left(set(tried), random)
        known = {_point(one.params): figure for one in others if (figure := _figure(one)) is not None}
        if len(tried) < startup(self._axes) or len(set(known.values())) < 2:
            return self._spread(tried, left, random)
        # Trials that are not finished have the figure that is expected of them.
        open_ones = [point for point in tried if point not in known]
        model = Surrogate(self._axes, list(known), list(known.values()))
        if open_ones:
            expected, _ = model.expected(open_ones)
            known |= dict(zip(open_ones, map(float, expected), strict=True))
            model = Surrogate(self._axes, list(known), list(known.values()))
        gains = model.improvement(left, min(known.values()))
        return left[int(np.argmax(gains))]

    def _left(self, tried: set[Point], random: np.random.Generator) -> list[Point]:
        """Points that were not tried, in a random order."""
        size = math.prod(axis.count for axis in self._axes)
        if size <= MOST_LOOKED_AT:
            every = [point for point in itertools.product(*(range(axis.count) for axis in self._axes)) if point not in tried]
            return [every[k] for k in random.permutation(len(every))]
        drawn = np.column_stack([random.integers(0, axis.count, MOST_LOOKED_AT) for axis in self._axes])
        return [point for row in dict.fromkeys(map(tuple, drawn.tolist())) if (point := _as_point(row)) not in tried]

    def _spread(self, tried: Sequence[Point], left: Sequence[Point], random: np.random.Generator) -> Point:
        """The point whose values came least often so far, and among those the one that differs from each trial in most settings."""
        grid, before = np.array(left), np.array(tried)
        often = np.zeros(len(left))
        for place, axis in enumerate(self._axes):
            counts = np.bincount(before[:, place], minlength=axis.count)
            often += counts[grid[:, place]] ** 2
        nearest = np.min([(grid != one).sum(1) for one in before], axis=0)
        return left[int(np.argmax(0.5 * nearest - often + 1e-3 * random.random(len(left))))]


def _as_point(row: Sequence[int]) -> Point:
    return tuple(int(place) for place in row)


def _figure(one: FrozenTrial) -> float | None:
    if one.state == TrialState.COMPLETE:
        return one.value
    estimate: float | None = one.user_attrs.get(_ESTIMATE)
    return estimate
