"""`make check`: what a page, comparison.json and metrics.json say is computed again from the records alone."""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Callable
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from run_folders import MadeFolder

from mirage.campaign import sweep_table
from mirage.campaign.conclusion import Member, conclude
from mirage.commands import check, compare, metrics
from mirage.commands import report as report_command
from mirage.experiment import report, runs
from mirage.experiment.endings import Ending
from mirage.knobs import resolve as knobs
from mirage.metrics import metrics as definitions
from mirage.records.run_folder import RunFolder
from mirage.records.schedule import read_schedule
from mirage.terminal.screen import Screen
from mirage.verdict.run_results import results as of_records
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_json

PROCESSORS, NODES = 64, 4
COMPUTED = ("jobs.csv", "suspensions.csv", "schedule.swf", "metrics.json")
FINISHED = {"ended": 40, "messages": {}, "released": 0}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    (tmp_path / "results").mkdir()
    return tmp_path / "results"


def a_run(folder: Path, seed: int, slower: float = 1.0, speed: float = 100.0) -> None:
    """A finished run of 40 jobs, all of it from its records; two jobs are suspended."""
    folder.mkdir(parents=True, exist_ok=True)
    chance, made = random.Random(seed), MadeFolder(folder, speed)
    for place in range(40):
        wait, length = slower * (place % 7) * 90 + chance.uniform(2, 9), 300.0 + 170 * (place % 5)
        job, start = made.job(due=200.0 * place, runtime=length, processors=1 + place % 9), 200.0 * place + wait
        if place in (4, 9):
            made.record(job, start + 3, start + 33 + length, (start + 50, start + 80))
            made.slurm(job, start, start + 36 + length)
            made.scontrol(job, "COMPLETED", start, start + 36 + length, suspend_time=start + 80, before=50)
        else:
            made.played(job, start)
    made.write()
    (folder / "samples.csv").write_text("real,virtual,nodes_not_responding,cpu_busy\n1.5,3,0,0.25\n")
    (folder / "result.json").write_text(json.dumps(FINISHED))
    inputs = {"NODES": "4", "CPUS": "16", "CLASSES": "", "SHRINK": "100", "SPEED": f"{speed:g}", "SEED": "5", "CONFIG": "fifo"}
    experiment = {"run": folder.name, "inputs": inputs, "trace": {"path": None}, "clock": {"speed": speed}}
    (folder / "experiment.json").write_text(json.dumps(experiment))
    for name, content in of_records(RunFolder(folder), PROCESSORS, NODES, 10.0, {}).files.items():
        (folder / name).write_bytes(content)
    Ending("ok", "40 jobs").store(folder)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two configurations, two runs of each, compared."""
    folder = tmp_path_factory.mktemp("campaign") / "c"
    members = [Member(label, replica, f"{label}-{replica}") for replica in (1, 2) for label in ("fifo", "backfill")]
    for place, one in enumerate(members):
        a_run(folder / one.folder, place, slower=1.0 if one.label == "fifo" else 0.3)
    described = {"inputs": {"CONFIGS": "fifo backfill", "SEED": "5"}, "comparison": [vars(one) for one in members]}
    (folder / "experiment.json").write_text(json.dumps(described))
    conclude(folder, members, Screen(io.StringIO()))
    return folder


@pytest.fixture
def campaign(results: Path, made_once: Path) -> Path:
    return Path(shutil.copytree(made_once, results / "c"))


def checked(name: str) -> tuple[Ending, str]:
    """`make check RUN=name`, and what it printed."""
    stream = io.StringIO()
    return check.check(knobs.resolve({"RUN": name}), Screen(stream)), stream.getvalue()


def test_all_files_of_a_campaign_are_what_its_records_say(campaign: Path) -> None:
    ending, said = checked("c")
    assert ending.line == "ok: 26 files of results/c are equal to what is computed from the records"
    assert said.count(": as computed") == 26
    assert {"c/comparison.json: as computed", "c/report.html: as computed", "c/fifo-2/metrics.json: as computed"} <= set(
        said.splitlines()
    )


def test_a_run_and_a_sweep(results: Path) -> None:
    for name in ("s-100", "s-50"):
        a_run(results / name, 1)
        report.write(results / name, Screen(io.StringIO()))
    assert checked("s-50")[0].line.startswith("ok: 6 files of results/s-50 ")
    (results / "s").mkdir()
    sweep_table.write(results / "s", [(Decimal(shrink), results / f"s-{shrink}", Ending("ok", "")) for shrink in (100, 50)])
    report.write(results / "s", Screen(io.StringIO()))
    assert checked("s")[0].line.startswith("ok: 14 files of results/s ")
    lines = (results / "s/sweep.csv").read_text()
    (results / "s/sweep.csv").write_text(lines.replace(",40,", ",41,", 1))
    assert "from the records: s/sweep.csv." in checked("s")[0].message


TARGETS: dict[str, Callable[[Any, Screen], Ending]] = {
    "check": check.check, "report": report_command.report, "metrics": metrics.metrics, "compare": compare.compare,
}  # fmt: skip


@pytest.mark.parametrize("member", ["not_played", "errors", "wait_causes", "censored", "validity.verdict", "validity.resolution"])
def test_a_run_of_another_release_is_refused_in_one_line(campaign: Path, member: str) -> None:
    content = read_json(campaign / "fifo-1/metrics.json")
    *place, name = member.split(".")
    del (content[place[0]] if place else content)[name]
    (campaign / "fifo-1/metrics.json").write_text(json.dumps(content))
    for name, target in TARGETS.items():
        run = "c" if name == "compare" else "c/fifo-1"
        with pytest.raises(WrongUse) as caught:
            target(knobs.resolve({"RUN": run}), Screen(io.StringIO()))
        assert str(caught.value) == f"{campaign / 'fifo-1/metrics.json'}: {member} is missing: it is not of this release", name


@pytest.mark.parametrize("member", ["method.margin", "method.compared", "validity.inconclusive", "answer", "jobs"])
def test_a_comparison_of_another_release_is_refused_in_one_line(campaign: Path, member: str) -> None:
    content = read_json(campaign / "comparison.json")
    *place, name = member.split(".")
    del (content[place[0]] if place else content)[name]
    (campaign / "comparison.json").write_text(json.dumps(content))
    for name in ("check", "report", "metrics"):
        with pytest.raises(WrongUse) as caught:
            TARGETS[name](knobs.resolve({"RUN": "c"}), Screen(io.StringIO()))
        assert str(caught.value) == f"{campaign / 'comparison.json'}: {member} is missing: it is not of this release", name


def number(content: dict[str, Any], *path: str) -> None:
    for name in path[:-1]:
        content = content[name]
    content[path[-1]] = 0.5


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("fifo-1/metrics.json", lambda c: number(c, "metrics", "wait_mean"), "metrics.wait_mean is 0.5, computed "),
        ("fifo-1/metrics.json", lambda c: number(c, "validity", "bounds", "interrupted"), "validity.bounds.interrupted is 0.5"),
        ("comparison.json", lambda c: number(c, "metrics", "W1", "pairs", 0, "percent"), "metrics.W1.pairs[0].percent is 0.5"),
    ],
)  # fmt: skip
def test_a_number_that_somebody_has_changed_is_found(
    campaign: Path, file: str, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    content = read_json(campaign / file)
    change(content)
    (campaign / file).write_text(json.dumps(content))
    ending, said = checked("c")
    assert ending.word == "failed" and f"c/{file}" in ending.message
    assert f"c/{file}: {words}" in said


def test_a_page_and_a_schedule_that_somebody_has_changed_are_found(campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = {"commit": "0" * 40, "changed": False}
    monkeypatch.setattr(runs, "git_version", lambda: version)
    write_json(campaign / "experiment.json", read_json(campaign / "experiment.json") | {"git": version})
    for name in ("report.html", "backfill-2/jobs.csv"):
        content = (campaign / name).read_text()
        (campaign / name).write_text(content.replace("7", "8", 1))
        ending, said = checked("c")
        assert f"c/{name}: differs from what is computed" in said and ending.word == "failed"
        (campaign / name).write_text(content)
    (campaign / "fifo-1/schedule.swf").unlink()
    assert "c/fifo-1/schedule.swf: is not there" in checked("c")[1]


def test_a_page_of_another_version_is_no_failure(campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "git_version", lambda: {"commit": "1" * 40, "changed": False})
    made = {"git": {"commit": "0" * 40, "changed": False}}
    write_json(campaign / "experiment.json", read_json(campaign / "experiment.json") | made)
    (campaign / "report.html").write_text("<p>older words</p>")
    ending, said = checked("c")
    assert "c/report.html: differs from what is computed" in said
    assert ending.line.startswith("ok: 25 of 26 files of results/c ") and "make report RUN=c" in ending.line
    path = campaign / "backfill-2/jobs.csv"
    path.write_text(path.read_text().replace("7", "8", 1))
    assert checked("c")[0].word == "failed"


def test_what_cannot_be_checked(results: Path) -> None:
    (results / "empty").mkdir()
    for name, words in (("empty", "empty is not a finished run"), ("away", "results/away is not there"), ("", "nothing is given")):
        with pytest.raises(WrongUse, match=f"^run: {words}"):
            checked(name)


# ---- the single commands that the page names ----


class Tables(HTMLParser):
    """The tables of a page by their captions, as lists of rows of texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] = []
        self._where = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
        if tag in ("caption", "td", "th"):
            self._where = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self.found.setdefault(self._caption, []).extend(self._rows)
        if tag == self._where:
            self._where = ""

    def handle_data(self, data: str) -> None:
        text = data.replace("\u00a0", " ")
        if self._where == "caption":
            self._caption += text.strip()
        elif self._where:
            self._rows[-1][-1] += text.strip()


