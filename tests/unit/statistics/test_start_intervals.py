"""Tests of quantiles and intervals of a start from its starts in a few courses of the queue."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mirage.statistics.start_intervals import FIFTY, NINETY, coverage, quantiles

BOUNDS = (*FIFTY, *NINETY)
JOBS = 3000
DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "lognormal": lambda rng, size: rng.lognormal(7, 1, size),
    "exponential": lambda rng, size: rng.exponential(3000, size),
    "two kinds": lambda rng, size: np.where(rng.random(size) < 0.5, rng.exponential(300, size), rng.exponential(9000, size)),
    "uniform": lambda rng, size: rng.random(size) * 1000,
}


@pytest.mark.parametrize("courses", [6, 8, 16])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_intervals_hold_as_many_as_they_say(name: str, courses: int) -> None:
    rng = np.random.default_rng(1)
    draw = DISTRIBUTIONS[name]
    found = coverage(draw(rng, (JOBS,)), quantiles(draw(rng, (JOBS, courses)), BOUNDS))
    assert 0.46 < found.fifty < 0.54
    assert 0.84 < found.ninety < 0.96


@given(
    arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 9)), elements=st.floats(0, 1e7)),
    st.lists(st.floats(0.01, 0.99), min_size=2, max_size=4),
)
def test_quantiles_are_in_order_and_do_not_depend_on_the_order_of_courses(waits: np.ndarray, wanted: list[float]) -> None:
    found = quantiles(waits, sorted(wanted))
    assert (found >= 0).all()
    assert (np.diff(found, axis=1) >= -1e-6 * (1 + found[:, 1:])).all()
    np.testing.assert_array_equal(found, quantiles(waits[:, ::-1], sorted(wanted)))


@given(st.floats(0, 1e6), st.integers(1, 9))
def test_equal_courses_leave_no_doubt(wait: float, courses: int) -> None:
    np.testing.assert_allclose(quantiles(np.full((1, courses), wait), BOUNDS), wait, rtol=1e-9, atol=1e-6)


def test_the_median_is_that_of_the_courses() -> None:
    assert quantiles(np.array([[10.0, 4000.0, 70.0]]), [0.5])[0, 0] == pytest.approx(70)


def test_courses_without_a_start_are_late_ones() -> None:
    waits = np.array([[60.0, 120.0, np.nan], [np.nan] * 3])
    found = quantiles(waits, [0.5, 0.9])
    assert found[0, 0] == pytest.approx(120)
    assert np.isinf(found[0, 1])
    assert np.isnan(found[1]).all()


def test_coverage_counts_what_is_between_the_bounds() -> None:
    found = coverage(np.array([10.0, 30.0, 50.0, 95.0]), np.tile([20.0, 60.0, 5.0, 90.0], (4, 1)))
    assert (found.jobs, found.fifty, found.ninety) == (4, 0.5, 0.75)
