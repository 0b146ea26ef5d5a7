"""The section of a run's page about filler jobs, and its picture over time."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
import simulated_runs

from mirage.metrics.measured_jobs import Population
from mirage.records.run_folder import RunFolder
from mirage.records.time_map import TimeMap
from mirage.reports.run_data import Run
from mirage.reports.run_page import page
from mirage.terminal.parts import parts_of
from mirage_extras.filler import verdict
from mirage_extras.filler.metrics import FILLERS_SCHEMA
from mirage_extras.filler.page import TITLE, section
from mirage_extras.filler.records import FILLERS_FILE, Fillers
from slurm_mirage.clock.clock import Clock
from slurm_mirage.extras.filler.words import Filler


def run_of(folder: Path, *faults: str) -> Run:
    """A run of 60 jobs on 64 processors; two fillers ran for 600 s, one was ended by Slurm."""
    jobs = simulated_runs.jobs_of(60, 16, 4)
    metrics = simulated_runs.write(folder, jobs, 16, 4)
    common = {"execution": 1, "node": "n1", "processors": 1, "failed_saves": 0, "lost": 0.0, "waiting": 0.0}
    worked = {"restoring": 5.0, "saving": 10.0, "useful": 585.0, "saves": 1, "work": 585.0, "progress": 585.0, "outcome": "slot"}
    killed = {"restoring": 5.0, "saving": 0.0, "useful": 0.0, "saves": 0, "work": 0.0, "progress": 0.0, "outcome": "preempted"}
    begin = float(jobs["start"].min())  # type: ignore[arg-type]
    times = {"start": begin, "ready": begin + 5, "end": begin + 600}
    rows = [{"filler": 1, **times, **worked}, {"filler": 2, **times, **killed, "lost": 595.0}]
    table = pl.DataFrame([common | one for one in rows], schema=FILLERS_SCHEMA)
    table.write_csv(folder / FILLERS_FILE)
    time = TimeMap(Clock(0, 0), origin=0.0)
    fillers = Fillers("slots", Filler(), table, 0.0, list(faults), pl.DataFrame(), time)
    metrics["fillers"] = verdict.summary(fillers, metrics, Population.of(jobs, 64, 16, 0.0, 0.0), None)
    metrics["metrics"] |= {"filler_preemptions": 1.0}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    return Run.of(RunFolder(folder))


def test_a_run_without_fillers_has_no_such_section(tmp_path: Path) -> None:
    simulated_runs.write(tmp_path / "run", simulated_runs.jobs_of(60, 16, 4), 16, 4)
    run = Run.of(RunFolder(tmp_path / "run"))
    assert section(run) is None
    assert 'data-name="jobs and fillers"' not in page(run)
    assert not any("filler" in one for one in parts_of(run.metrics))


def test_what_the_fillers_did(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    found = section(run)
    assert found is not None
    counts, bound, loads = found.parts
    assert counts.words.startswith("2 fillers of variant slots ran 2 times, saved 1 time")
    assert counts.table is not None
    assert [row[1] for row in counts.table.rows] == ["1", "1"]
    assert "t = 0.025: a start takes 5 s and a save 10 s of a slot, 10 min" in bound.words
    assert bound.table is not None
    assert [row[0] for row in bound.table.rows][:4] == [
        "idle without fillers", "bound of the gain", "gain: useful work of fillers", "gain less bound",
    ]  # fmt: skip
    assert loads.table is not None
    assert len(loads.table.rows) == verdict.INTERVALS
    shown = page(run)
    assert TITLE in shown
    assert 'data-name="jobs and fillers"' in shown
    [told] = [one for one in parts_of(run.metrics) if one.startswith("filler jobs (slots)")]
    assert "2 fillers in 2 executions, 1 ended for other jobs" in told


def test_loads_add_up_to_the_machine(tmp_path: Path) -> None:
    over_time = run_of(tmp_path / "run").metrics["fillers"]["over_time"]
    assert all(part["main"] + part["filler"] + part["idle"] == pytest.approx(1, abs=2e-6) for part in over_time)


def test_contradictions_are_shown(tmp_path: Path) -> None:
    found = section(run_of(tmp_path / "run", "1 records contradict each other"))
    assert found is not None
    assert found.lacks == ["1 records contradict each other."]
