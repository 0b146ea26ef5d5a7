"""The course of a search and what its trials tell, with functions from settings to a figure in place of runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.tuning.conclusions import Response, Trial
from mirage.tuning.explore import ALL, FLAT, NO_BASE, TIME, Numbered, explore
from mirage.tuning.surrogate import Axis, Point
from mirage.tuning.told import startup

AXES = [Axis(3)] * 3
GRID = list(itertools.product(range(3), repeat=3))
BASE = (1, 1, 1)
Figure = Callable[[Point], float | None]


class Runs:
    """Plays trials: `figure` of all jobs, `early` of the first part of them."""

    def __init__(self, figure: Figure, early: Figure | None = None) -> None:
        self.figure, self.early = figure, early
        self.played: list[tuple[int, bool]] = []

    def __call__(self, numbered: Sequence[Numbered], is_early: bool) -> Mapping[int, Trial]:
        self.played += [(number, is_early) for number, _ in numbered]
        found = {}
        for number, point in numbered:
            early = self.early(point) if self.early else None
            found[number] = Trial(number, point, None if is_early else self.figure(point), early, is_early=is_early)
        return found


def question(*, lower: bool = True) -> Response:
    return Response(AXES, [], lower, True, BASE)


def searched(runs: Runs, most: int = 9, batch: int = 2, margin: float = 5.0, *, lower: bool = True) -> tuple[Response, str]:
    def has_time(response: Response, count: int) -> bool:
        return len(response.trials) + count <= most

    return explore(question(lower=lower), batch, 1, runs, has_time, margin, runs.early is not None)


def bowl(best: Point) -> Figure:
    return lambda point: 100.0 + 20.0 * sum((a - b) ** 2 for a, b in zip(point, best, strict=True))


@settings(max_examples=20, deadline=None)
@given(best=st.sampled_from(GRID), batch=st.integers(1, 4), higher=st.booleans())
def test_a_planted_best_setting_wins(best: Point, batch: int, higher: bool) -> None:
    sign = -1.0 if higher else 1.0
    response, _ = searched(Runs(lambda point: sign * (bowl(best)(point) or 0.0)), 14, batch, lower=not higher)
    found = response.best()
    assert found is not None and found.point == best


def test_a_flat_response_is_said_so_and_ends_the_search() -> None:
    runs = Runs(lambda point: 500.0)
    response, stopped = searched(runs, 27)
    assert stopped == FLAT and response.is_flat(5.0) and response.range_percent() == (0.0, 0.0)
    assert len(runs.played) < 12 and response.effects() == []
    best = response.best()
    assert best is not None and best.point == BASE, "of equal trials the base is the best"


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.floats(0.0, 4.9))
def test_what_stays_within_the_margin_is_flat(seed: int, most: float) -> None:
    random = np.random.default_rng(seed)
    noise = {point: 0.0 if point == BASE else float(random.uniform(-most, most)) for point in GRID}
    response, _ = searched(Runs(lambda point: 200.0 * (1 + noise[point] / 100)), 9)
    assert response.is_flat(5.0)
    largest = max(abs((one.figure or 0) / 200 - 1) for one in response.trials)
    assert not response.is_flat(99 * largest) or largest == 0


def test_a_response_that_one_setting_moves_is_not_flat() -> None:
    response, stopped = searched(Runs(lambda point: 100.0 + 50.0 * point[1]))
    assert stopped == TIME and not response.is_flat(5.0)
    shares = [one.share for one in response.effects()]
    assert shares[1] > 0.9 and sum(shares) == pytest.approx(1)
    found = response.best()
    equal = [one for one in response.trials if one.point[1] == 0]
    fewest = min(sum(a != b for a, b in zip(one.point, BASE, strict=True)) for one in equal)
    assert found in equal and sum(a != b for a, b in zip(found.point, BASE, strict=True)) == fewest if found else False


def test_few_trials_are_not_called_flat() -> None:
    response, _ = searched(Runs(lambda point: 500.0), startup(AXES) - 1, batch=1)
    assert not response.is_flat(5.0)


def test_a_base_of_zero_is_flat_only_if_all_are() -> None:
    assert searched(Runs(lambda point: 0.0))[0].is_flat(5.0)
    assert not searched(Runs(lambda point: float(point != BASE)))[0].is_flat(5.0)


def test_without_the_base_there_is_no_search() -> None:
    runs = Runs(lambda point: None if point == BASE else 1.0)
    assert searched(runs)[1] == NO_BASE and len(runs.played) == 2


def test_trials_without_a_figure_are_not_tried_again() -> None:
    response, stopped = searched(Runs(lambda point: None if point[0] == 0 else bowl((2, 2, 2))(point)), 99)
    assert stopped == ALL and len({one.point for one in response.trials}) == len(response.trials) == 27


def test_a_search_that_goes_on_tries_the_same() -> None:
    """The runs that are there are read, and the others played: as after a kill at any instant."""
    whole = Runs(bowl((0, 2, 1)))
    response, _ = searched(whole, 14)
    for kept in range(14):
        known = {one.number: one for one in response.trials[:kept]}
        again: list[int] = []

        def run(
            numbered: Sequence[Numbered], is_early: bool, known: dict[int, Trial] = known, again: list[int] = again
        ) -> dict[int, Trial]:
            again += [number for number, _ in numbered if number not in known]
            return {number: known.get(number) or Trial(number, point, bowl((0, 2, 1))(point)) for number, point in numbered}

        found, _ = explore(question(), 2, 1, run, lambda response, count: len(response.trials) + count <= 14, 5.0, False)
        assert [one.point for one in found.trials] == [one.point for one in response.trials]
        assert again == list(range(kept + 1, 15))


def test_the_first_part_decides_only_where_it_ranks_trials_as_all_jobs_do() -> None:
    best = bowl((0, 0, 2))
    right = Runs(best, lambda point: 10.0 + (best(point) or 0.0) / 3)
    response, _ = searched(right, 14)
    ended = [one for one in response.trials if one.is_early]
    assert ended and response.early_decides and response.misranked()[0] == 0
    worse = [one.early for one in ended if one.early is not None]
    assert min(worse) > min(one.early or 0.0 for one in response.whole)
    found = response.best()
    assert found is not None and found.point == (0, 0, 2)
    assert all(number > startup(AXES) for number, is_early in right.played if is_early), "the first ones tell whether it does"

    wrong = Runs(best, lambda point: -(best(point) or 0.0))
    response, _ = searched(wrong, 14)
    assert not any(is_early for _, is_early in wrong.played) and not response.early_decides
    assert response.rank_correlation() == pytest.approx(-1) and response.misranked()[0] == response.misranked()[1] > 0


def test_a_first_part_in_which_nothing_varies_decides_nothing() -> None:
    runs = Runs(bowl((0, 0, 2)), lambda point: 1.0)
    response, _ = searched(runs, 14)
    assert response.rank_correlation() is None and not any(is_early for _, is_early in runs.played)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), min_size=1, max_size=12), st.booleans(), st.booleans()
)
def test_the_front_is_what_no_other_trial_is_better_than(
    pairs: list[tuple[int, int, bool]], lower: bool, second_lower: bool
) -> None:
    trials = [
        Trial(number, BASE, float(figure), second=float(second), breaks=["x"] * beyond)
        for number, (figure, second, beyond) in enumerate(pairs, 1)
    ]
    response = Response(AXES, trials, lower, second_lower, BASE)
    signs = 1 if lower else -1, 1 if second_lower else -1
    costs = [(signs[0] * figure, signs[1] * second) for figure, second, beyond in pairs if not beyond]
    front = {(signs[0] * (one.figure or 0.0), signs[1] * (one.second or 0.0)) for one in response.front()}
    assert front == {one for one in costs if not any(other != one and other[0] <= one[0] and other[1] <= one[1] for other in costs)}
    assert not any(one.breaks for one in response.front())


def test_a_trial_beyond_a_limit_does_not_win() -> None:
    trials = [Trial(1, BASE, 10.0), Trial(2, (0, 1, 1), 1.0, breaks=["wait_max:+5%"]), Trial(3, (2, 1, 1), 9.0)]
    response = Response(AXES, trials, True, True, BASE)
    found = response.best()
    assert found is not None and found.number == 3
    assert [one.figure for one in response.told()] == [10.0, 10.0, 9.0], "it counts as the worst"