def test_the_comparison_in_the_page_is_that_of_the_runs_own_files(campaign: Path) -> None:
    """From jobs.csv and suspensions.csv alone; intervals by the documented command, after comparison.json is gone."""
    printed = Tables((campaign / "report.html").read_text()).found["backfill against fifo: means over the runs, 95 % intervals"]
    known: dict[str, dict[str, float]] = {}
    for label in ("fifo", "backfill"):
        values = []
        for replica in (1, 2):
            schedule = read_schedule(campaign / f"{label}-{replica}/jobs.csv")
            below, pauses = schedule.immediate_below, schedule.suspensions
            measured = definitions.compute(schedule.jobs, PROCESSORS, NODES, suspensions=pauses, immediate_below=below)
            values.append(measured["metrics"])
        known[label] = {name: mean(one[name] for one in values) for name in definitions.METRICS}
    before = (campaign / "comparison.json").read_bytes()
    (campaign / "comparison.json").unlink()
    assert compare.compare(knobs.resolve({"RUN": "c"}), Screen(io.StringIO())).is_final
    assert (campaign / "comparison.json").read_bytes() == before
    content = json.loads(before)["metrics"]
    rows = {row[0]: row[1:] for row in printed if len(row) == 10}
    for name, shown in (
        ("wait_mean", "mean wait"),
        ("bounded_slowdown_mean", "mean bounded slowdown"),
        ("utilisation", "utilisation"),
        ("immediate_fraction", "share of jobs that started at once"),
    ):
        base, other, difference, *answers = rows[shown]
        pair = content[name]["pairs"][0]
        assert (pair["baseline_mean"], pair["mean"]) == pytest.approx((known["fifo"][name], known["backfill"][name]), rel=1e-9)
        by = 100 * (known["backfill"][name] / known["fifo"][name] - 1)
        assert read(difference) == pytest.approx(by, abs=0.51 if abs(by) >= 99.5 else 0.051)
        for label, text in (("fifo", base), ("backfill", other)):
            assert read(text) == pytest.approx(known[label][name] * unit(text), abs=0.051 if text.endswith("%") else 0.51)
        for question, interval, p in (("these_jobs", *answers[:2]), ("other_jobs", *answers[3:5])):
            found = pair[question]
            if found["percent_interval"] is None:
                assert interval == "-"
            else:
                low, high = (read(end) for end in interval.removesuffix(" %").split(" to "))
                assert (low, high) == pytest.approx(tuple(found["percent_interval"]), abs=0.51)
            assert p == "-" if found["p_corrected"] is None else read(p) == pytest.approx(found["p_corrected"], rel=0.06)


