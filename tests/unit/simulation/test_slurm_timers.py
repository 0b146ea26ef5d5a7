"""Tests of the simulation with Slurm's instants of decision: a worked example, the simulation without them, and delays.

Worked example on 4 processors, times in seconds, limits equal to the run times. The backfill scheduler runs at 3, 8, 13, ...

    job        1    2   3   4   5
    submit     0    1   2   4  20
    processors 3    4   1   1   1
    runtime   60   10  51  56   5

Job 1 starts at once. Job 2 needs all processors and has a reservation at 60. Job 3 would be over at 54 if it started at 3: the
backfill scheduler starts it then. Job 3 ends at 54; the next run of the backfill scheduler is at 58. Job 4 would end at 114 then
and job 5 at 63, after 60, so neither starts. Job 2 starts at 60, at the end of job 1, without waiting for the backfill scheduler.
Jobs 4 and 5 start together at 70.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mirage.simulation.simulation import schedule
from mirage.simulation.slurm_timers import schedule_in_slurm
from slurm_mirage.base.errors import WrongUse

Numbers = NDArray[np.int64]
Job = tuple[int, int, int, int]  # seconds since the submission before, processors, run time, unused limit

EXAMPLE = np.array([(0, 3, 60), (1, 4, 10), (2, 1, 51), (4, 1, 56), (20, 1, 5)])
JOBS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8), st.integers(1, 90), st.integers(0, 90)), min_size=1, max_size=30)


def columns(jobs: list[Job]) -> tuple[Numbers, ...]:
    since, width, run, unused = np.array(jobs).T
    return np.cumsum(since), width, run, run + unused


@pytest.mark.parametrize(("policy", "starts"), [("fcfs", [0, 60, 70, 70, 70]), ("easy", [0, 60, 3, 70, 70])])
def test_worked_example(policy: str, starts: list[int]) -> None:
    submit, width, run = EXAMPLE.T
    assert schedule_in_slurm(submit, width, run, run, 4, policy, interval=5, phase=3).tolist() == starts


def test_a_job_that_may_pass_starts_when_the_backfill_scheduler_runs() -> None:
    submit, width, run = EXAMPLE.T
    starts = [schedule_in_slurm(submit, width, run, run, 4, "easy", interval=5, phase=phase)[2] for phase in (0.5, 2.5, 4.5)]
    assert starts == [5.5, 2.5, 4.5]


@given(JOBS)
@settings(max_examples=200, deadline=None)
def test_first_in_first_out_has_no_timer(jobs: list[Job]) -> None:
    submit, width, run, limit = columns(jobs)
    start = schedule_in_slurm(submit, width, run, limit, 8, "fcfs")
    assert start.tolist() == schedule(submit, width, run, limit, 8, "fcfs").tolist()


@given(JOBS)
@settings(max_examples=200, deadline=None)
def test_with_backfilling_at_each_second_it_is_the_simulation_of_easy(jobs: list[Job]) -> None:
    """All times are whole seconds, so the backfill scheduler runs whenever something happens."""
    submit, width, run, limit = columns(jobs)
    start = schedule_in_slurm(submit, width, run, limit, 8, "easy", interval=1, phase=0)
    assert start.tolist() == schedule(submit, width, run, limit, 8, "easy").tolist()


@given(JOBS, st.floats(0, 30))
@settings(max_examples=100, deadline=None)
def test_only_the_backfill_scheduler_lets_a_job_pass(jobs: list[Job], phase: float) -> None:
    submit, width, run, limit = columns(jobs)
    start = schedule_in_slurm(submit, width, run, limit, 8, "easy", interval=30, phase=phase)
    assert (start >= submit).all()
    for job in np.flatnonzero(start < np.maximum.accumulate(start)):
        assert (start[job] - phase) % 30 == pytest.approx(0, abs=1e-6) or (start[job] - phase) % 30 == pytest.approx(30, abs=1e-6)


@pytest.mark.parametrize(
    ("jobs", "policy", "interval"),
    [
        ([(0, 1, 5, 0)], "conservative", 5.0),
        ([(0, 1, 5, 0)], "easy", 0.0),
        ([(0, 9, 5, 0)], "easy", 5.0),
        ([(0, 1, 5, -1)], "easy", 5.0),
    ],
)
def test_wrong_use(jobs: list[Job], policy: str, interval: float) -> None:
    submit, width, run, limit = columns(jobs)
    with pytest.raises(WrongUse):
        schedule_in_slurm(submit, width, run, limit, 8, policy, interval=interval)
