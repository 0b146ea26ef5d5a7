"""The study of filler jobs: what it simulates and plays, what it refuses, and its page."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import polars as pl
import pytest
from browser import check_page
from playwright.sync_api import Browser

from mirage.campaign.campaign import Campaign
from mirage.experiment import runs
from mirage.knobs import resolve as knobs
from mirage.knobs.knobs import Knobs
from mirage.knobs.table import BY_NAME
from mirage.records.run_folder import RunFolder
from mirage.simulation import saturation
from mirage.terminal.screen import Screen
from mirage_extras.filler.studies import study
from mirage_extras.filler.studies.measured import StudyRun, rows
from mirage_extras.filler.studies.page import LOG, beside
from mirage_extras.filler.studies.simulation import Point, Study, summary
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json
from slurm_mirage.extras.filler.words import Filler

KTH = """; MaxProcs: 100
1 0 0 600 60 -1 -1 60 900 -1 1 1 1 -1 -1 -1 -1 -1
2 10 5 1200 90 -1 -1 90 1500 -1 1 1 1 -1 -1 -1 -1 -1
3 20 5 30 16 -1 -1 16 60 -1 1 1 1 -1 -1 -1 -1 -1
4 2030 5 300 7 -1 -1 7 600 -1 1 1 1 -1 -1 -1 -1 -1
"""
SMALL = Study(ts=(0.1, 0.5), cs=(0.8, 1.0), waiting=10, machine=saturation.Study(64, 1, 0.5, 2))


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(study, "study_of", lambda *_: SMALL)
    runs.RESULTS.mkdir()
    return runs.RESULTS


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(KTH)
    return path


def values(**given: str) -> Knobs:
    return knobs.resolve(given)


def test_simulated_only(results: Path) -> None:
    stream = io.StringIO()
    ending = study.study_filler(values(), Screen(stream))
    assert ending.word == "ok" and "TRACE=log" in ending.message
    table = pl.read_csv(results / "study-filler/simulated.csv", schema_overrides={"accuracy": pl.String})
    assert set(table["accuracy"]) == set(SMALL.accuracies) and set(table["workload"]) == {"lomonosov"}
    page = (results / "study-filler/study.html").read_text()
    assert "Gain by t: 512 slots" in page and "there were no runs" in page
    # The same study is not simulated again.
    study.study_filler(values(), Screen(stream))
    assert "nothing is simulated again" in stream.getvalue()


@pytest.mark.parametrize("played", [study.PLAYED, study.FULL_PLAYED])
def test_arms_have_the_words_of_their_points(played: list[tuple[str, float, float]]) -> None:
    points = [study._point(*one) for one in played]
    arms = study.arms(points)
    assert arms["no"] == {"FILLER": "no"} and len(arms) == 1 + len(played)
    for point in points:
        arm = arms[study.label(point)]
        words = Filler.parse(str(arm["FILLER_JOBS"]))
        assert arm["FILLER"] == point.variant and words.speed == point.c
        assert (words.save + words.restore) / words.slot == pytest.approx(point.t)


def test_its_runs_and_its_simulation_have_the_same_jobs(log: Path) -> None:
    given = study.chosen(values(TRACE=str(log)), {**study.KNOBS, "OFFSET": "0", "JOBS": "4", "RUN": "x-runs"})
    campaign = study._campaign(given, [study._point(*one) for one in study.PLAYED], Screen(io.StringIO()))
    assert [part.folder.name for part in campaign.parts[:3]] == ["no-1", "slots-t2-c100-1", "planned-t2-c100-1"]
    jobs = study.jobs_of_log(given, campaign.source.trace, "keep")
    planned = campaign.prepared["no"].workload.jobs
    assert jobs.submit.tolist() == planned["submit"].to_list() and jobs.processors.tolist() == planned["processors"].to_list()
    assert jobs.estimate.tolist() == (60 * planned["limit_minutes"]).to_list()
    assert study.jobs_of_log(given, campaign.source.trace, "1").estimate.tolist() == planned["runtime"].to_list()


def test_runs_beside_their_simulation(log: Path, results: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison whose runs measured given figures: 60 % of the machine without fillers, 99 % with them."""
    monkeypatch.setattr(Campaign, "run", _finished)
    for name, value in {"OFFSET": "0", "JOBS": "4"}.items():
        monkeypatch.setenv(name, value)
    ending = study.study_filler(values(TRACE=str(log), OFFSET="0", JOBS="4"), Screen(io.StringIO()))
    assert ending.word == "ok"
    measured = pl.read_csv(results / "study-filler/measured.csv")
    assert measured.height == 3 * len(study.PLAYED)
    row = measured.filter(pl.col("variant") == "slots", pl.col("t") == 0.2).row(0, named=True)
    expected = {"idle": 0.4, "main": 0.6, "gain": 0.3, "net": 0.3, "bound": 0.4 * 0.8, "seed_bound": 0.08, "wait": 1.0}
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    page = (results / "study-filler/study.html").read_text()
    assert "Runs beside the simulation" in page and "study-filler-runs/report.html" in page and "15 runs are valid" in page
    pictures = [f"{workload}-{what}" for workload in ("lomonosov", "log") for what in ("gain", "accuracy", "delay")]
    check_page(browser, results / "study-filler/study.html", pictures)
    shutil.rmtree(results / "study-filler")