def test_suspensions_and_the_two_records_of_them(campaign: Path) -> None:
    text = (campaign / "report.html").read_text()
    tables = Tables(text).found
    often = tables["Jobs of all runs, by how often each was suspended"]
    assert often[1:] == [[label, "76", "4", "0", "0", "0", "0"] for label in ("fifo", "backfill")]
    validity = read_json(campaign / "fifo-1/metrics.json")["validity"]
    assert (validity["suspended_compared"], validity["disagreements_by_kind"]) == (2, {})
    assert 0 <= validity["suspended_apart_max"] <= 1
    told = "For 4 suspended jobs both sigsleep and Slurm recorded the time suspended: they agree; "
    plain = text.replace("\u00a0", " ").replace("&#39;", "'")
    assert f"fifo: {told}" in plain and f"backfill: {told}" in plain
    assert told.replace("4", "2") in (campaign / "fifo-1/report.html").read_text().replace("\u00a0", " ").replace("&#39;", "'")


def read(text: str) -> float:
    return float(text.replace(",", "").split()[0])


def unit(text: str) -> float:
    """By what a metric is multiplied to be told in the unit of this text."""
    return 100.0 if text.endswith("%") else 1 / 60 if text.endswith("min") else 1.0


def test_make_metrics_finds_the_metrics_of_a_run_to_the_last_digit(results: Path, tmp_path: Path) -> None:
    a_run(results / "r", 3)
    found = {}
    for name in ("jobs.csv", "schedule.swf"):
        values = knobs.resolve({"TRACE": str(results / "r" / name), "OUT": str(tmp_path / "m.json")})
        metrics.metrics(values, Screen(io.StringIO()))
        found[name] = read_json(tmp_path / "m.json")
    kept = read_json(results / "r/metrics.json")
    # Without the delays a schedule has no error of the emulation, and it does not say why jobs waited.
    of_records = ("validity", "errors", "error_reasons", "wait_causes", "not_played")
    for row in kept["classes"]:
        assert set(row.pop("errors")) == {"wait_mean", "bounded_slowdown_mean"}
    same, computed = ({name: value for name, value in one.items() if name not in of_records} for one in (kept, found["jobs.csv"]))
    assert computed == same
    of_others, again = ({name: error["other_jobs"] for name, error in one["errors"].items()} for one in (kept, found["jobs.csv"]))
    assert again == of_others and set(of_others) == set(kept["metrics"])
    assert kept["settings"]["immediate_below"] == 60
    # SWF has no suspensions, and not how many nodes a job had.
    for name in ("wait_mean", "wait_p99", "wait_max", "W1", "W2", "immediate_fraction"):
        assert found["schedule.swf"]["metrics"][name] == pytest.approx(kept["metrics"][name], rel=1e-4), name
