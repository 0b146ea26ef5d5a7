"""make workload-report: the page, its pictures and numbers, for logs that tell much, little, or lies."""

from __future__ import annotations

import gzip
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pages import Outline
from real_logs import KTH, real_log

from mirage.commands import workload_report as module
from mirage.experiment.endings import Ending
from mirage.knobs import resolve as knobs
from mirage.reports import workload_page, workload_pictures
from mirage.terminal.screen import Screen
from mirage.traces import swf
from mirage.traces.trace import Trace
from mirage.workloads.characterise import characterise
from mirage.workloads.log_rules import Log, judged
from mirage.workloads.workload_figures import FIGURES
from slurm_mirage.base.errors import WrongUse

PICTURES = {"sizes", "service", "hours", "weekdays", "times", "requests", "accuracy", "load", "users"}
LOG = """; Computer: Test <script>alert("1")</script>
; Note: a "quoted" <img src=x onerror=alert(2)> & more
;       http://example.org/
; UnixStartTime: 1000000000
; TimeZoneString: Europe/Stockholm
; MaxProcs: 8
1 0 5 600 1 -1 -1 1 900 -1 1 3 1 -1 2 -1 -1 -1
2 100 0 3600 4 -1 -1 4 3600 -1 1 3 1 -1 2 -1 -1 -1
3 90000 70 30 8 -1 -1 8 900 -1 1 4 1 -1 1 -1 -1 -1
4 200000 10 40000 2 -1 -1 2 86400 -1 0 5 1 -1 1 -1 -1 -1
4 200000 10 40000 2 -1 -1 2 86400 -1 3 5 1 -1 1 -1 -1 -1
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "lo<g>.swf.gz"
    path.write_bytes(gzip.compress(LOG.encode()))
    return path


def report(screen: io.StringIO | None = None, **given: object) -> Ending:
    texts = {name: str(value) for name, value in given.items()}
    values = knobs.resolve({**texts, knobs.GIVEN: " ".join(texts)})
    return module.workload_report(values, Screen(screen or io.StringIO()))


def test_everything_is_in_the_folder(log: Path, tmp_path: Path) -> None:
    said = io.StringIO()
    ending = report(said, TRACE=log, OUT=tmp_path / "out")
    assert ending.line == f"ok: 4 jobs of lo<g>: {tmp_path / 'out/report.html'}"
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {f"{name}.{kind}" for name in PICTURES for kind in ("svg", "png")} | {
        "report.html", "report.json", "characterisation.json",
    }  # fmt: skip
    for name in PICTURES:
        svg = ET.parse(tmp_path / f"out/{name}.svg").getroot()
        assert [child.tag.split("}")[1] for child in svg[:2]] == ["title", "desc"]
        assert all(child.text for child in svg[:2])
        assert (tmp_path / f"out/{name}.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads((tmp_path / "out/characterisation.json").read_text())
    assert data["name"] == "lo<g>"
    assert (data["left_out"], data["notes"]) == ({}, {"partial_executions": 1})
    assert set(data["figures"]) == set(FIGURES)
    assert data["tables"]["sizes"] == {"size": [1, 2, 4, 8], "jobs": [1, 1, 1, 1], "service": [600, 80000, 14400, 240]}
    assert "jobs on one processor" in said.getvalue() and "25.0 %" in said.getvalue()


def test_what_the_rules_find_is_printed_shown_and_kept(log: Path, tmp_path: Path) -> None:
    said = io.StringIO()
    log.write_bytes(gzip.compress(LOG.replace("MaxProcs: 8", "MaxProcs: 4\n; StartTime: Sat Sep 1 00:00:00 2001").encode()))
    report(said, TRACE=log, OUT=tmp_path / "out")
    found = {one["rule"]: one for one in json.loads((tmp_path / "out/characterisation.json").read_text())["findings"]}
    assert list(found) == ["too-wide", "header-contradicts", "low-load"]
    assert (found["too-wide"]["count"], found["too-wide"]["share"]) == (1, 0.25)
    lines = [line for line in said.getvalue().splitlines() if line.startswith(("error: ", "warning: ", "note: "))]
    assert [line.split(": ")[1] for line in lines] == list(found)
    assert lines[1].startswith(
        "warning: header-contradicts: the header does not describe these jobs: 2 labels, MaxProcs is 4, a job has "
        "8 processors; StartTime is 2001-09-01, UnixStartTime 2001-09-09; the machine, the weekday"
    )
    texts = Outline.of((tmp_path / "out/report.html").read_text()).texts
    assert {
        "Before it is played",
        "What the rules find",
        "error: too-wide",
        "jobs wider than the machine: 1 job (25.0\u00a0%)",
    } <= set(texts)


def test_what_the_log_says_is_shown_and_cannot_do_anything(log: Path, tmp_path: Path) -> None:
    report(TRACE=log, OUT=tmp_path / "out")
    text = (tmp_path / "out/report.html").read_text()
    outline = Outline.of(text)
    assert outline.references == []
    assert not {"script", "img", "link", "iframe", "object", "g>"} & set(outline.tags)
    assert outline.tags.count("svg") == len(PICTURES)
    assert 'Test <script>alert("1")</script>' in outline.texts
    assert 'a "quoted" <img src=x onerror=alert(2)> & more\nhttp://example.org/' in outline.texts
    assert "Workload lo<g>" in outline.texts
    assert "Europe/Stockholm" in text and "2001-09-09 03:46" in text
    assert len(text) < 500_000


def test_a_selection_is_reported_and_named(log: Path, tmp_path: Path) -> None:
    ending = report(TRACE=log, OUT=tmp_path / "out", USERS=3, MIN_RUNTIME=700)
    assert ending.message.startswith("1 job of")
    data = json.loads((tmp_path / "out/characterisation.json").read_text())
    assert data["figures"]["jobs"] == 1
    assert data["source"]["chosen"] == "MIN_RUNTIME=700 USERS=3"
    assert data["source"]["jobs in it"] == "4"


def test_a_report_is_made_anew_and_nothing_else_is(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report(TRACE=log, OUT=out)
    report(TRACE=log, OUT=out, JOBS=2)
    assert json.loads((out / "characterisation.json").read_text())["figures"]["jobs"] == 2
    (out / "mine.txt").write_text("mine")
    with pytest.raises(WrongUse, match=r"out: .*mine\.txt"):
        report(TRACE=log, OUT=out)
    assert json.loads((out / "characterisation.json").read_text())["figures"]["jobs"] == 2


def test_without_out_it_goes_to_results_by_name(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORKLOADS", tmp_path / "results/workloads")
    report(TRACE=log)
    report(MODEL="raijin", JOBS=50, SEED=3, NODES=10, CPUS=16)
    assert {path.name for path in (tmp_path / "results/workloads").iterdir()} == {"lo<g>", "raijin"}
    data = json.loads((tmp_path / "results/workloads/raijin/characterisation.json").read_text())
    assert (data["figures"]["jobs"], data["figures"]["processors"]) == (50, 160)
    assert data["source"] == {"generated by": "MODEL=raijin SEED=3", "machine": "160 processors (of the generated workload)"}


def test_wrong_input_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORKLOADS", tmp_path / "results/workloads")
    (tmp_path / "bad.swf").write_text("1 2 3\n")
    for wrong in ({"TRACE": tmp_path / "bad.swf"}, {"TRACE": tmp_path / "none.swf"}, {"MODEL": "none"}):
        with pytest.raises(WrongUse):
            report(**wrong)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.swf"]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a.swf", "a"),
        ("a.b.swf.gz", "a.b"),
        ("dump.log", "dump"),
        (".swf", "log"),
        (".gz", "log"),
        ("noend", "noend"),
        ("..swf", "log"),
    ],
)
def test_names(file: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a file's name makes another folder than one in results/workloads."""
    monkeypatch.setattr(module, "WORKLOADS", tmp_path / "out")
    (tmp_path / file).write_text("1 0 5 600 1 -1 -1 1 900 -1 1 3 1 -1 2 -1 -1 -1\n")
    monkeypatch.setattr(workload_pictures, "pictures", lambda _: {})
    report(TRACE=tmp_path / file)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    unknown = dict.fromkeys(swf.COLUMNS, -1) | {"status": 1}
    return pl.DataFrame([unknown | row for row in rows], schema=swf.SCHEMA, orient="row", strict=False)


