"""What is tried next, on responses that are functions of the settings: no run, no Slurm."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings
from collections.abc import Mapping

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.tuning.sampler import next_points
from mirage.tuning.surrogate import Axis, Point, Surrogate
from mirage.tuning.told import Told, startup

GRID = list(itertools.product(range(3), repeat=3))
AXES = [Axis(3)] * 3
BASE = (1, 1, 1)


def response(seed: int) -> dict[Point, float]:
    """A figure for each of the 27 points: a monotonous or a curved effect of each setting, of very different sizes, two settings
    that act together, and noise."""
    random = np.random.default_rng(seed)
    sizes = random.dirichlet([0.7] * 3)
    shapes = [np.array([(0, 1, 1.2), (1, 0.3, 0), (1, 0, 0.8)][random.integers(3)]) + random.normal(0, 0.05, 3) for _ in range(3)]
    together = random.normal(0, 0.07, (3, 3))
    return {
        point: float(sum(size * shape[k] for size, shape, k in zip(sizes, shapes, point, strict=True)))
        + float(together[point[0], point[1]])
        + random.normal(0, 0.02)
        for point in GRID
    }


def tried(figures: Mapping[Point, float], count: int, batch: int = 1, seed: int = 1, base: Point = BASE) -> list[Point]:
    told: list[Told] = []
    while len(told) < count and (points := next_points(AXES, told, min(batch, count - len(told)), seed, base)):
        told += [Told(point, figures[point]) for point in points]
    return [one.point for one in told]


def regret(figures: Mapping[Point, float], points: list[Point]) -> float:
    """By how much the best of the points is worse than the best of all, as a share of the range."""
    low, high = min(figures.values()), max(figures.values())
    return (min(figures[point] for point in points) - low) / (high - low)


def by_tpe(figures: Mapping[Point, float], count: int, seed: int) -> list[Point]:
    """The points of Optuna's own sampler, not counting those that it tries again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=5, multivariate=True))
        study.enqueue_trial({str(k): place for k, place in enumerate(BASE)})
        found: list[Point] = []
        while len(found) < count:
            trial = study.ask({str(k): optuna.distributions.IntDistribution(0, 2) for k in range(3)})
            point = tuple(trial.params[str(k)] for k in range(3))
            study.tell(trial, figures[point])
            found += [] if point in found else [point]
    return found


@pytest.mark.parametrize("batch", [1, 2])
def test_a_third_of_the_grid_finds_nearly_the_best(batch: int) -> None:
    regrets = [regret(figures, tried(figures, 9, batch)) for figures in map(response, range(30))]
    assert np.mean(np.array(regrets) < 0.05) >= 0.85 and np.mean(regrets) < 0.03


def test_it_needs_fewer_trials_than_optunas_own_sampler() -> None:
    """So there is a reason for a sampler here."""
    functions = [response(seed) for seed in range(15)]
    own = np.mean([regret(figures, tried(figures, 9)) for figures in functions])
    others = np.mean([regret(figures, by_tpe(figures, 9, seed)) for seed, figures in enumerate(functions)])
    assert own < others / 2


@settings(max_examples=15, deadline=None)
@given(best=st.sampled_from(GRID), base=st.sampled_from(GRID), seed=st.integers(0, 99))
def test_a_planted_best_setting_is_found(best: Point, base: Point, seed: int) -> None:
    """Each setting gets worse with the distance from its best value."""
    figures = {point: sum((a - b) ** 2 * (k + 1) for k, (a, b) in enumerate(zip(point, best, strict=True))) for point in GRID}
    assert best in tried({point: float(value) for point, value in figures.items()}, 13, seed=seed, base=base)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=3), st.integers(1, 4), st.integers(0, 9), st.data())
def test_each_point_is_tried_once_and_the_base_first(counts: list[int], batch: int, seed: int, data: st.DataObject) -> None:
    axes = [Axis(count, is_ordered=bool(k % 2)) for k, count in enumerate(counts)]
    base = tuple(data.draw(st.integers(0, count - 1)) for count in counts)
    told: list[Told] = []
    while points := next_points(axes, told, batch, seed, base):
        assert len(points) <= batch
        told += [Told(point, data.draw(st.sampled_from([None, 0.0, 1.0, 2.5])), data.draw(st.booleans())) for point in points]
    assert told[0].point == base
    assert sorted(one.point for one in told) == list(itertools.product(*map(range, counts)))


def test_the_same_trials_give_the_same_points() -> None:
    figures = response(3)
    points = tried(figures, 12, 2)
    told = [Told(point, figures[point]) for point in points[:8]]
    assert next_points(AXES, told, 2, 1, BASE) == points[8:10], "as after an interruption"
    assert tried(figures, 12, 2, seed=2) != points


def test_the_first_trials_have_each_value_of_each_setting() -> None:
    points = tried(response(1), startup(AXES))
    for place in range(3):
        assert {point[place] for point in points} == {0, 1, 2}


def test_a_large_grid_is_looked_at_in_part() -> None:
    axes = [Axis(9)] * 8
    told: list[Told] = []
    for _ in range(12):
        (point,) = next_points(axes, told, 1, 1, (4,) * 8)
        told.append(Told(point, float(sum(point))))
    assert min(one.figure or 0 for one in told) < 4 * 8


def test_a_process_through_its_points_knows_them() -> None:
    figures = response(5)
    known = GRID[::2]
    model = Surrogate(AXES, known, [figures[point] for point in known])
    mean, deviation = model.expected(known)
    assert np.allclose(mean, [figures[point] for point in known], atol=0.15)
    others = model.expected(GRID[1::2])[1]
    assert others.mean() > deviation.mean()


def test_what_reads_a_search_needs_no_optuna() -> None:
    """The wheel checks and shows searches without it."""
    code = "import mirage.commands.check, mirage.reports.search_page, sys; sys.exit('optuna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_effects_are_those_of_the_function() -> None:
    figures = {point: 10.0 * point[0] + 1.0 * point[2] for point in GRID}
    moved = Surrogate(AXES, GRID, list(figures.values())).effects()
    first, second, third = (float(np.ptp(one)) for one in moved)
    assert first > 5 * third > 5 * second and list(moved[0]) == sorted(moved[0])
