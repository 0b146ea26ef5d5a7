"""Starts of jobs in a given order, and by how much given starts were postponed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.simulation import in_order

JOBS = st.lists(st.tuples(st.floats(0, 1e4), st.integers(1, 8), st.floats(1, 1e4), st.floats(0, 100)), min_size=1, max_size=30)


def columns(jobs: list[tuple[float, int, float, float]]) -> tuple[in_order.Times, in_order.Numbers, in_order.Times, in_order.Times]:
    submit, processors, held, postponed = zip(*jobs, strict=True)
    return np.sort(np.array(submit)), np.array(processors, dtype=np.int64), np.array(held), np.array(postponed)


@given(JOBS)
def test_postponements_are_those_that_gave_the_starts(jobs: list[tuple[float, int, float, float]]) -> None:
    submit, processors, held, postponed = columns(jobs)
    starts = in_order.starts(submit, processors, held, postponed, 8)
    assert (starts >= submit).all()
    assert in_order.postponements(submit, processors, held, starts, 8) == pytest.approx(postponed, abs=1e-6)


@given(JOBS)
def test_the_compiled_function_gives_the_same_to_the_last_bit(jobs: list[tuple[float, int, float, float]]) -> None:
    arguments = columns(jobs)
    expected = in_order.starts(*arguments, 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_order, "MANY", 0)
        assert (in_order.starts(*arguments, 8) == expected).all()
