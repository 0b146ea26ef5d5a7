"""The course of a run: what is kept of it for later estimates."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from test_prepare import SPAN, prepared

from mirage.experiment import host_pace, run_length
from mirage.experiment.order import _keep_pace


@pytest.fixture(autouse=True)
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_pace, "PATH", tmp_path / "pace.json")
    monkeypatch.setattr(run_length, "slowness", lambda: 2.0)
    monkeypatch.setattr(run_length, "measured_slowness", lambda: 4.0)


def test_what_a_run_took_is_kept_with_how_busy_the_host_was() -> None:
    run = prepared(SPAN, SPEED="event")
    _keep_pace(run, {"real_seconds": 30.0, "scheduler_seconds": 12.0}, 50.0)
    [kept] = host_pace.played()
    assert (kept.scheduler, kept.rest, kept.around) == (12.0, 18.0, 20.0)
    assert kept.run.slow == pytest.approx(math.sqrt(8)) and kept.run.scheduler == run.predicted.scheduler


@pytest.mark.parametrize("clock", [{}, {"real_seconds": 30.0}, {"real_seconds": 0.0, "scheduler_seconds": 0.0}])
def test_a_run_without_figures_of_the_clock_is_not_kept(clock: dict[str, float]) -> None:
    _keep_pace(prepared(SPAN, SPEED="event"), clock, 50.0)
    assert host_pace.played() == []
