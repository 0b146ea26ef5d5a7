"""The end of a run on the terminal, and what its numbers rest on."""

from __future__ import annotations

import io
from typing import Any

import polars as pl
import pytest
from run_folders import with_contents
from simulated_runs import in_run, verdict

from mirage.metrics import metrics
from mirage.terminal import summary
from mirage.terminal.screen import Screen
from mirage.traces.swf import parse_swf

LOG = b"""1 0 0 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1
2 10 5 300 4 -1 -1 4 600 -1 1 1 1 -1 -1 -1 -1 -1
3 20 900 1 4 -1 -1 4 600 -1 5 1 1 -1 -1 -1 -1 -1
"""
BOUNDS = {"submit_lag_p99": 443.75, "start_latency_p99": 10.0, "clipped": 0.0}
VALIDITY = verdict(submit_lag_p99=0.0125, start_latency_p99=4.0, clipped=0.0, bounds=BOUNDS)


@pytest.fixture
def measured() -> dict[str, Any]:
    """Metrics of a log of three jobs, with the verdict of a run."""
    frame: pl.DataFrame = parse_swf(LOG, "log")[0]
    found = metrics.compute(metrics.frame_from_swf(frame), 8)
    return in_run(found, {**VALIDITY}) | {"errors": {}}


class Narrow(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def shown(measured: dict[str, Any], stream: io.StringIO | None = None) -> list[str]:
    stream = stream or io.StringIO()
    summary.show(with_contents("kth", metrics=measured, experiment={}), Screen(stream))
    return stream.getvalue().splitlines()


def with_errors(measured: dict[str, Any]) -> dict[str, Any]:
    return measured | {"errors": {name: {"emulation": 1.0, "other_jobs": [2.0, 3.0]} for name in measured["metrics"]}}


def test_a_run_ends_with_one_screen(measured: dict[str, Any]) -> None:
    lines = shown(with_errors(measured) | {"excluded": {"no run time": 3}})
    assert len(lines) <= 23, "the path of the page and the ending follow"
    assert max(len(line) for line in lines) <= 110
    rows = [line.split()[0] for line in lines if line.split()]
    main = [name for name, metric in metrics.METRICS.items() if metric.is_main]
    assert len(main) == 8 and [row for row in rows if row in metrics.METRICS] == main
    row = next(line for line in lines if " wait_max" in line)
    assert row.split() == ["wait_max", "900", "s", "(15", "min)", "1", "2", "to", "3", "longest", "wait", "of", "any", "job"]
    assert "left out of the metrics: 3 no run time" in lines
    assert lines[-4:] == [
        "trust: valid, as all 3 figures of the verdict are within their bounds",
        "closest to its bound: start latency p99, 4.00 s of 10.00 s",
        "largest errors: emulation 600 % (utilisation ± 1)",
        "all metrics and figures: make metrics RUN=kth",
    ]


def test_the_screen_has_80_columns(measured: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    lines = shown(with_errors(measured), Narrow())
    assert len(lines) <= 23 and max(len(line) for line in lines) <= 80
    assert next(line for line in lines if " wait_max" in line).split() == [
        "wait_max",
        "900",
        "s",
        "1",
        "2",
        "to",
        "3",
        "longest",
        "wait",
    ]


def test_metrics_of_used_features_stand_below_the_table(measured: dict[str, Any]) -> None:
    assert not [line for line in shown(measured) if line.startswith("also: ")]
    measured["metrics"] |= {"wasted_fraction": 0.125, "goodput": 0.25}
    assert "also: goodput 25.0 %, wasted processor time 12.5 %" in shown(measured)


def test_what_limits_the_metrics_is_said(measured: dict[str, Any]) -> None:
    coarse = dict.fromkeys(("immediate_fraction", "W1", "wait_median"), "too coarse")
    measured["validity"] |= {"inconclusive_metrics": coarse}
    measured["censored"] = {"jobs": 2, "share": 0.4}
    lines = shown(measured)
    assert "immediate_fraction, wait_median: inconclusive, too coarse" in lines
    assert next(line for line in lines if line.startswith("2 jobs (40 %) waited and never started"))
    assert not [line for line in lines if line.startswith("measured: ")], "the whole schedule"


def test_a_run_without_metrics_has_the_reason() -> None:
    frame = parse_swf(b"1 0 -1 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1\n", "log")[0]
    lines = shown(in_run(metrics.compute(metrics.frame_from_swf(frame), 8)))
    assert "no metrics: no job has a recorded submission, start and end" in lines
    assert "trust: valid" in lines


def test_the_figure_furthest_beyond_its_bound_is_named(measured: dict[str, Any]) -> None:
    measured["validity"] |= {"valid": False, "verdict": "invalid", "submit_lag_p99": 900.0, "clipped": 0.01}
    assert summary.trust({"kth": measured}) == [
        "trust: not valid, 2 of 3 figures of the verdict are beyond their bounds",
        "furthest beyond its bound: share of jobs that are shorter than a launch, 1.0 % of 0.0 %",
    ]
    measured["validity"] |= {"verdict": "inconclusive", "submit_lag_p99": 0.0, "clipped": 0.0}
    assert summary.trust({"kth": measured})[0] == "trust: inconclusive, though all 3 figures of the verdict are within their bounds"
    assert summary.trust({"kth": measured}, {"clipped"})[0].startswith("trust: inconclusive, though all 2 figures")


def test_what_several_runs_rest_on(measured: dict[str, Any]) -> None:
    other = with_errors(measured) | {"validity": measured["validity"] | {"start_latency_p99": 5.0}}
    assert summary.trust({"a-1": measured, "a-2": other}) == [
        "trust: 2 of 2 runs are valid",
        "closest to its bound: start latency p99, 5.00 s of 10.00 s (a-2)",
        "largest errors: emulation 600 % (utilisation, a-2)",
    ]
    unsure = measured | {"validity": measured["validity"] | {"verdict": "inconclusive"}}
    wrong = measured | {"validity": measured["validity"] | {"verdict": "invalid"}}
    [first, *_] = summary.trust({"a-1": measured, "a-2": unsure, "b-1": wrong, "b-2": wrong})
    words = "trust: 2 of 4 runs not valid (b-1, b-2), 1 of 4 runs inconclusive (a-2); differences may be caused by the emulation"
    assert first == words


@pytest.mark.parametrize(("computed", "charged", "is_told"), [(51.0, 0.0, True), (49.0, 0.0, False), (51.0, 5.0, False)])
def test_a_scheduler_that_looks_free_on_the_event_clock_is_told(
    measured: dict[str, Any], computed: float, charged: float, is_told: bool
) -> None:
    """It computes for 5 % of the cluster's time."""
    line = "the scheduler computes for long, which the event clock does not count; CHARGE=yes counts it"
    clock = {"charged_seconds": charged, "scheduler_seconds": computed, "virtual_seconds": 1000.0}
    slow = measured | {"validity": measured["validity"] | {"event_clock": clock}}
    assert (line in summary.trust({"kth": slow})) is is_told
    assert line not in summary.trust({"kth": measured}), "a constant clock"
    assert (f"{line} (a-1)" in summary.trust({"a-1": slow, "a-2": measured})) is is_told
