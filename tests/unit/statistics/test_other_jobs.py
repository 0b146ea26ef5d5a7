"""Intervals for other jobs: cycles of a queue by hand, and how often intervals hold where the long run is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import coverage
from benchmarks.queues import queues
from mirage.statistics.intervals import student
from mirage.statistics.other_jobs import BLOCKS, blocks, cycles, first_third, too_few


def test_students_t() -> None:
    # Any table of Student's distribution.
    assert [round(student(free), 3) for free in (1, 2, 9, 1e9)] == [12.706, 4.303, 2.262, 1.960]


def by_waiting(submit: list[float], waits: list[float]) -> float:
    """Independent cycles of a queue by its waiting time, where a metric adds the same for each job."""
    arrivals = np.array(submit)
    return float(cycles(arrivals, arrivals + waits, np.array(waits)[:, None])[0])


def test_a_cycle_ends_where_all_jobs_have_started() -> None:
    # The third job comes when the second one has just started; the last two wait together.
    assert by_waiting([0, 10, 30, 100, 105], [20, 20, 40, 40, 0]) == pytest.approx(3.0)
    # (40 + 80)^2 / (40^2 + 80^2): a long cycle counts for more than one half of two.
    assert by_waiting([0, 10, 100], [20, 20, 80]) == pytest.approx(120**2 / (40**2 + 80**2))
    assert by_waiting([0, 1, 2, 3], [9, 9, 9, 9]) == pytest.approx(1.0)
    assert by_waiting([0, 100, 200], [0, 0, 0]) == 0
    assert cycles(np.empty(0), np.empty(0), np.empty((0, 2))).tolist() == [0, 0]


def test_a_metric_of_few_jobs_has_few_cycles() -> None:
    submit, waits = np.arange(50) * 100.0, np.full(50, 10.0)
    added = np.stack([waits, np.where(np.arange(50) < 2, 1.0, 0.0)], axis=1)
    assert cycles(submit, submit + waits, added) == pytest.approx([50, 2])


@given(st.integers(30, 5000))
def test_blocks_are_the_jobs_after_those_that_are_counted(jobs: int) -> None:
    parts = blocks(jobs)
    places = [first_third(jobs), *parts]
    assert [part.start or 0 for part in places[1:]] == [part.stop for part in places[:-1]] and places[-1].stop == jobs
    sizes = [part.stop - part.start for part in parts]
    assert len(sizes) == BLOCKS and max(sizes) - min(sizes) <= 1 and math.isclose(sum(sizes), jobs * 2 / 3, abs_tol=1)


def test_why_there_is_none() -> None:
    assert too_few(1.9) == "these jobs only: 1 independent cycle of the queue, 40 are needed for others"


def test_intervals_of_a_queue_hold_the_long_run() -> None:
    """100 campaigns of 5,000 jobs at a single server: 95 % of some 70 intervals hold, less 3.3 standard deviations (8.6 %)."""
    rows = [row for row in coverage.of_queue(queues()[0], 0.5, 100, 7) if row["metric"] == "wait_mean"]
    assert min(row["jobs"] for row in rows) >= 500, "a third of fewer jobs has too few cycles"
    known = {row["kind"]: row for row in rows if row["jobs"] == 5000}
    for kind in (coverage.VALUE, coverage.DIFFERENCE, coverage.PERCENT, coverage.EQUAL):
        assert known[kind]["printed"] >= 30 and known[kind]["hold"] >= 0.864 * known[kind]["printed"], kind
