"""Tests of a prediction: its courses, and what it says of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from mirage.campaign import prediction, prediction_results
from mirage.campaign.lanes import RunsLeft
from mirage.commands.predict import predict
from mirage.experiment import preflight, runs
from mirage.experiment.courses import Courses
from mirage.experiment.endings import Ending
from mirage.experiment.lane import Lane
from mirage.experiment.order import Order
from mirage.experiment.prepare import Prepared
from mirage.knobs import resolve
from mirage.records.file_names import EXPERIMENT_FILE, PREDICTION_FILE, STARTS_FILE
from mirage.records.run_folder import RunFolder
from mirage.reports import prediction_page
from mirage.reports.prediction_page import page, remarks, text_of
from mirage.site import archive
from mirage.terminal.screen import Screen
from mirage.workloads import example_site
from mirage.workloads.continuation import HELD, HOUR, TOO_LARGE, WEEK
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json


def _in_turn(
    submits: Sequence[float], _sizes: Sequence[int], _runs: Sequence[float], _limits: Sequence[float], _machine: int
) -> Sequence[float]:
    """Each job starts two hours after it could."""
    return [submit + 7200 for submit in submits]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "now.tar"
    example_site.write(path, 24, 200, 1, _in_turn)
    return path


def courses(site: Path, **given: str) -> Courses:
    return Courses.of(resolve.resolve({"SITE": str(site), "SPEED": "event", **given}, "predict"))


def test_courses_are_of_the_sites_configuration_and_differ_by_number_and_seed(site: Path) -> None:
    made = courses(site)
    assert made.knobs.scheduler.config == "site-now"
    assert HOUR <= made.horizon <= WEEK
    first, again, second = (made.source_of(number).trace for number in (1, 1, 2))
    assert first.frame.equals(again.frame) and first.sha256 == again.sha256
    assert not first.frame.equals(second.frame) and first.sha256 != second.sha256
    assert not courses(site, SEED="2").source_of(1).trace.frame.equals(first.frame)


def test_a_run_has_all_running_and_waiting_jobs(site: Path) -> None:
    made = courses(site)
    prepared = made.prepared(1, made.source_of(1).trace)
    presets = prepared.workload.jobs.filter(pl.col("preset") != "")
    assert presets.height == made.queue.running.height + made.queue.waiting.height
    assert set(made.queue.waiting["job_number"]) < set(presets["id"])
    assert prepared.recorded is None


def test_knobs_that_predict_does_not_use_change_nothing(site: Path) -> None:
    plain = courses(site)
    given = {"JOBS": "5", "FROM": "0", "PRESET": "none", "SETTINGS": "bf_interval=77", "SUBMISSION": "period=900 size=2"}
    other = courses(site, **given, SHRINK="50", OVERRUN="kill", MIN_RUNTIME="100000")
    assert other.knobs.inputs() == plain.knobs.inputs() and other.horizon == plain.horizon
    assert other.prepared(1, other.source_of(1).trace).dues == plain.prepared(1, plain.source_of(1).trace).dues


def test_one_job_is_named_as_squeue_has_it(site: Path) -> None:
    made = courses(site)
    name = made.queue.waiting["name"][0]
    assert name in made.wanted(int(name.partition("_")[0]))
    assert list(made.wanted(None)) == made.queue.waiting["name"].to_list()
    with pytest.raises(WrongUse, match=r"does not wait in the archive; it may be one of \d+, [\d, ]+(\.\.\.)?$"):
        made.wanted(999_999)


def test_jobs_that_are_not_predicted_are_named_with_the_reason(site: Path, tmp_path: Path) -> None:
    """The first waiting job asks for more than the machine has; the next one is held."""
    taken = archive.open_archive(site)
    heading, *rows = [line.split("\t") for line in taken.lines("now/squeue.txt")]
    wide, held = [row for row in rows if row[3] == "PENDING" and row[2] == ""][:2]
    held[heading.index("Priority")] = "0"
    columns, *jobs = [line.split("\t") for line in taken.lines("sacct/all.txt")]
    [job] = [row for row in jobs if row[columns.index("JobIDRaw")] == wide[0]]
    job[columns.index("ReqCPUS")] = "99999"
    job[columns.index("ReqTRES")] = job[columns.index("SubmitLine")] = ""
    changed = {"now/squeue.txt": [heading, *rows], "sacct/all.txt": [columns, *jobs]}
    parts = {name: taken.data(name).decode() for name in taken.parts}
    parts |= {name: "".join("\t".join(row) + "\n" for row in table) for name, table in changed.items()}
    archive.write(tmp_path / "a.tar", parts, begin=taken.begin, end=taken.end, release=taken.release)
    made = courses(tmp_path / "a.tar")
    assert made.queue.missing == {wide[0]: TOO_LARGE, held[0]: HELD}
    assert sorted(made.left()) == sorted(f"not predicted: 1 {reason}" for reason in (TOO_LARGE, HELD))
    for name, reason in made.queue.missing.items():
        assert name not in made.queue.waiting["name"]
        with pytest.raises(WrongUse, match=f"{name} is not predicted: {reason}"):
            made.wanted(int(name))


@pytest.mark.parametrize(
    ("given", "words"),
    [({}, "nothing is given; it may be an archive of mirage-capture --now"), ({"SITE": "week"}, "has not the queue")],
)
def test_without_a_queue_nothing_is_predicted(tmp_path: Path, given: dict[str, str], words: str) -> None:
    if given:
        example_site.write(tmp_path / "week.tar", 24, 50, 1)
        given = {"SITE": str(tmp_path / "week.tar")}
    with pytest.raises(WrongUse, match=words) as refused:
        predict(resolve.resolve({"SPEED": "event", **given}, "predict"), Screen())
    assert refused.value.parameter == "site"


def played(made: Courses, folder: Path, count: int) -> list[Path]:
    """Folders of courses, in which the waiting job at place p starts 100 (p + 1) k seconds from now; the last one in none."""
    folders = [folder.with_name(f"{folder.name}-{number}") for number in range(1, count + 1)]
    for number, run in enumerate(folders, 1):
        run.mkdir(parents=True)
        waits = 100.0 * number * np.arange(1, made.queue.waiting.height + 1)
        starts = [*(made.queue.instant + waits[:-1]), None, *[made.queue.instant + 1.0] * made.queue.running.height]
        numbers = [*made.queue.waiting["job_number"], *made.queue.running["job_number"]]
        pl.DataFrame({"id": numbers, "start": starts}).write_csv(run / "jobs.csv")
        # The second one starts a minute from now, and is preempted.
        early = pl.DataFrame({"job": [numbers[1]], "start": [made.queue.instant + 60.0], "end": [made.queue.instant + 90.0]})
        early.write_csv(run / "executions.csv")
        Ending("ok" if number > 1 else "inconclusive", "").store(run)
    folder.mkdir()
    return folders


def test_the_answer_is_that_of_the_courses(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = courses(site)
    folder = tmp_path / "now"
    folders = played(made, folder, 5)
    content = prediction_results.write(folder, made, folders)
    assert content == RunFolder(folder).prediction
    first, last = content["jobs"][0], content["jobs"][-1]
    assert first["start_50"] == pytest.approx(300, abs=1) and first["courses"] == [100, 200, 300, 400, 500]
    assert first["from_90"] < first["from_50"] < first["start_50"] < first["to_50"] < first["start_90"] < first["to_90"]
    assert content["jobs"][1]["courses"] == [60] * 5
    assert last["start_50"] is None and last["courses"] == [None] * 5
    assert content["not_placed"] == 0
    lines = (folder / STARTS_FILE).read_text().splitlines()
    assert (
        lines[0].startswith("job,processors,requested,promised,start_50,start_90,from_50")
        and len(lines) == len(content["jobs"]) + 1
    )
    prediction_results.show(content, [first["job"]], Screen())
    shown = capsys.readouterr().out
    assert first["job"] in shown and text_of(first["start_50"]) in shown and "later than" in " ".join(shown.split())
    assert prediction_results.ending_of(folder, folders, 1).word == "inconclusive"
    assert (folder / PREDICTION_FILE).is_file()


def test_its_page_has_each_job_and_course(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = courses(site)
    content = prediction_results.write(tmp_path / "now", made, played(made, tmp_path / "now", 3))
    write_json(tmp_path / "now" / EXPERIMENT_FILE, {"run": "now", "inputs": {"SEED": "1"}, "knobs": {}})
    Ending("ok", "").store(tmp_path / "now")
    text = page(tmp_path / "now")
    for job in content["jobs"]:
        assert f">{job['job']}<" in text
    assert "../now-3/report.html" in text and "<svg" in text
    monkeypatch.setattr(prediction_page, "LISTED", 1)
    short = page(tmp_path / "now")
    assert f"starts.csv has all {len(content['jobs'])} in seconds" in short and f">{content['jobs'][1]['job']}</th>" not in short
    assert f">{content['jobs'][1]['job']}</th>" in text


def test_few_courses_say_so(site: Path, tmp_path: Path) -> None:
    made = courses(site)
    for count, words in ((1, ["1 course: too few"]), (3, ["3 courses: too few"]), (4, [])):
        content = prediction_results.write(tmp_path / f"n{count}", made, played(made, tmp_path / f"n{count}", count))
        assert [line.partition(" for")[0] for line in remarks(content) if "too few" in line] == words


class NoUse:
    def when_free(self, action: Callable[[], Any]) -> Any:
        return action()


@pytest.fixture
def planned(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], prediction.Prediction]:
    """Makes the prediction p of two courses; no cluster is needed to play them."""
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    monkeypatch.setattr(prediction, "InstanceUse", lambda *_: nullcontext(NoUse()))
    for name in ("privileges", "running", "nothing_disturbed", "has_room", "no_leftover", "before_2038"):
        monkeypatch.setattr(preflight, name, lambda *_: None)
    monkeypatch.setattr(prediction.report, "write", lambda *_: None)
    monkeypatch.setattr(prediction.Prediction, "_announce", lambda *_: None)

    def play(order: Order, prepared: Prepared, folder: Path, *_: Any) -> Ending:
        with pytest.raises(WrongUse, match="another make works on"), runs.only_one(tmp_path / "p"):
            pass
        folder.mkdir()
        jobs = prepared.workload.jobs.select("id", start="submit")
        jobs.write_csv(folder / "jobs.csv")
        write_json(folder / EXPERIMENT_FILE, {"inputs": order.inputs((prepared.shrink,))})
        (ending := Ending("ok", "")).store(folder)
        return ending

    def run(left: RunsLeft[Any], *_: Any) -> bool:
        lane = Lane("c", left.knobs.cluster, left.use, Screen(), "c", "")
        return all(left.play(one, lane) for one in left.left)

    monkeypatch.setattr(prediction, "execute", play)
    monkeypatch.setattr(RunsLeft, "run", run)
    return lambda: prediction.Prediction.of(courses(site, RUN="p", REPLICAS="2"))


def test_a_prediction_goes_on_after_a_kill_before_its_first_file(
    planned: Callable[[], prediction.Prediction], tmp_path: Path
) -> None:
    (tmp_path / "p").mkdir()
    assert planned().run(Screen()).word == "ok"
    assert RunFolder(tmp_path / "p").experiment["inputs"]["REPLICAS"] == "2"
    assert planned().run(Screen()).word == "ok"


def test_a_course_whose_folder_was_removed_is_played_again(
    planned: Callable[[], prediction.Prediction], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned().run(Screen()).word == "ok"
    shutil.rmtree(tmp_path / "p-2")
    kept = (tmp_path / "p-1/jobs.csv").stat().st_mtime_ns
    capsys.readouterr()
    assert planned().run(Screen()).word == "ok"
    assert (tmp_path / "p-2/jobs.csv").is_file() and (tmp_path / "p-1/jobs.csv").stat().st_mtime_ns == kept
    assert "is finished" not in capsys.readouterr().out


_GIVEN: tuple[dict[str, str], ...] = ({}, {"JOB": "7"}, {"SEED": "2"})


def test_the_runs_are_beside_the_prediction(site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    made = prediction.Prediction.of(courses(site, RUN="x", REPLICAS="3"))
    assert [run.folder.name for run in made.runs] == ["x-1", "x-2", "x-3"]
    inputs: list[Any] = [run.order.inputs(made.order.knobs.jobs.shrinks) for run in made.runs]
    assert len({one["TRACE"] for one in inputs}) == 3
    assert made.inputs["REPLICAS"] == "3"
    of_all, of_one, other = (prediction.Prediction.of(courses(site, REPLICAS="1", **given)).folder.name for given in _GIVEN)
    assert of_all == of_one != other and of_all.startswith("predict-")
