"""The quick simulation of the queue of a run."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.replay.expected_queue import Cycles, Queue, expected_queue

JOBS = st.lists(
    st.tuples(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 2), st.integers(1, 8)),
    min_size=1,
    max_size=30,
)


def test_a_cycle_tests_each_waiting_job_beside_fewer_and_fewer_running_ones() -> None:
    assert Cycles(100).tests(3, 0) == pytest.approx(3)
    assert Cycles(100).tests(3, 7) == pytest.approx(3 * (1 + math.log2(8)))
    assert Cycles(100).tests(1000, 7) == Cycles(100).tests(100, 7)
    assert Cycles(100).tests(0, 7) == 0
    assert Cycles(100, doubled=3).tests(3, 7) == pytest.approx(2 * Cycles(100).tests(3, 7))


def test_cycles_without_a_change_before_are_left_out() -> None:
    """One job waits from 1 s to 100 s, while one runs."""
    jobs = ([0.0, 1.0], [100.0, 50.0], [100.0, 50.0], [3, 4])
    assert expected_queue(*jobs, 4, Cycles(until=60)).tested == pytest.approx(Cycles().tests(1, 1) * 60)
    assert expected_queue(*jobs, 4, Cycles()).tested == pytest.approx(Cycles().tests(1, 1) * 99)


def test_a_queue_in_order_and_with_backfilling() -> None:
    jobs = ([0.0, 1.0, 2.0], [100.0, 50.0, 10.0], [100.0, 50.0, 10.0], [3, 4, 1])
    # The second job waits from 1 s to 100 s, and the third starts when it is due.
    backfilled = expected_queue(*jobs, 4, Cycles(100))
    assert backfilled == Queue(150.0, pytest.approx(Cycles(9).tests(1, 1) * 89 + Cycles(9).tests(1, 2) * 10))
    # In order the third waits until 150 s.
    in_order = expected_queue(*jobs, 4, Cycles(100), backfills=False)
    assert in_order == Queue(160.0, pytest.approx(Cycles(9).tests(1, 1) * (1 + 50) + Cycles(9).tests(2, 1) * 98))


@pytest.mark.parametrize(("limit", "width", "end"), [(99.0, 1, 150.0), (100.0, 1, 160.0)])
def test_a_backfilled_job_does_not_delay_the_first_one(limit: float, width: int, end: float) -> None:
    """The first waiting job has all processors from 100 s on."""
    assert expected_queue([0.0, 1.0, 1.0], [100.0, 50.0, 10.0], [100.0, 50.0, limit], [3, 4, width], 4, Cycles(9)).end == end


def test_a_job_may_have_what_the_first_one_leaves() -> None:
    """The first waiting job takes three of four processors from 100 s on."""
    assert expected_queue([0.0, 1.0, 1.0], [100.0, 50.0, 140.0], [100.0, 50.0, 500.0], [3, 3, 1], 4, Cycles(9)).end == 150.0


@given(JOBS, st.booleans())
def test_a_run_ends_between_its_two_bounds(jobs: list[tuple[float, float, float, int]], backfills: bool) -> None:
    """Not before the work could be done, nor later than with one job at a time. Limits may be below the run times."""
    dues, runs, parts, widths = map(list, zip(*jobs, strict=True))
    limits = [run * part for run, part in zip(runs, parts, strict=True)]
    queue = expected_queue(dues, runs, limits, widths, 8, Cycles(10), backfills=backfills)
    work = sum(run * width for run, width in zip(runs, widths, strict=True)) / 8
    last = max(due + run for due, run in zip(dues, runs, strict=True))
    assert max(min(dues) + work, last) - 1e-6 <= queue.end <= max(dues) + sum(runs) + 1e-6
    assert queue.tested <= (queue.end - min(dues)) * Cycles(10).tests(10, len(jobs)) + 1e-6


def test_without_jobs_there_is_nothing() -> None:
    assert expected_queue([], [], [], [], 8, Cycles(10)) == Queue(0.0)
