"""The page of a search: the answer, the pictures, and texts of others that stay texts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pages import Outline

from mirage.campaign.search_plan import SearchPlan
from mirage.campaign.search_results import content_of, ending_of
from mirage.records.run_folder import RunFolder
from mirage.reports import search_pictures
from mirage.reports.search_page import page
from mirage.tuning.conclusions import Trial
from mirage.tuning.sampler import next_points
from mirage.tuning.surrogate import Point
from mirage.tuning.told import Told
from slurm_mirage.base.strict_json import Damaged

PLAN = SearchPlan(
    names=["bf_interval", "SchedulerType", "bf_max_job_test"],
    values=[["10", "30", "120"], ["sched/backfill", "sched/builtin"], ["50", "500"]],
    base=(1, 0, 1),
    settings="",
    goal="wait_mean",
    second="wait_max",
    limits="utilisation:-1%",
    margin=5.0,
    batch=2,
    jobs=200,
    early_jobs=66,
    proof="s-proof",
)


def figure(point: Point) -> float:
    return 4000.0 + 900 * point[0] + 2500 * point[1] - 20 * point[2]


def made(number: int = 9, *, flat: bool = False) -> dict[str, Any]:
    """search.json of so many trials."""
    told: list[Told] = []
    trials: list[Trial] = []
    while len(told) < number:
        (point,) = next_points(PLAN.axes, told, 1, 1, PLAN.base)
        value = 5000.0 if flat else figure(point)
        told.append(Told(point, value))
        breaks = ["utilisation:-1%"] if point == (0, 1, 1) else []
        trials.append(Trial(len(told), point, value, value / 2, second=90_000 - 3 * value, breaks=breaks))
    trials.append(Trial(number + 1, (2, 1, 0), None, 4000.0, is_early=True))
    content = content_of(Path("/nowhere/s"), PLAN, replace(PLAN.response, trials=trials), "time")
    found: dict[str, Any] = json.loads(json.dumps(content))
    return found


def folder_with(path: Path, content: dict[str, Any]) -> RunFolder:
    folder = path / "s"
    folder.mkdir()
    (folder / "search.json").write_text(json.dumps(content))
    (folder / "experiment.json").write_text(json.dumps({"inputs": {"TUNE": "bf_interval"}, "search": vars(PLAN)}))
    return RunFolder(folder)


def test_the_page_shows_the_answer_and_the_pictures(tmp_path: Path) -> None:
    content = made()
    proof = {"run": "s-proof-t02", "jobs": 190, "verdict": "better", "words": "12 % shorter mean wait", "valid": True}
    content["proof"] = {**proof, "limits": {"utilisation:-1%": "holds"}}
    ending = ending_of("s", content)
    assert ending.word == "ok" and "bf_interval=10 is the best of 10 trials, and better on 190 other jobs: 12 %" in ending.line
    text = page(folder_with(tmp_path, content), ending.message, True)
    outline = Outline.of(text)
    assert outline.tags.count("svg") >= 6
    told = " ".join(outline.texts).replace("\u00a0", " ")
    for words in ("Front of", "Importance of the settings", "12 % shorter mean wait", "utilisation:-1%: holds", "beyond a limit"):
        assert words in told, words
    assert "The first 66 jobs rank the trials as all jobs do with a rank correlation of 1.00" in told
    assert "t01-1/report.html" in outline.references and "ended after the first part" in told


def test_pictures_of_a_search_in_which_nothing_varies(tmp_path: Path) -> None:
    content = made(flat=True)
    assert content["flat"] and search_pictures.importance(content) is None
    ending = ending_of("s", content)
    text = page(folder_with(tmp_path, content), ending.message, True)
    assert "no setting matters here" in text and "The importance of the settings is not known" in text


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_page_of_few_trials(tmp_path: Path, number: int) -> None:
    content = made(number)
    Outline.of(page(folder_with(tmp_path, content), "x", False))


def test_text_of_others_is_no_html(tmp_path: Path) -> None:
    content = made()
    planted = "<img src=x onerror=alert(1)>"
    for trial in content["trials"]:
        trial["breaks"] = [planted]
        trial["changed"] = {planted: planted}
    content["settings"][0]["base"] = planted
    content["proof"] = {
        "run": planted,
        "jobs": 1,
        "verdict": "better",
        "words": planted,
        "valid": True,
        "limits": {planted: planted},
    }
    text = page(folder_with(tmp_path, content), planted, True)
    assert "<img" not in text
    Outline.of(text)


@pytest.mark.parametrize("name", list(made()))
def test_content_of_another_shape_is_damaged(tmp_path: Path, name: str) -> None:
    folder = folder_with(tmp_path, {**made(), name: {"x": []}})
    with pytest.raises(Damaged):
        _ = folder.search


ONE, *_ = SETTINGS = made()["settings"]


@pytest.mark.parametrize(
    "change",
    [
        {"goal": "x"},
        {"second": "x"},
        {"settings": []},
        {"trials": made()["trials"][1:]},
        {"settings": [*SETTINGS, {**ONE, "name": "y"}]},
        {"settings": [{**ONE, "by_value": [1.0]}]},
    ],
)
def test_content_that_names_what_there_is_not_is_damaged(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(Damaged):
        page(folder_with(tmp_path, {**made(), **change}), "x", True)


@pytest.mark.parametrize(
    "change",
    [{"names": ["x"]}, {"base": [9, 0, 0]}, {"base": [0]}, {"goal": "x"}, {"limits": "x"}, {"settings": "x=1"}, {"batch": 0}],
)
def test_a_plan_of_another_release_is_damaged(change: dict[str, Any]) -> None:
    assert SearchPlan.read(vars(PLAN), Path("experiment.json")) == PLAN
    with pytest.raises(Damaged, match=r"^experiment\.json: search is not the plan"):
        SearchPlan.read({**vars(PLAN), **change}, Path("experiment.json"))
    with pytest.raises(Damaged, match=r"^experiment\.json: search is missing"):
        SearchPlan.read({}, Path("experiment.json"))
