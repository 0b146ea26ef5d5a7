"""The real time that is left of a replay on the event clock."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.replay.real_left import FIRST_RANGE, real_left

# 200 jobs of KTH's log on 100 nodes of a busy host, which took 114 s: samples at equal intervals, each with the cluster's time,
# jobs in the queue, and jobs that have ended. A burst of jobs comes first, and at the end few jobs are left of a long time.
LENGTH, SAMPLES = 114.0, 22
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


@pytest.mark.parametrize("sample", RECORDED)
def test_the_end_of_a_recorded_run_is_in_the_range(sample: int) -> None:
    virtual, queued, done = RECORDED[sample]
    passed = LENGTH * sample / SAMPLES
    progress: dict[str, Any] = {
        "time_left_least": ENDED - virtual,
        "time_left_most": ENDED - virtual,
        "elapsed": virtual - BEGAN,
        "jobs": 200,
    }
    progress |= {"pace": (virtual - BEGAN) / passed, "submitted": done + queued, "done": done, "nodes": {"idle": 100}}
    left = real_left(progress)
    assert left is not None and left[0] <= LENGTH - passed <= left[1]


def test_with_fillers_the_host_works_as_the_clusters_time_passes() -> None:
    """60 jobs of KTH-SP2 with fillers in slots (docs/accuracy.md): 57,466 virtual seconds in 621 real ones, at a constant pace."""
    progress: dict[str, Any] = {"time_left_least": 40_000.0, "time_left_most": 40_000.0, "elapsed": 17_466.0, "pace": 92.5}
    progress |= {"jobs": 60, "submitted": 60, "done": 56, "nodes": {"idle": 100}}
    left = real_left(progress | {"has_companion": True})
    assert left is not None and left[0] <= 621 * 40_000 / 57_466 <= left[1]
    assert real_left(progress)[1] < left[0]  # type: ignore[index]


PROGRESS = st.fixed_dictionaries(
    {
        "time_left_least": st.floats(0, 1e6), "time_left_most": st.floats(1e6, 2e6), "pace": st.floats(0.1, 1e5),
        "elapsed": st.floats(0, 1e6), "jobs": st.integers(1, 1000), "submitted": st.integers(0, 1000), "done": st.integers(0, 1000),
        "nodes": st.fixed_dictionaries({"idle": st.integers(0, 4000)}),
    }
)  # fmt: skip


@given(PROGRESS)
def test_a_range_is_as_wide_as_the_clusters_time_and_the_factor(progress: dict[str, Any]) -> None:
    first, last = real_left(progress) or (1.0, 0.0)
    assert 0 <= first <= last
    exact = real_left(progress | {"time_left_least": progress["time_left_most"]})
    assert exact is not None and exact[1] <= exact[0] * FIRST_RANGE**2 * (1 + 1e-9)
    slower = real_left(progress | {"pace": progress["pace"] / 2})
    assert slower is not None and slower[1] >= last


def test_a_constant_clock_and_an_unknown_end() -> None:
    assert real_left({"time_left_least": 5.0, "time_left_most": 9.0, "pace": None}) == (5.0, 9.0)
    assert real_left({"time_left_least": 5.0, "time_left_most": None, "pace": 3.0}) is None
