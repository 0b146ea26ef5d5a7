"""Fractions of seconds for submissions and run times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.experiment import fractions

DUES = st.lists(st.integers(0, 10**7), max_size=50).map(sorted)


@given(DUES, st.integers(0, 5), st.integers(0, 2**40), st.integers(1, 100))
def test_submissions_keep_their_order_and_their_second(dues: list[int], presets: int, seed: int, replica: int) -> None:
    drawn = fractions.submissions([float(due) for due in dues], presets, seed, replica)
    assert drawn == sorted(drawn) and len(drawn) == len(dues)
    assert drawn[:presets] == dues[:presets]
    assert all(due <= instant <= due + 1 for due, instant in zip(dues, drawn, strict=True))
    assert drawn == fractions.submissions([float(due) for due in dues], presets, seed, replica)


@given(st.lists(st.floats(0, 1e7), max_size=50), st.integers(0, 2**40), st.integers(1, 100))
def test_run_times_change_by_half_a_second_at_most(seconds: list[float], seed: int, replica: int) -> None:
    drawn = fractions.run_times(seconds, seed, replica)
    assert all(time >= fractions.SHORTEST for time in drawn)
    assert all(abs(time - was) <= 0.5011 for time, was in zip(drawn, seconds, strict=True))
    assert fractions.run_times(seconds[:7], seed, replica) == drawn[:7], "jobs that are left out at the end change nothing"


@pytest.mark.parametrize(("seed", "replica"), [(1, 1), (2, 1), (1, 2)])
def test_fractions_are_uniform_and_differ_between_seeds_and_replicas(seed: int, replica: int) -> None:
    drawn = np.array(fractions.run_times([100.0] * 10_000, seed, replica)) - 99.5
    assert abs(drawn.mean() - 0.5) < 0.01 and np.all(np.abs(np.quantile(drawn, [0.1, 0.5, 0.9]) - [0.1, 0.5, 0.9]) < 0.02)
    others = [fractions.run_times([100.0] * 10_000, *other) for other in ((1, 1), (2, 1), (1, 2)) if other != (seed, replica)]
    assert all(abs(np.corrcoef(drawn, other)[0, 1]) < 0.05 for other in others)
    later = np.array(fractions.submissions([2.0 * job for job in range(10_000)], 0, seed, replica)) % 2
    assert abs(np.corrcoef(drawn, later)[0, 1]) < 0.05


def test_tasks_of_an_array_that_follow_each_other_keep_one_instant() -> None:
    dues, arrays = [0.0, 7.0, 7.0, 7.0, 7.0, 7.0, 9.0], [None, 2, 2, 2, None, 6, 6]
    for seed in range(20):
        found = fractions.submissions(dues, 0, seed, 1, arrays)
        assert found == sorted(found) and [int(due) for due in found] == [0, 7, 7, 7, 7, 7, 9]
        assert len(set(found[1:4])) == 1 and len(set(found)) == 5
    assert fractions.submissions(dues, 2, 1, 1, arrays)[:2] == [0.0, 7.0]
    assert fractions.submissions(dues, 0, 1, 1, [None] * 7) == fractions.submissions(dues, 0, 1, 1)
