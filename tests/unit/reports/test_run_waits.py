"""Why jobs waited on a run's page: the picture, the tables and the sentences."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from mirage.metrics.measured_jobs import Window
from mirage.records.run_folder import RunFolder
from mirage.records.wait_causes import WAITS_SCHEMA
from mirage.reports import run_waits
from mirage.reports.timeline import AREAS, Steps, Timeline

SPANS = [(1, 0.0, 50.0, "priority", ""), (1, 50.0, 100.0, "resources", ""), (2, 20.0, 100.0, "priority", "")]
GROUP = {"jobs": 1, "waited": 100.0, "causes": {"priority": 0.5, "resources": 0.5}}
MEMBER: dict[str, Any] = {
    "jobs": 2,
    "users": 2,
    "waited": 180.0,
    "reasons_recorded": True,
    "unexplained": 0.0,
    "causes": {"priority": 130 / 180, "resources": 50 / 180},
    "by_size": [{"name": "1", **GROUP}, {"name": "2-4", "jobs": 1, "waited": 80.0, "causes": {"priority": 1.0}}],
    "by_runtime": [{"name": "all", **GROUP}],
    "by_user": [],
    "by_partition": [{"name": "<b>", **GROUP}, {"name": "c", **GROUP}],
    "longest": [
        {"job": 1, "waited": 100.0, "processors": 4, "user": "7", "partition": "b", "causes": {"priority": 50.0, "resources": 50.0}}
    ],
}


def run(folder: Path, member: dict[str, Any]) -> Any:
    pl.DataFrame(SPANS, schema=WAITS_SCHEMA, orient="row").write_csv(folder / "waits.csv")
    return SimpleNamespace(metrics={"wait_causes": member}, window=Window(0.0, 200.0, 0.0, 0.0), folder=RunFolder(folder))


def test_the_section(tmp_path: Path) -> None:
    section = run_waits.section(run(tmp_path, MEMBER))
    assert section is not None
    first, *tables, last = section.parts
    assert first.words.startswith("2 jobs waited 3 min in total. 0.0 % of that is not explained.")
    assert first.table is not None and [row[0] for row in first.table.rows] == ["priority", "resources"]
    captions = [part.table.caption for part in tables if part.table]
    assert captions == ["Shares of the waiting time by processors", "Shares of the waiting time by partition"]
    assert tables[0].table is not None and tables[0].table.rows[1] == ("2-4", "1", "80 s", "100.0 %", "-")
    assert last.points == [
        "Job 1 (4 processors, user 7, partition b) waited 2 min. 50 s: other jobs were before it; 50 s: not enough processors or "
        "nodes were free."
    ]


def test_the_picture_has_an_area_for_each_cause(tmp_path: Path) -> None:
    section = run_waits.section(run(tmp_path, MEMBER))
    assert section is not None and section.parts[0].timeline is not None
    (panel,) = section.parts[0].timeline.panels
    assert [name for name, _, _ in panel.legend] == ["priority", "resources"]
    assert re.findall(r"<title>(\w+)</title>", panel.body) == ["priority", "resources"]
    assert "nan" not in panel.body


def test_a_run_that_has_nothing_to_show(tmp_path: Path) -> None:
    assert run_waits.section(run(tmp_path, {**MEMBER, "waited": 0.0})) is None
    section = run_waits.section(run(tmp_path, {**MEMBER, "reasons_recorded": False}))
    assert section is not None and "were not recorded" in section.parts[0].words


def test_areas_lie_on_each_other() -> None:
    frame = Timeline(0.0, float(AREAS))
    times = np.array([0.0, AREAS / 2, float(AREAS)])
    panel = frame.areas(
        "a", "A", "", [Steps("x", times, np.array([1.0, 2.0])), Steps("y", times, np.array([3.0, 0.0]))], ["#1", "#2"], "jobs"
    )
    tops = [float(re.search(r' d="M0 ([\d.]+)H', path)[1]) for path in panel.body.split('<path class="area"')[1:]]  # type: ignore[index]
    height = 1000 / (1 - tops[0] / 1000)
    assert tops[1] == pytest.approx(1000 - 4 * 1000 * 1000 / height, abs=1.0)