@pytest.mark.parametrize(
    ("known", "drawn", "said"),
    [
        (
            {},
            set(),
            ["The log has no submission times from", "The log has no run times.", "The log does not name the users of the jobs."],
        ),
        ({"submit": 3}, {"hours"}, ["The log has no requested times.", "The log does not say how many processors the jobs had."]),
        ({"allocated_processors": 3}, {"sizes"}, ["There are no service units"]),
        ({"run_time": 9}, {"times"}, ["Use of the requested time is unknown"]),
        ({"requested_time": 9}, {"requests"}, ["The log has no run times."]),
        ({"user": 9}, {"users"}, ["Load over time is unknown: it needs sizes, run times"]),
    ],
)
def test_what_the_log_lacks_is_told_in_words(known: dict[str, int], drawn: set[str], said: list[str]) -> None:
    workload = characterise(frame([known, known]), 4)
    pictures = workload_pictures.pictures(workload)
    assert set(pictures) == drawn
    outline = Outline.of(workload_page.page("x", workload, pictures, {}, {}, {}))
    for sentence in said:
        assert [text for text in outline.texts if sentence in text], sentence


number = st.one_of(st.just(-1.0), st.just(0.0), st.integers(0, 10**6).map(float), st.sampled_from([0.5, 1e9, 2.0**53]))
a_job = st.fixed_dictionaries(
    dict.fromkeys(("submit", "wait", "run_time", "requested_time"), number)
    | {name: st.one_of(st.integers(-1, 100), st.just(2**40)) for name in ("allocated_processors", "requested_processors", "user")}
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(a_job, min_size=1, max_size=12))
def test_any_log_has_a_page(rows: list[dict[str, Any]]) -> None:
    workload = characterise(frame(rows), 64)
    pictures = workload_pictures.pictures(workload)
    for picture in pictures.values():
        ET.fromstring(picture.svg)
        assert "NaN" not in picture.svg and "Infinity" not in picture.svg
    findings = judged(Log(Trace(frame(rows), {}, {}, "swf", ""), frame(rows).sort("submit"), 64))
    outline = Outline.of(workload_page.page("x", workload, pictures, {}, {}, {}, findings))
    assert outline.tags.count("svg") == len(pictures)
    assert not any("nan" in text or "None" in text for text in outline.texts)
    json.dumps([workload.as_json(), *(finding.as_json() for finding in findings)], allow_nan=False)


def test_pictures_stay_small_however_many_sizes_there_are() -> None:
    workload = characterise(frame([{"allocated_processors": size, "run_time": 60} for size in range(1, 3000)]), 4096)
    assert len(workload_pictures.sizes(workload).svg) < 200_000
    page = workload_page.page("x", workload, {"sizes": workload_pictures.sizes(workload)}, {}, {}, {})
    assert "400 most common" in page


def test_kth_in_words(tmp_path: Path) -> None:
    report(TRACE=real_log(KTH), OUT=tmp_path / "kth")
    texts = Outline.of((tmp_path / "kth/report.html").read_text()).texts
    assert (
        "28,489 jobs for 100 processors, submitted within 340 d (1996-09-23 14:00 to 1997-08-29 10:34, Europe/Stockholm)." in texts
    )
    assert "Lars Malinowsky" in texts
    assert any("Most jobs are submitted from 14 to 15 h (9.2\u00a0%)" in text for text in texts)
