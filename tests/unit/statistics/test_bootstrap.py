"""Blocks, weights and intervals: what a simulation with a known truth says of them."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import correlated
from hypothesis import given
from hypothesis import strategies as st

from mirage.statistics import bootstrap
from mirage.statistics.bootstrap import Blocks, Ordered


def test_students_t() -> None:
    # Any table of Student's distribution.
    assert [round(bootstrap.student(free), 3) for free in (1, 2, 9, 1e9)] == [12.706, 4.303, 2.262, 1.960]


@given(st.integers(1, 40), st.data())
def test_blocks_are_circular_and_each_resample_has_as_many_jobs(jobs: int, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, jobs))
    blocks = Blocks(jobs, length, 7, data.draw(st.integers(0, 9)))
    counts = np.concatenate([part for _, part in blocks.counts()])
    assert counts.shape == (7, jobs) and (counts >= 0).all() and (counts.sum(axis=1) == jobs).all()
    if jobs % length == 0:
        # A job comes with its neighbours: as often as blocks begin or end beside it the count changes, and no more.
        steps = np.abs(counts - np.roll(counts, 1, axis=1)).sum(axis=1)
        assert (steps <= 2 * jobs / length).all()


def test_all_jobs_are_drawn_equally_often_and_parts_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Blocks(23, 4, 4000, 1)
    at_once = np.concatenate([part for _, part in blocks.counts()])
    assert np.abs(at_once.mean(axis=0) - 1).max() < 0.1
    monkeypatch.setattr(bootstrap, "_AT_ONCE", 23)
    rows = [rows for rows, _ in Blocks(23, 4, 3, 1).counts()]
    assert rows == [slice(0, 1), slice(1, 2), slice(2, 3)]


def test_length_follows_the_correlation() -> None:
    random = np.random.default_rng(1)
    lengths = [bootstrap.automatic_length(correlated(random, 2000, rho)) for rho in (0, 0.6, 0.95)]
    # For an autoregressive series the best length is (3 n (rho / (1 - rho^2))^2)^(1/3): 12.8 and 105 here (g and G in closed form).
    assert lengths[0] < 5 and 6 < lengths[1] < 26 and 50 < lengths[2] < 135
    assert bootstrap.automatic_length(np.full(50, 3.25)) == 1
    assert bootstrap.block_length([np.full(1000, 1.0)]) == 30
    assert bootstrap.block_length([correlated(random, 100, 0.99)]) == 20
    assert [bootstrap.block_length([np.zeros(jobs)]) for jobs in (1, 2, 9, 10)] == [1, 1, 1, 2]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_quantiles_are_those_of_the_drawn_jobs(values: list[float], shares: list[float]) -> None:
    numbers = np.array(values)
    for _, counts in Blocks(len(values), max(1, len(values) // 3), 5, 0).counts():
        found = Ordered.of(numbers).quantiles(counts, shares)
        for row, times in zip(found, counts, strict=True):
            np.testing.assert_allclose(row, np.quantile(np.repeat(numbers, times), shares), rtol=1e-9, atol=1e-9)
