"""The section of a run's page about changes of size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import simulated_runs

from mirage.records.run_folder import RunFolder
from mirage.reports.run_data import Run
from mirage.reports.run_page import page
from mirage_extras.malleable.page import TITLE, section

TIMES: dict[str, Any] = {"mean": 0.02, "std": 0.5, "min": 0.001, "max": 75.0}
RESIZES: dict[str, Any] = {
    "malleable_jobs": 15,
    "checks": 103,
    "none": {"count": 100, **TIMES},
    "expand": {"count": 2, "per_job": 2 / 15, "not_done": 1, "cost_mean": 7.5, **TIMES},
    "shrink": {"count": 0, "per_job": 0.0, "not_done": 0, "cost_mean": None, **dict.fromkeys(TIMES)},
}


def run_of(folder: Path, resizes: dict[str, Any] | None) -> Run:
    simulated_runs.write(folder, simulated_runs.jobs_of(60, 16, 4), 16, 4)
    if resizes is not None:
        path = folder / "metrics.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "resizes": resizes}))
    return Run.of(RunFolder(folder))


def test_what_the_broker_answered(tmp_path: Path) -> None:
    found = section(run_of(tmp_path / "run", RESIZES))
    assert found is not None
    [part] = found.parts
    assert part.words.startswith("15 malleable jobs (25.0 % of the jobs) asked the broker 103 times")
    assert "did so 2 times." in part.words
    assert part.table is not None
    rows = {row[0]: row[1:] for row in part.table.rows}
    assert rows["expansion"] == ("2", "0.13", "1", "0.02 s", "0.5 s", "75 s", "7.5 s")
    assert rows["shrink"] == ("0", "0", "0", "-", "-", "-", "-")
    assert TITLE in page(run_of(tmp_path / "other", RESIZES))


def test_a_run_of_rigid_jobs_has_no_such_section(tmp_path: Path) -> None:
    assert section(run_of(tmp_path / "run", None)) is None
