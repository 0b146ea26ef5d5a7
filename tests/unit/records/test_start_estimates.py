"""Tests of Slurm's plans beside the starts."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mirage.records import start_estimates
from mirage.records.run_files import csv_of
from mirage.records.start_estimates import AT_SUBMISSION, SCHEMA
from mirage.records.time_map import TimeMap
from slurm_mirage.clock.clock import Clock

ZERO = 1_700_000_000
TIME = TimeMap(Clock(real_ns=0, virtual_ns=ZERO * 10**9, speed=1.0), origin=500.0)
IDS = pl.DataFrame({"id": [1, 2, 3, 4], "slurm_id": [11, 12, 13, None]}, schema={"id": pl.Int64, "slurm_id": pl.Int64})
STARTS = pl.DataFrame({"job": [1, 2, 3, 3], "start": [1500.0, None, 900.0, 700.0]})
"""Job 3 was requeued."""


def of(path: Path, *lines: str) -> pl.DataFrame:
    (path / "promises.csv").write_text("virtual,job_id,start\n" + "".join(f"{line}\n" for line in lines))
    return start_estimates.estimates(path / "promises.csv", TIME, IDS, STARTS)


def test_plans_are_trace_seconds_beside_the_start_of_the_job(tmp_path: Path) -> None:
    found = of(tmp_path, f"{ZERO + 100}.5,11,{ZERO + 400}", f"{ZERO + 50},11,{ZERO + 60}", f"{ZERO},12,{ZERO}", f"{ZERO},99,{ZERO}")
    assert found.rows() == [(1, 550.0, 560.0, 1500.0), (1, 600.5, 900.0, 1500.0)]
    (tmp_path / "a.csv").write_bytes(csv_of(found))
    assert start_estimates.read(tmp_path / "a.csv").equals(found)


def test_the_first_start_after_a_plan_counts(tmp_path: Path) -> None:
    found = of(tmp_path, f"{ZERO + 100},13,{ZERO + 120}", f"{ZERO + 300},13,{ZERO + 400}", f"{ZERO + 500},13,{ZERO + 600}")
    assert found.rows() == [(3, 600.0, 620.0, 700.0), (3, 800.0, 900.0, 900.0)]


def test_torn_lines_and_plans_after_the_start_are_left_out(tmp_path: Path) -> None:
    assert of(tmp_path, "x,11,5", f"{ZERO},11", f"{ZERO + 2000},11,{ZERO + 2001}", f"{ZERO},11,").is_empty()
    assert start_estimates.estimates(tmp_path / "none.csv", TIME, IDS, STARTS).is_empty()


def test_errors_by_the_time_until_the_planned_start() -> None:
    rows = pl.DataFrame(
        [(1, 0.0, 300.0, 360.0), (1, 100.0, 400.0, 360.0), (2, 0.0, 7200.0, 3600.0), (3, 0.0, 90_000.0, 3540.0)],
        schema=SCHEMA,
        orient="row",
    )
    found = start_estimates.summary(rows)
    assert {name: one["plans"] for name, one in found.items()} == {
        AT_SUBMISSION: 3,
        "below 10 min": 2,
        "1 to 6 h": 1,
        "above 1 d": 1,
    }
    assert found["below 10 min"] == {
        "plans": 2,
        "late": 10.0,
        "error": 50.0,
        "log10": pytest.approx(0.0590, abs=2e-4),
        "within_minute": 1.0,
    }
    assert found["1 to 6 h"]["late"] == -3600.0
    assert found["above 1 d"]["log10"] == pytest.approx(1.3984, abs=1e-3)
