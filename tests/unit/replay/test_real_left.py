"""The real time that is left of a replay on the event clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.clock.clock import Clock
from slurm_mirage.jobs.plan import PlanRow
from slurm_mirage.replay.expected_queue import Cycles, expected_queue
from slurm_mirage.replay.real_left import FIRST_RANGE, LAST_RANGE, Costs, RealLeft, real_left
from slurm_mirage.replay.time_left import ActiveJob, TimeLeftEstimator

# 200 jobs of KTH's log on 100 nodes of a busy host, which took 114 s: samples at equal intervals, each with the cluster's time,
# jobs in the queue, and jobs that have ended. A burst of jobs comes first, and at the end few jobs are left of a long time.
LENGTH, SAMPLES, JOBS = 114.0, 22, 200
BEGAN, ENDED = 1795612570, 1795670123
RECORDED = {
    3: (1795622544, 16, 28),
    5: (1795624919, 25, 48),
    8: (1795628806, 43, 78),
    11: (1795631739, 37, 110),
    14: (1795635620, 26, 152),
    16: (1795638254, 24, 176),
    18: (1795640911, 13, 187),
    20: (1795658120, 4, 196),
}


def test_the_end_of_a_recorded_run_is_in_the_range() -> None:
    left = RealLeft(Costs())
    left.look(0.0, BEGAN, 0.0, 0.0, (JOBS, ENDED - BEGAN, 0.0))
    for sample, (virtual, queued, done) in RECORDED.items():
        played = done + queued / 2
        real = LENGTH * sample / SAMPLES
        least, most = left.look(real, virtual, played, 0.0, (JOBS - played, ENDED - virtual, 0.0))
        assert least <= LENGTH - real <= most, sample


COSTS = Costs(0.05, 1e-4, 1e-3, 500)
Look = tuple[float, float, float, float]
"""Virtual seconds, jobs, tests of a cycle, and integral of these tests."""


def looks() -> list[Look]:
    """A replay of 6,000 jobs that begins without a queue: from the 30th of 200 looks on 400 jobs wait, 100 run."""
    rows: list[Look] = [(0.0, 0.0, 0.0, 0.0)]
    for number in range(1, 201):
        tests = Cycles(500).tests(400, 100) if number >= 30 else 0.0
        virtual, jobs, before, tested = rows[-1]
        rows.append((virtual + 3000.0, jobs + 30.0, tests, tested + 3000.0 * (before + tests) / 2))
    return rows


def ranges(true: Costs) -> list[tuple[float, tuple[float, float]]]:
    """What is left in truth, and the range, at each look of a replay that costs what `true` says."""
    left, rows, found = RealLeft(COSTS), looks(), []
    virtual, jobs, _, tested = rows[-1]
    for now, played, tests, passed in rows:
        to_come = (jobs - played, virtual - now, tested - passed)
        found.append((true.real(*to_come), left.look(true.real(played, now, passed), now, played, tests, to_come)))
    return found


@given(st.floats(0.2, 5.0))
def test_the_end_is_in_the_range_before_and_after_the_queue_grows(slow: float) -> None:
    true = Costs(slow * COSTS.job, slow * COSTS.second, slow * COSTS.tested)
    for rest, (least, most) in ranges(true)[20:]:
        assert least <= rest * (1 + 1e-9) and rest <= most * (1 + 1e-9)


@pytest.mark.parametrize("wrong", [0.3, 3.0])
def test_the_range_follows_the_recent_pace(wrong: float) -> None:
    """Tests cost other than expected: the range holds the end after some minutes with a queue."""
    true = Costs(COSTS.job, COSTS.second, wrong * COSTS.tested)
    found = ranges(true)
    assert all(least <= rest * (1 + 1e-9) and rest <= most * (1 + 1e-9) for rest, (least, most) in found[60:])
    assert not found[29][1][0] <= found[29][0] <= found[29][1][1]


@given(st.floats(0.1, 1e4), st.floats(0, 1e6), st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0, 1e6))
def test_a_range_is_as_wide_as_its_factor(real: float, virtual: float, played: float, tests: float, rest: float) -> None:
    left = RealLeft(COSTS)
    first, last = left.look(0.0, 0.0, 0.0, 0.0, (1000.0, rest, 0.0))
    assert last == pytest.approx(first * FIRST_RANGE**2) and first > 0
    first, last = left.look(real, virtual, played, tests, (1000.0 - played, rest, rest))
    assert first >= 0 and first * LAST_RANGE**2 * (1 - 1e-9) <= last <= first * FIRST_RANGE**2 * (1 + 1e-9)
    # A clock that was set back is no progress.
    again = left.look(real / 2, virtual / 2, played / 2, tests, (1000.0 - played, rest, rest))
    assert again == pytest.approx((first, last))


def test_the_queue_that_is_left() -> None:
    """Of four jobs on four processors one runs for 40 s more, one waits, and two are to come, the last of them after all."""
    plan = [
        PlanRow(index, index + 1, due, processors, None, runtime, 10, None, "", f"r.{index}")
        for index, (due, processors, runtime) in enumerate([(0.0, 3, 100.0), (10.0, 4, 50.0), (70.0, 2, 30.0), (500.0, 1, 7.0)])
    ]
    estimator = TimeLeftEstimator(plan, Clock())
    active = [ActiveJob(1, None), ActiveJob(0, 60.0)]
    estimator.look(1060.0, 60.0, active, [0, 1], 4, 4, 3)
    rest = estimator.rest(60.0, active, 4, Cycles())
    assert rest == expected_queue(
        [0.0, 0.0, 10.0, 440.0], [40.0, 50.0, 30.0, 7.0], [540.0, 600.0, 600.0, 600.0], [3, 4, 2, 1], 4, Cycles()
    )
    assert rest.end == 447.0 and rest.tested == pytest.approx(2 * (40 + 30 + 50 + 0))


def test_what_progress_json_says() -> None:
    left = {"time_left_least": 5.0, "time_left_most": 9.0, "real_left_least": 1.0, "real_left_most": 2.0}
    assert real_left({**left, "pace": None}) == (5.0, 9.0)
    assert real_left({**left, "pace": 3.0}) == (1.0, 2.0)
    assert real_left({**left, "pace": 3.0, "real_left_most": None}) is None
    assert real_left({"time_left_least": 5.0}) is None
