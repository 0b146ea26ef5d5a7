"""Tests of run times that are drawn from those of the record."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.workloads.run_times import Course, Jobs

NOBODY = Jobs(np.empty(0, np.int64), np.empty(0), np.empty(0))
_jobs = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([600.0, 3600.0, float("nan"), 0.0, 86400.0]), st.floats(0, 1e5)), max_size=30
)


def jobs(rows: list[tuple[int, float, float]]) -> Jobs:
    """Jobs of (user, limit, elapsed)."""
    users, limits, elapsed = zip(*rows, strict=True) if rows else ((), (), ())
    return Jobs(np.array(users, np.int64), np.array(limits, np.float64), np.array(elapsed, np.float64))


def many(ended: Jobs, job: tuple[int, float, float], running: Jobs = NOBODY, count: int = 400) -> np.ndarray:
    """Run times of one job in so many draws; a job with an elapsed time is one that runs."""
    rng, one = np.random.default_rng(1), jobs([job])
    if job[2]:
        return np.array([Course(ended, one, rng).running[0] for _ in range(count)])
    return np.array([Course(ended, running, rng).draw(one)[0] for _ in range(count)])


@given(_jobs, _jobs, _jobs, st.integers(0, 5))
def test_a_run_time_is_longer_than_what_has_elapsed_and_within_the_limit(
    ended: list[tuple[int, float, float]],
    running: list[tuple[int, float, float]],
    waiting: list[tuple[int, float, float]],
    seed: int,
) -> None:
    run, wait = jobs(running), jobs([(user, limit, 0.0) for user, limit, _ in waiting])
    course = Course(jobs(ended), run, np.random.default_rng(seed))
    for asked, drawn in ((run, course.running), (wait, course.draw(wait))):
        assert (drawn >= asked.elapsed + 1.0).all()
        within = (asked.limit > 0) & (asked.elapsed + 1.0 < asked.limit)
        assert (drawn[within] <= asked.limit[within] * (1 + 1e-9)).all()
    np.testing.assert_array_equal(course.running, Course(jobs(ended), run, np.random.default_rng(seed)).running)


def test_without_a_record_run_times_spread_over_the_limit() -> None:
    drawn = many(NOBODY, (1, 10_000.0, 0.0))
    assert 20 < np.median(drawn) < 500
    assert drawn.max() > 5000


def test_a_user_with_a_record_does_as_before_and_another_one_does_as_all() -> None:
    history = jobs([(1, 3600.0, 100.0)] * 40 + [(2, 3600.0, 3000.0)] * 40)
    assert np.mean(many(history, (1, 3600.0, 0.0)) == 100) > 0.85
    assert np.mean(many(history, (2, 3600.0, 0.0)) == 3000) > 0.85
    assert 0.25 < np.mean(many(history, (3, 3600.0, 0.0)) == 100) < 0.65


def test_what_has_elapsed_counts_exactly() -> None:
    """Of a user with run times of 100 and 3,000 s, a job that has run for 200 s is one of 3,000 s."""
    history = jobs([(1, 3600.0, 100.0)] * 60 + [(1, 3600.0, 3000.0)] * 20)
    drawn = many(history, (1, 3600.0, 200.0))
    assert np.mean(drawn == 3000) > 0.9


def test_the_longest_job_without_a_limit_does_not_end_at_once() -> None:
    history = jobs([(1, float("nan"), 100.0)] * 20)
    drawn = many(history, (1, float("nan"), 10_000.0))
    assert drawn.max() > 15_000 and np.median(drawn) > 11_000
    assert drawn.max() <= 20_000


def test_later_jobs_of_a_user_count_more() -> None:
    history = jobs([(1, 3600.0, 3000.0)] * 200 + [(1, 3600.0, 100.0)] * 40)
    assert np.mean(many(history, (1, 3600.0, 0.0)) == 100) > 0.6


def test_jobs_that_still_run_make_run_times_longer() -> None:
    """40 jobs ended after 100 s, and 40 more have run for 2,000 s: half of the run times are longer than that."""
    ended = jobs([(1, 3600.0, 100.0)] * 40)
    longer = np.mean(many(ended, (1, 3600.0, 0.0), jobs([(1, 3600.0, 2000.0)] * 40)) > 2000)
    assert 0.35 < longer < 0.85
    assert np.mean(many(ended, (1, 3600.0, 0.0)) > 2000) < 0.1


def test_what_is_not_known_of_a_user_is_the_same_for_all_jobs_of_one_draw() -> None:
    """Two ended jobs say little: jobs of one draw are more alike than those of several."""
    ended, wanted = jobs([(1, 3600.0, 100.0), (1, 3600.0, 3000.0)]), jobs([(1, 3600.0, 0.0)] * 50)
    rng = np.random.default_rng(3)
    shares = [np.mean(Course(ended, NOBODY, rng).draw(wanted) == 100) for _ in range(100)]
    independent = np.sqrt(np.mean(shares) * (1 - np.mean(shares)) / 50)
    assert np.std(shares) > 2 * independent


@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_another_limit_scales_the_run_time(scale: float) -> None:
    history = jobs([(1, 3600.0, 1800.0)] * 60)
    drawn = many(history, (1, 3600.0 * scale, 0.0))
    assert np.mean(np.isclose(drawn, 1800 * scale)) > 0.85
