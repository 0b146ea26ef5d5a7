"""The course of a run: what is kept of it for later estimates."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_prepare import SPAN, prepared

from mirage.experiment import host_pace, order, run_length
from mirage.experiment.endings import Interrupted
from mirage.experiment.order import Order, _keep_pace
from mirage.experiment.prepare import Prepared, Source
from mirage.terminal.screen import Screen


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


def test_the_run_of_a_course_stays_one_after_its_speed_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number decides draws, and nothing is recorded of its jobs."""
    run = prepared(SPAN, SPEED="20", TRACE="log.swf")
    written: list[Prepared] = []
    monkeypatch.setattr(order, "speed_for", lambda *_: Decimal(30))
    monkeypatch.setattr(Prepared, "write_again", lambda again, _: written.append(again))
    monkeypatch.setattr(order.preflight, "running", lambda _: None)

    def play(*_: object) -> None:
        raise Interrupted

    lane: Any = SimpleNamespace(play=play, screen=Screen(), host="", cluster=run.knobs.cluster)
    asked = Order(run.knobs, tmp_path, tmp_path, Source(SPAN, {}))
    for one in (run, replace(run, replica=3, recorded=None)):
        ending = order._ending(asked, one, tmp_path, lane, None)
        assert ending.word == "failed" and "interrupted" in ending.message
    assert [again.replica for again in written] == [1, 3]
    assert [again.recorded is None for again in written] == [run.recorded is None, True]
    assert run.recorded is not None
