"""How often a gate is wrong: exactly where runs fall into two groups, and by a sum over its looks and limits for any noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from benchmarks import gate
from mirage.statistics import limits
from mirage.statistics.limits import BROKEN, HOLDS, LOOKS, PASSES_FROM
from mirage.statistics.paired_bounds import is_in_most, mean_bounds

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=40).map(np.array)


@pytest.mark.parametrize(("share", "change"), gate.MODES)
def test_a_change_in_some_phases_that_is_beyond_the_limit_in_the_mean_seldom_passes(share: float, change: float) -> None:
    """All runs of the other phases are equal. At the limit it is not stopped too often either."""
    beyond, at_limit = gate.exact(share, change), gate.exact(share, 0.05 / share)
    assert all(sum(found.values()) == pytest.approx(1) for found in (beyond, at_limit))
    assert gate.share_of(beyond, HOLDS) <= gate.MOST and gate.share_of(at_limit, HOLDS) <= gate.MOST
    assert gate.share_of(at_limit, BROKEN) <= gate.MOST


@pytest.mark.parametrize("share", [0.5, 0.6, 0.75])
def test_a_change_that_is_at_its_limit_because_it_improves_most_phases_is_seldom_stopped(share: float) -> None:
    improved = gate.exact(share, -0.2, limits.Limit("wait_mean", -20 * share, True))
    assert gate.share_of(improved, BROKEN) <= gate.MOST and gate.share_of(improved, HOLDS) <= gate.MOST


def test_what_has_no_effect_passes() -> None:
    assert gate.exact(0.0, 0.0) == pytest.approx({(HOLDS, PASSES_FROM): 1.0, gate.END: 0.0})
    noisy = gate.simulated(gate.normal(0.0, 0.03), gates=20)
    assert gate.share_of(noisy, HOLDS) == 1 and noisy[HOLDS, PASSES_FROM] >= 0.9


def test_what_does_harm_is_stopped_early() -> None:
    assert set(gate.simulated(gate.normal(0.3, 0.03), gates=20)) == {(BROKEN, 10)}
    assert set(gate.simulated(gate.normal(0.3, 0.03, gate.FIVE), gate.FIVE, gates=20)) == {(BROKEN, 10)}


@pytest.mark.parametrize("number", [1, 2, 5, 35])
def test_the_errors_of_all_looks_and_limits_together_are_at_most_the_promised_ones(number: int) -> None:
    late = sum(pairs >= PASSES_FROM for pairs in LOOKS)
    assert 0.9**PASSES_FROM + late * limits._TAIL <= gate.MOST
    in_most = sum(
        max((binom.sf(k - 1, pairs, 0.5) for k in range(pairs + 2) if is_in_most(k, pairs, limits._MOST / number)), default=0)
        for pairs in LOOKS
        if pairs < PASSES_FROM
    )
    of_each = in_most + late * limits._TAIL / number + 0.75**PASSES_FROM
    assert number * of_each <= gate.MOST


@pytest.mark.parametrize("seen", [0, 1, 5])
def test_bounds_are_those_that_hold_for_two_groups(seen: int) -> None:
    """Where so many of 40 pairs have the value 1 and the others 0: one of the two values is one more."""
    values = np.repeat([1.0, 0.0], [seen, 40 - seen])
    low, high = mean_bounds(values, 0.025, 0.025)
    assert low <= beta.ppf(0.025, seen, 41 - seen) * 1.02 if seen else low == 0
    assert high >= (beta.ppf(0.975, seen + 1, 40 - seen) * 0.98 if seen else 0)


@given(VALUES, st.floats(0, 100), st.floats(-100, 100))
def test_bounds_follow_their_values(values: gate.Floats, by: float, more: float) -> None:
    low, high = mean_bounds(values, 0.01, 0.02)
    slack = 1e-6 * (1 + np.abs(values).max()) * (1 + by)
    assert low <= values.mean() + slack and high >= values.mean() - slack
    assert mean_bounds(by * values + more, 0.01, 0.02) == pytest.approx((by * low + more, by * high + more), abs=slack)
    assert mean_bounds(-values, 0.02, 0.01) == pytest.approx((-high, -low), abs=slack)
    wider = mean_bounds(values, 0.005, 0.01)
    assert wider[0] <= low and wider[1] >= high


@given(st.integers(1, 60), st.floats(1e-4, 0.3))
def test_most_pairs_are_told_by_the_sign_test(pairs: int, error: float) -> None:
    for number in range(pairs + 1):
        assert is_in_most(number, pairs, error) == (binom.sf(number - 1, pairs, 0.5) <= error * (1 + 1e-12))
