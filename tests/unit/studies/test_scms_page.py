"""The page of study-scms, from folders like those of finished runs under two resource managers."""

from __future__ import annotations

import io
import json
from pathlib import Path

import polars as pl
import pytest
import simulated_runs
from browser import check_page
from pages import Outline
from playwright.sync_api import Browser

from mirage.campaign.conclusion import Member, conclude
from mirage.experiment import runs
from mirage.records.run_folder import RunFolder
from mirage.terminal.screen import Screen
from studies import comparisons, scms_page

ARMS = (
    ("openpbs-fifo", "openpbs", "pbs-fifo", "fcfs"),
    ("openpbs-easy", "openpbs", "pbs-easy", "easy"),
    ("slurm-backfill", "slurm", "backfill", "conservative"),
    ("slurm-fifo", "slurm", "fifo", "fcfs"),
)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a finished comparison of the study's four configurations."""
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    folder, members = tmp_path / "study-scms", []
    for replica in (1, 2):
        for label, manager, config, policy in ARMS:
            name = f"{label}-{replica}"
            jobs = simulated_runs.jobs_of(60, 16, 4, policy, load=2.0)
            simulated_runs.write(folder / name, jobs, 16, 4, CONFIG=config, RM=manager)
            members.append(Member(label, replica, name))
    described = {"inputs": {"CONFIGS": "x"}, "comparison": [vars(member) for member in members]}
    (folder / "experiment.json").write_text(json.dumps(described))
    conclude(folder, members, Screen(io.StringIO()))
    return folder


def test_indices_and_figures_stand_beside_those_of_the_source(study: Path) -> None:
    comparisons._write_scms(study)
    text = (study / "study.html").read_text()
    outline = Outline.of(text)
    assert [one for one in outline.references if one != "report.html"] == []
    words = outline.texts
    for name in ("OpenPBS FIFO", "source: Torque FIFO", "OpenPBS backfill", "Slurm backfill", "Slurm FIFO", "28,597", "33,035"):
        assert name in words, name
    assert text.count("<svg") == 2, "figures 1 and 2"
    assert "OpenPBS FIFO kept the order of submission." in text and "Slurm FIFO kept the order of submission." in text
    # W of Slurm's FIFO is 33035 against 28597 of Torque's in the source.
    assert "+15.5\u00a0%" in text or "+16\u00a0%" in text


def test_its_pictures_are_seen(study: Path, browser: Browser) -> None:
    comparisons._write_scms(study)
    check_page(browser, study / "study.html", ["busy", "busy-difference"])


def test_equal_schedules_of_both_fifos_have_no_difference(study: Path) -> None:
    content = json.loads((study / "comparison.json").read_text())
    pairs = content["metrics"]["wait_mean"]["pairs"]
    [pair] = [one for one in pairs if (one["baseline"], one["configuration"]) == ("openpbs-fifo", "slurm-fifo")]
    assert pair["percent"] == 0


def test_a_comparison_of_slurm_alone_names_the_empty_place(study: Path) -> None:
    content = json.loads((study / "comparison.json").read_text())
    from mirage.reports.run_data import Run

    found = {name: Run.of(RunFolder(study / name)) for one in content["configurations"] for name in one["runs"]}
    arms = scms_page.arms_of(content, found)
    assert [arm.name for arm in arms] == ["OpenPBS FIFO", "OpenPBS backfill", "Slurm backfill", "Slurm FIFO"]
    assert [arm.source for arm in arms] == ["Torque FIFO", "", "Slurm backfill", "Slurm FIFO"]
    assert any("Torque's place is empty" in line for line in scms_page._summary(content, arms[2:]))


@pytest.mark.parametrize(
    ("starts", "share"), [([0.0, 5.0, 5.0, 9.0], 0.0), ([0.0, 9.0, 5.0, 6.0], 0.5), ([None, None, None, None], None)]
)
def test_the_share_that_started_before_an_earlier_one(starts: list[float | None], share: float | None) -> None:
    jobs = pl.DataFrame({"id": [1, 2, 3, 4], "submit": [0.0, 1.0, 2.0, 3.0], "start": pl.Series(starts, dtype=pl.Float64)})
    assert scms_page.out_of_order(jobs) == share


def test_starts_of_one_cycle_may_be_recorded_in_another_order() -> None:
    jobs = pl.DataFrame({"id": [1, 2, 3], "submit": [0.0, 1.0, 2.0], "start": [100.0, 90.0, 40.0]})
    assert scms_page.out_of_order(jobs, within=20.0) == pytest.approx(1 / 3)


def test_nodes_beyond_the_fewest() -> None:
    jobs = pl.DataFrame({"start": [0.0, 1.0], "nodes": [2, 1], "processors": [8, 3]})
    assert scms_page.spread(jobs, 8) == pytest.approx(0.5)
