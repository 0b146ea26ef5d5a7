"""Tests of `Dispatch.beyond`: by how many seconds jobs start later than the scheduler's own delays explain."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.simulation.dispatch import Dispatch

OWN, CYCLE = 4.0, 30.0
HELD = 1700.0  # seconds for which a job that could pass another one is held back


def lateness(since_event: list[float]) -> list[float]:
    """Lateness, beyond the scheduler's own delays, of jobs that were held back and started so many seconds after the last event."""
    jobs = len(since_event)
    late = Dispatch(np.full(jobs, HELD), np.full(jobs, True), np.zeros(jobs), np.array(since_event))
    return [float(one) for one in late.beyond(OWN, CYCLE, resolution=0.0)]


def test_jobs_that_start_in_the_first_cycle_after_an_event_are_not_late() -> None:
    assert lateness([2.0, 20.0, 34.0]) == [0.0, 0.0, 0.0]


def test_one_job_that_is_started_a_cycle_later_does_not_make_others_late() -> None:
    """As by Slurm 25.11, whose next cycle may plan the same jobs otherwise."""
    assert lateness([2.0, 20.0, 40.0]) == [0.0, 0.0, pytest.approx(6.0)]


@pytest.mark.parametrize("since_event", [[90.0, 91.0], [2.0, 95.0, 99.0]])
def test_several_of_them_show_that_the_scheduler_is_late(since_event: list[float]) -> None:
    assert lateness(since_event) == [pytest.approx(HELD - OWN - CYCLE)] * len(since_event)
