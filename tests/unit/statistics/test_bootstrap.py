"""Blocks, weights and intervals: what a simulation with a known truth says of them."""

from __future__ import annotations

import math

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


@pytest.mark.parametrize("replicas", [2, 3, 10])
def test_drawn_replicas_vary_as_their_mean_does(replicas: int) -> None:
    values = np.random.default_rng(replicas).normal(size=replicas)
    drawn = bootstrap.replica_weights(replicas, 20_000, 1, "a") @ values
    assert drawn.var() == pytest.approx(values.var(ddof=1) / replicas, rel=0.05)
    assert bootstrap.replica_weights(1, 5, 1, "a").tolist() == [[0.0]] * 5


def test_widening() -> None:
    both = [np.array([1.0, 3.0]), np.array([5.0, 7.0])]
    assert bootstrap.widen_replicas(both) == pytest.approx(4.303 / 1.960, rel=1e-3), (
        "Welch: equal variances, two degrees of freedom"
    )
    assert bootstrap.widen_replicas([both[0], np.array([5.0, 5.0])]) == pytest.approx(12.706 / 1.960, rel=1e-3)
    assert bootstrap.widen_replicas([np.ones(2), np.ones(2)]) == 1
    assert Blocks(100, 10, 1, 1).widening() == pytest.approx(2.262 / 1.960 * math.sqrt(10 / 9), rel=1e-3)
    assert Blocks(100, 10, 1, 1).widening(2) == pytest.approx(12.706 / 1.960 * math.sqrt(2), rel=1e-3)
    assert math.isnan(Blocks(1, 1, 1, 1).widening())


def test_expanded_draws_keep_their_sides_and_their_order() -> None:
    draws = np.random.default_rng(1).exponential(1, 2001)
    wider = bootstrap.expanded(draws, 1.5)
    assert (
        (wider > 0).all() and (np.argsort(wider) == np.argsort(draws)).all() and np.median(wider) == pytest.approx(np.median(draws))
    )
    # The interval's ends are at the normal quantiles 1.5 x 1.96, which are the shares 0.00164 and 0.99836.
    assert bootstrap.interval(wider) == pytest.approx(np.quantile(draws, [0.00164, 0.99836]), rel=0.02)
    assert bootstrap.interval(bootstrap.expanded(draws, 1)) == pytest.approx(bootstrap.interval(draws), rel=0.01)
    tied = np.repeat([1.0, 2.0, 4.0], 5)
    assert bootstrap.expanded(tied, 2) == pytest.approx(-bootstrap.expanded(-tied, 2)), "whatever the order of equal ones"
    draws[5] = np.nan
    assert np.isnan(bootstrap.expanded(draws, 1.5)).nonzero()[0].tolist() == [5]
    assert np.isnan(bootstrap.expanded(np.full(3, np.nan), 1.5)).all()


def test_an_interval_is_the_middle_of_what_is_known() -> None:
    draws = np.arange(1001.0)
    assert bootstrap.interval(draws) == pytest.approx((25, 975))
    draws[:40] = np.nan
    assert bootstrap.interval(draws) is not None
    draws[:60] = np.nan
    assert bootstrap.interval(draws) is None
