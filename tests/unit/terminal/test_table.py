"""The table of metrics on the terminal, and sweep.csv."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from simulated_runs import in_run, verdict

from mirage.campaign import sweep_table
from mirage.experiment.endings import Ending
from mirage.metrics import metrics
from mirage.terminal import table
from mirage.terminal.screen import Screen
from mirage.traces.swf import parse_swf
from mirage.verdict.features import unused_rows
from slurm_mirage.base.files import write_json

LOG = b"""1 0 0 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1
2 10 5 300 4 -1 -1 4 600 -1 1 1 1 -1 -1 -1 -1 -1
3 20 900 1 4 -1 -1 4 600 -1 5 1 1 -1 -1 -1 -1 -1
"""


@pytest.fixture
def measured() -> dict[str, Any]:
    """Metrics of a log of three jobs, with the verdict of a run."""
    frame: pl.DataFrame = parse_swf(LOG, "log")[0]
    found = metrics.compute(metrics.frame_from_swf(frame), 8)
    figures = {"submit_lag_p99": 0.0125, "retries": 2, "host_cpu": 0.375, "clock_speed": None}
    return in_run(found, verdict(bounds={"submit_lag_p99": 443.75, "halted": 1.0}, **figures))


def test_the_table_has_every_metric_and_why_one_is_missing(measured: dict[str, Any]) -> None:
    stream = io.StringIO()
    table.show(measured, Screen(stream))
    lines = {line.split()[0]: line for line in stream.getvalue().splitlines() if line.split()}
    assert {name for name in metrics.METRICS if name not in unused_rows(measured)} <= set(lines)
    assert "(15 min)" in lines["wait_max"] and "900.00 s" in lines["wait_max"]
    assert measured["null_reasons"]["W3"] in " ".join(stream.getvalue().split())
    assert "0.01 s" in lines["submit_lag_p99"]
    assert "allowed: 443.75 s (7 min)" in " ".join(stream.getvalue().split())
    assert "37.5 %" in lines["host_cpu"]
    assert lines["retries"].split()[1] == "2"
    assert "\x1b" not in stream.getvalue()
    assert max(len(line) for line in stream.getvalue().splitlines()) <= 110


def test_text_of_a_run_is_escaped_before_it_is_folded(measured: dict[str, Any]) -> None:
    """A line that the width of the terminal begins is one, too."""
    strange = f"\x1b[31m{'x' * 80} ::error::planted [bold] :boom:\n::error::planted"
    measured["null_reasons"]["W3"] = strange
    table.show(measured | {"excluded": {strange: 1}}, Screen(stream := io.StringIO()))
    lines = stream.getvalue().splitlines()
    assert all(line.isprintable() and not line.startswith("::") and len(line) <= 110 for line in lines)
    assert "\\x1b[31mx" in stream.getvalue() and "[bold] :boom:" in " ".join(stream.getvalue().split())


def test_each_value_has_its_errors(measured: dict[str, Any]) -> None:
    errors = {name: {"emulation": None, "other_jobs": None} for name in measured["metrics"]}
    errors |= {
        "wait_mean": {"emulation": 9.13, "other_jobs": [240.26, 361.4]},
        "utilisation": {"emulation": 0.000042, "other_jobs": None},
    }
    errors["W"] = {"emulation": 1234.5, "other_jobs": [0.0, 98_765.0]}
    stream = io.StringIO()
    table.show(measured | {"errors": errors}, Screen(stream))
    lines = {line.split()[0]: line for line in stream.getvalue().splitlines() if line.split()}
    assert "(5 min) ± 9.1 (240 to 361) " in lines["wait_mean"]
    assert " ± 1200 (0 to 98800) " in lines["W"]
    assert " ± 0.000042 (-) " in lines["utilisation"]
    assert "±" not in lines["wait_max"]
    told = " ".join(stream.getvalue().split())
    assert "docs/emulation-error.md" in told and "95 % interval for other jobs like these" in told
    assert max(len(line) for line in stream.getvalue().splitlines()) <= 110


def test_a_schedule_without_delays_shows_the_interval_over_jobs_only(measured: dict[str, Any]) -> None:
    errors = {name: {"emulation": None, "other_jobs": [0.5, 0.75]} for name in measured["metrics"]}
    stream = io.StringIO()
    table.show(measured | {"errors": errors}, Screen(stream))
    assert " (0.5 to 0.75) " in stream.getvalue() and "± -" not in stream.getvalue()
    assert "docs/emulation-error.md" not in stream.getvalue()


def test_the_classes_of_jobs_are_a_matrix(measured: dict[str, Any]) -> None:
    stream = io.StringIO()
    table.show(measured, Screen(stream))
    lines = stream.getvalue().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("bounded slowdown, mean by"))
    rows = [line.split() for line in lines[first + 1 : first + 9] if line.strip() and "─" not in line]
    assert rows == [
        ["processors", "to", "1", "min", "to", "10", "min", "all", "jobs"],
        ["1", "1", "1", "1"],
        ["2-4", "90.1", "1.017", "45.56", "2"],
        ["all", "45.55", "1.017", "30.71", "3"],
        ["jobs", "2", "1", "3"],
    ]


def test_jobs_of_one_class_need_no_matrix() -> None:
    frame = parse_swf(b"1 0 5 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1\n", "log")[0]
    stream = io.StringIO()
    table.show(in_run(metrics.compute(metrics.frame_from_swf(frame), 8)), Screen(stream))
    assert "bounded slowdown, mean by processors" not in stream.getvalue()


def test_a_log_without_waits_is_told_in_one_line() -> None:
    frame = parse_swf(b"1 0 -1 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1\n", "log")[0]
    stream = io.StringIO()
    table.show(metrics.compute(metrics.frame_from_swf(frame), 8), Screen(stream))
    words = "no metrics: no job has a recorded submission, start and end"
    assert [line for line in stream.getvalue().splitlines() if line] == [
        "jobs: 1 submitted, 1 completed (times in seconds of the trace)",
        words,
        "left out: 1 (no start)",
    ]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "s", "-"),
        (0.0, "s", "0.00 s"),
        (89.994, "s", "89.99 s"),
        (7800.0, "s", "7800.00 s (2 h 10 min)"),
        (0.6895, "share", "69.0 %"),
        (3, "", "3"),
        (1234.5678, "", "1235"),
        (0.00012345, "", "0.0001234"),
        ({"time-out": 2, "lost": 0, "munge": 1}, "counts", "2 time-out, 1 munge"),
        ({"lost": 0}, "counts", "0"),
        ({}, "counts", "0"),
        (None, "counts", "-"),
    ],
)
def test_figures(value: float | dict[str, int] | None, unit: str, text: str) -> None:
    assert table.value_text(value, unit) == text


def test_a_sweep_has_a_line_for_each_run_that_ended(tmp_path: Path, measured: dict[str, Any]) -> None:
    runs = []
    for shrink, ending in ((Decimal("100"), Ending("ok", "3 jobs")), (Decimal("0.20"), Ending("failed", "no"))):
        folder = tmp_path / f"x-{shrink}"
        folder.mkdir()
        runs.append((shrink, folder, ending))
    write_json(tmp_path / "x-100/metrics.json", measured)
    (tmp_path / "x").mkdir()
    sweep_table.write(tmp_path / "x", runs)
    lines = list(csv.DictReader((tmp_path / "x/sweep.csv").open()))
    assert [(line["shrink"], line["ending"]) for line in lines] == [("100", "ok"), ("0.2", "failed")]
    assert (lines[0]["submitted"], lines[0]["wait_max"], lines[0]["submit_lag_p99"]) == ("3", "900.0", "0.0125")
    assert lines[1]["wait_max"] == ""
    assert set(sweep_table.FIGURES) <= set(metrics.METRICS)
    stream = io.StringIO()
    sweep_table.show(tmp_path / "x", Screen(stream))
    words = [line.split() for line in stream.getvalue().splitlines() if line.split()]
    assert words[0] == ["shrink", "ending", *sweep_table.SHOWN]
    assert [line[:2] for line in words[2:4]] == [["100", "ok"], ["0.2", "failed"]]
    assert "\ntrust: valid, as all 1 figures" in stream.getvalue(), "of the only run that has figures"
    assert max(len(line) for line in stream.getvalue().splitlines()) <= 110


def test_a_long_sweep_fits_on_a_screen(tmp_path: Path) -> None:
    folders = [(Decimal(shrink), tmp_path / f"x-{shrink}", Ending("ok", "3 jobs")) for shrink in range(100, 0, -1)]
    sweep_table.write(tmp_path, folders)
    sweep_table.show(tmp_path, Screen(stream := io.StringIO()))
    lines = stream.getvalue().splitlines()
    assert len(lines) <= 30 and "80 runs between them are in sweep.csv" in lines
    assert [line.split()[0] for line in lines if line.endswith("-")] == [str(k) for k in (*range(100, 90, -1), *range(10, 0, -1))]


def rows_of(content: dict[str, Any], experiment: dict[str, Any] | None = None) -> set[str]:
    table.show(content, Screen(stream := io.StringIO()), experiment)
    return {line.split()[0] for line in stream.getvalue().splitlines() if line.split()}


def test_rows_of_features_that_a_run_does_not_use_are_not_shown(measured: dict[str, Any]) -> None:
    unused = {"filler_load", "total_load", "useful_utilisation", "resizes_mean", "goodput", "wasted_fraction", "suspended_mean"}
    assert unused <= set(measured["metrics"]) and not unused & rows_of(measured)
    measured["metrics"] |= {"filler_load": 0.2, "wasted_fraction": 0.1, "suspended_fraction": 0.5}
    assert unused & rows_of(measured) == unused - {"useful_utilisation", "resizes_mean"}
    assert {"resizes_mean", "useful_utilisation"} <= rows_of(measured, {"inputs": {"MALLEABLE": "0.5"}}), "asked for, never done"
