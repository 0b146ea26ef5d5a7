"""The restart of the controller before a run on the event clock, and the instant at which the run begins."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.processes import is_stopped
from slurm_mirage.replay import phase
from slurm_mirage.replay.phase import START_AFTER, WEEK, leap_to_begin, next_begin, remove_from

NS = 1_000_000_000

WRITER = """
import pathlib, sys
while True:
    for name in sys.argv[1:]:
        pathlib.Path(name).write_text("jobs")
"""


def test_a_process_does_not_write_files_again_that_are_removed(tmp_path: Path) -> None:
    files = [tmp_path / "job_state", tmp_path / "job_state.old"]
    with subprocess.Popen([sys.executable, "-c", WRITER, *map(str, files)]) as writer:
        try:
            while not files[1].exists():
                time.sleep(0.01)
            remove_from(writer.pid, [*files, tmp_path / "none"])
            assert is_stopped(writer.pid)
            assert list(tmp_path.iterdir()) == []
        finally:
            writer.kill()


def test_files_of_a_process_that_has_ended_stay(tmp_path: Path) -> None:
    """The next controller may have read them."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "job_state").write_text("jobs")
    remove_from(ended.pid, [tmp_path / "job_state"])
    assert (tmp_path / "job_state").exists()


INSTANTS = st.integers(0, 2**62)


@given(now=INSTANTS, second=st.integers(0, WEEK - 1))
def test_a_run_begins_within_a_week_at_its_second_of_the_week(now: int, second: int) -> None:
    begin = next_begin(now, second)
    assert 0 <= begin - now - START_AFTER * NS < WEEK * NS and begin % NS == 0
    date = datetime(1970, 1, 1) + timedelta(seconds=begin // NS)
    assert (date.weekday() * 24 + date.hour) * 3600 + date.minute * 60 + date.second == second


@given(now=INSTANTS, second=st.integers(0, WEEK - 1), length=st.integers(0, 10**17))
def test_the_same_run_again_begins_whole_weeks_later(now: int, second: int, length: int) -> None:
    begin = next_begin(now, second)
    assert (next_begin(begin + length, second) - begin) % (WEEK * NS) == 0


@pytest.mark.parametrize("is_idle", [True, False])
def test_a_controller_that_keeps_its_phase_is_not_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_idle: bool) -> None:
    """The clock leaps, or goes on where a job runs, to the same instant before the begin."""
    came: list[tuple[str, int]] = []

    class Waiting:
        def sleep_until(self, instant: int) -> None:
            came.append(("sleeps", instant))

    monkeypatch.setattr(phase, "_leap", lambda _, instant, __: came.append(("leaps", instant)))
    before = time.time_ns()
    begin = leap_to_begin(tmp_path, Waiting(), 170_065, is_idle=is_idle)  # type: ignore[arg-type]
    assert next_begin(before, 170_065) <= begin < before + (WEEK + START_AFTER) * NS + NS
    assert came == [("leaps" if is_idle else "sleeps", begin - START_AFTER * NS)]