def _finished(campaign: Campaign, _: Screen) -> object:
    from mirage.experiment.endings import Ending

    for part in campaign.parts:
        has_fillers = part.member.label != "no"
        measured = {"utilisation": 0.6, "filler_load": 0.39, "filler_useful": 0.3, "filler_lost": 0.01, "filler_overhead": 0.08}
        figures = {**measured, "filler_preemptions": 5.0, "makespan": 86400.0, "wait_mean": 101.0 if has_fillers else 100.0}
        part.folder.mkdir(parents=True)
        write_json(
            part.folder / "metrics.json", {"metrics": figures, "validity": {"verdict": "valid", "valid": True, "reasons": []}}
        )
    write_json(campaign.folder / "experiment.json", {"comparison": [vars(part.member) for part in campaign.parts]})
    return Ending("ok", "compared")


def test_the_table_joins_what_was_measured_to_what_was_simulated(tmp_path: Path) -> None:
    point = Point("slots", 600, 0.2, 1.0)
    found = []
    for replica, gain in enumerate((0.30, 0.32), 1):
        for own in (None, point):
            folder = tmp_path / f"{replica}-{own is None}"
            folder.mkdir()
            figures = {"utilisation": 0.6, "filler_load": 0.4, "filler_useful": gain, "filler_lost": 0, "filler_overhead": 0}
            write_json(
                folder / "metrics.json",
                {"metrics": {**figures, "filler_preemptions": 1, "makespan": 100, "wait_mean": 1 * replica}},
            )
            found.append(StudyRun(own, replica, RunFolder(folder)))
    measured = summary(rows(found, LOG, "keep"))
    simulated = measured.with_columns(gain=pl.lit(0.25))
    [row] = beside(simulated, measured).rows
    assert row[0] == "slots, t = 0.2, c = 1" and row[5].startswith("31.00 ± 12.71") and row[6] == "25.00 %"


def test_its_knobs_are_knobs_of_its_target() -> None:
    own = {*study.KNOBS, "JOBS", "FULL", "FILLER", "FILLER_JOBS"}
    assert not [knob for knob in own if study.NAME not in BY_NAME[knob].targets]


@pytest.mark.parametrize("given", [{"MODEL": "raijin"}, {"FILLER": "slots"}, {"FILLER_JOBS": "save=1"}])
def test_what_the_study_chooses_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(WrongUse, match=r"study-filler has its own"):
        study.study_filler(values(**given), Screen())
