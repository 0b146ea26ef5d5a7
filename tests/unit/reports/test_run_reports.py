"""Tests of report.html of runs, sweeps and comparisons: its content, its behaviour in a browser, and its reproducibility."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import simulated_runs
from made_runs import a_comparison, a_log, a_run, a_sweep
from pages import Outline

from mirage.commands import report as report_command
from mirage.experiment import report, runs
from mirage.experiment.endings import Ending
from mirage.knobs import resolve as knobs
from mirage.records.run_folder import RunFolder
from mirage.records.shapes import METRICS_JSON
from mirage.reports import node_picture, page, timeline
from mirage.reports.run_data import Run
from mirage.reports.timeline import Steps
from mirage.terminal.screen import Screen
from mirage.verdict.features import unused_rows
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json
from slurm_mirage.base.strict_json import Damaged

EVIL = '<script>alert("1")</script> & <img src=x onerror=alert(2)>'


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    (tmp_path / "results").mkdir()
    return tmp_path / "results"


def make_report(name: str) -> tuple[Ending, str]:
    """Runs `make report RUN=name`; returns its ending and the page."""
    values = knobs.resolve({"RUN": name, knobs.GIVEN: "RUN"})
    ending = report_command.report(values, Screen(io.StringIO()))
    return ending, (runs.RESULTS / name / "report.html").read_text()


def check_self_contained(text: str) -> None:
    """Checks that a page is well formed, loads nothing, and has only the script that its policy names."""
    outline = Outline.of(text)
    outside = [address for address in outline.references if not address.startswith(("data:image/png;base64,", "../"))]
    assert all(re.fullmatch(r"[\w-]+/report\.html", address) for address in outside), outside
    script, digest = page.script()
    assert text.count("<script") == 1 and f"<script>{script}</script>" in text and f"script-src '{digest}'" in text
    assert "default-src 'none'" in text and "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


# ---- a run ----


def test_the_page_of_a_run(results: Path) -> None:
    metrics = a_run(results / "r")
    ending, text = make_report("r")
    assert ending.line == "ok: 60 jobs of r, results/r/report.html"
    check_self_contained(text)
    texts = " ".join(Outline.of(text).texts)
    assert "60 generated jobs on an emulated machine of 16 nodes with 64 processors" in texts
    assert "This run is valid" in texts
    assert f"{100 * metrics['metrics']['utilisation']:.1f}" in texts
    assert "2 suspensions of 1 job" in texts
    assert "Comparison with the log" not in texts, "the jobs are generated"
    assert "make metrics TRACE=results/r/jobs.csv" in texts
    inputs = read_json(results / "r/experiment.json")["inputs"]
    unused = {name for name, value in inputs.items() if not value} | unused_rows(metrics, {"inputs": inputs})
    assert {"MALLEABLE", "FILLER"} <= unused < {*inputs, *unused}
    for name, value in inputs.items():
        assert (f">{name}</th>" in text) == (name not in unused)
        assert name in unused or value in texts
    assert make_report("r")[1] == text


def test_the_page_of_a_run_with_events(results: Path) -> None:
    metrics = a_run(results / "r")
    hour = {"begin": 3600.0, "end": 7200.0}
    happened = {"number": 0, "instant": 3600.0, "played": 3600.0, "source": "a.csv:1", "outcome": "done", "words": ""}
    caused = {"jobs": 2, "executions": 2, "processor_hours": 15.34}
    metrics["events"] = {
        "counts": {"done": 1, "refused": 1},
        "lost": {"failure of a node": {"executions": 2, "processor_hours": 15.34}},
        "halted_by_events": 0.0,
        "absences": [{"number": 0, "action": "fail", "nodes": "n[1-2,4]", **hour}],
        "reservations": [],
        "events": [
            {**happened, **caused, "action": "fail", "target": "n[1-2,4]"},
            {**happened, **caused, "number": 1, "action": "resume", "target": "n3", "outcome": "refused", "words": EVIL},
        ],
    }
    metrics["metrics"] |= {"absent_fraction": 0.125, "utilisation_available": 0.5}
    (results / "r/metrics.json").write_text(json.dumps(metrics))
    _, text = make_report("r")
    check_self_contained(text)
    assert text.count('<g class="event"><title>fail n[1-2,4]') == 2, "n1 and n2 are one rectangle, n4 is another one"
    texts = " ".join(" ".join(Outline.of(text).texts).split())
    assert "2 events: 1 done, 1 refused. 12.5 % of the machine's processor time was out of service" in texts
    assert "utilisation of what was in service" in texts


def test_the_stretch_of_classes_is_shown_with_what_of_it_is_judged(results: Path) -> None:
    a_run(results / "r")
    _, text = make_report("r")
    rows = re.sub(r"<[^>]+>", " ", text[text.index("Run-time stretch by class of jobs") :])
    assert "2-4 all 30 -2.0 % 1.0 % 30.0 % its median" in " ".join(rows.split())


def test_an_inconclusive_run_says_so_first(results: Path) -> None:
    a_run(results / "r")
    metrics = json.loads((results / "r/metrics.json").read_text())
    metrics["validity"] |= {"verdict": "inconclusive", "valid": False, "reasons": ["too coarse: take SPEED=2"]}
    metrics["validity"]["inconclusive_metrics"] = {"immediate_fraction": "why it is too coarse"}
    (results / "r/metrics.json").write_text(json.dumps(metrics))
    _, text = make_report("r")
    assert text.index("This run is inconclusive") < text.index("too coarse: take SPEED=2") < text.index("<h2")
    assert "immediate_fraction is inconclusive: why it is too coarse." in text


def test_an_invalid_run_says_so_first(results: Path) -> None:
    a_run(results / "r", invalid=("longest backfill cycle is 121 s", EVIL))
    _, text = make_report("r")
    check_self_contained(text)
    assert text.index("This run is not valid") < text.index("<h2")
    assert "longest backfill cycle is 121 s" in text and "<img src=x" not in text


def test_requests_that_are_not_played_make_the_comparison_with_the_log_inconclusive(results: Path, tmp_path: Path) -> None:
    metrics = a_run(results / "r", trace=a_log(tmp_path / "log.swf.gz", simulated_runs.jobs_of(60, 16, 4), 600))
    asked = {"gres": {"jobs": 16, "share": 0.41}, "any": {"jobs": 16, "share": 0.41}}
    metrics["not_played"] = asked
    near = {"nearness": simulated_runs.nearness(results / "r", simulated_runs.jobs_of(60, 16, 4), metrics)}
    (results / "r/metrics.json").write_text(json.dumps(metrics | near))
    texts = " ".join(" ".join(Outline.of(make_report("r")[1]).texts).split())
    first = texts.index("This comparison is inconclusive: jobs with 41 % of the processor time")
    second = texts.index("In the log these jobs waited")
    assert first < second
    assert "Requests that are not emulated" in texts and "GPUs or other GRES 16 41" in texts

    metrics["not_played"] = {}
    near = {"nearness": simulated_runs.nearness(results / "r", simulated_runs.jobs_of(60, 16, 4), metrics)}
    (results / "r/metrics.json").write_text(json.dumps(metrics | near))
    texts = " ".join(" ".join(Outline.of(make_report("r")[1]).texts).split())
    assert "inconclusive" not in texts and "All requests of the jobs that the log records were emulated." in texts


def test_nothing_from_outside_is_taken_as_html(results: Path) -> None:
    a_run(results / "r", CONFIG=EVIL, USERS=EVIL, trace={"path": None, "generated": EVIL, "sha256": EVIL})
    frame = pl.read_csv(results / "r/jobs.csv", infer_schema=False).with_columns(partition=pl.lit(EVIL))
    frame.write_csv(results / "r/jobs.csv")
    _, text = make_report("r")
    check_self_contained(text)
    assert "<img src=x" not in text


def test_the_log_is_not_needed_for_the_report(results: Path, tmp_path: Path) -> None:
    """experiment.json may be a stranger's: the path in it is not read."""
    jobs = simulated_runs.jobs_of(60, 16, 4)
    source = a_log(tmp_path / "log.swf.gz", jobs, 600)
    a_run(results / "r", trace=source)
    (tmp_path / "log.swf.gz").write_text("secret")
    _, text = make_report("r")
    check_self_contained(text)
    assert "In the log these jobs waited 10" in text and "log, the same jobs" in text
    (results / "r/recorded.csv").unlink()
    text = make_report("r")[1]
    assert "The log does not record how long these jobs waited." in text and "secret" not in text


def test_how_near_a_run_comes_to_the_log(results: Path, tmp_path: Path) -> None:
    jobs = simulated_runs.jobs_of(60, 16, 4)
    metrics = a_run(results / "r", trace=a_log(tmp_path / "log.swf.gz", jobs, 600))
    asked = {"gres": {"jobs": 1, "share": 0.01}, "any": {"jobs": 1, "share": 0.01}}
    number = pl.col("id")
    jobs.select(
        "id",
        "submit",
        preset=pl.lit(""),
        user=number % 3,
        partition_name=pl.when(number < 30).then(pl.lit("short")).otherwise(pl.lit(EVIL)),
        request=pl.when(number < 10).then(pl.lit("gpus=1")),
    ).write_csv(results / "r/workload.csv")
    metrics["not_played"] = asked
    near = simulated_runs.nearness(results / "r", jobs, metrics)
    assert near is not None and near["waits"]["wait_mean"]["record"] == 600
    metrics["nearness"] = near
    (results / "r/metrics.json").write_text(json.dumps(metrics))
    experiment = read_json(results / "r/experiment.json")
    site = {"taken": {"accounts": 12}, "approximated": {EVIL: 1}, "absent": {"AllowGroups": 3}}
    (results / "r/experiment.json").write_text(json.dumps(experiment | {"site": site}))
    _, text = make_report("r")
    check_self_contained(text)
    assert "<img src=x" not in text and 'id="waits-over-time-title"' in text
    texts = " ".join(" ".join(Outline.of(text).texts).replace("\u00a0", " ").split())
    for words in (
        "60 jobs, emulation beside log",
        "mean wait by processor time, 3 users",
        "partition short 29",
        "with GPUs 9",
        "processor time of jobs whose requests are all emulated 99.0 %",
        "rank correlation of the waits -",
        "as at the site accounts 12",
        "not emulated AllowGroups 3",
    ):
        assert words in texts, words
    assert METRICS_JSON.fault(read_json(results / "r/metrics.json"), "") == ""
    (results / "r/metrics.json").write_text(json.dumps(metrics | {"nearness": {**near, "waits": {}}}))
    with pytest.raises(Damaged, match=r"nearness\.waits\.jobs is missing"):
        make_report("r")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"SUBMISSION": "period=10"}, "submitted at other times than in the log (SUBMISSION)"),
        ({"waits": -1}, "The log does not record how long these jobs waited"),
    ],
)
def test_why_there_is_no_comparison_with_the_log(results: Path, tmp_path: Path, change: dict[str, Any], words: str) -> None:
    source = a_log(tmp_path / "log.swf.gz", simulated_runs.jobs_of(60, 16, 4), change.pop("waits", 600))
    a_run(results / "r", trace=source, **change)
    assert words in make_report("r")[1]


def test_samples_of_slurmctld_and_the_host_are_in_trace_time(results: Path) -> None:
    a_run(results / "r", SHRINK="50")
    path = results / "r/experiment.json"
    described = read_json(path)
    # In a run of a sweep the knobs have all factors.
    described["knobs"] = described["knobs"] | {"SHRINK": "100,50"}
    path.write_text(json.dumps(described))
    run = Run.of(RunFolder(results / "r"))
    first = float(run.schedule.jobs["submit"].min() or 0.0)  # type: ignore[arg-type]
    assert run.timed(run.folder.diagnostics)["time"].to_list() == pytest.approx([first + 7200 * k for k in range(10)])
    assert run.timed(RunFolder(results / "nothing").diagnostics).is_empty()
    _, text = make_report("r")
    assert "all times of the log shrunk to 50" in text
    for name in ("cycle", "depth", "host"):
        assert f'id="time-{name}"' in text


def test_fair_share_factors_of_the_accounts_of_most_usage(results: Path) -> None:
    a_run(results / "r")
    assert 'id="time-shares"' not in make_report("r")[1]
    instants = RunFolder(results / "r").diagnostics["virtual"].to_list()
    accounts = {f"lab{number}": number / 100 for number in range(1, 9)} | {"idle": 0.0}
    rows = [f"{instant},{name},0.125,{usage},0.5" for instant in instants for name, usage in accounts.items()]
    (results / "r/shares.csv").write_text("\n".join(["virtual,account,share,usage,factor", *rows]) + "\n")
    _, text = make_report("r")
    assert 'id="time-shares"' in text and "of the 6 accounts of most usage, in 10 samples" in text
    assert "all usage at the last one: lab8 12.5 % and 8.0 %; lab7" in text.replace("\u00a0", " ")
    assert 'data-name="lab3"' in text and 'data-name="lab2"' not in text and 'data-name="idle"' not in text


def test_a_run_without_started_jobs(results: Path) -> None:
    jobs = simulated_runs.jobs_of(5, 4, 4).with_columns(
        start=pl.lit(None, pl.Float64), end=pl.lit(None, pl.Float64), state=pl.lit("LOST")
    )
    simulated_runs.write(results / "r", jobs, 4, 4, invalid=("5 jobs are lost",))
    _, text = make_report("r")
    check_self_contained(text)
    assert "so that nothing can be drawn over time" in text


def test_folders_without_a_finished_run_are_refused(results: Path) -> None:
    with pytest.raises(WrongUse, match="run: nothing is given"):
        report_command.report(knobs.resolve({}), Screen(io.StringIO()))
    with pytest.raises(WrongUse, match="run: results/gone is not there"):
        make_report("gone")
    (results / "empty").mkdir()
    with pytest.raises(WrongUse, match="run: empty is not a finished run"):
        make_report("empty")
    output = io.StringIO()
    report.write(results / "empty", Screen(output))
    assert "report.html could not be made: RUN: empty is not a finished run" in output.getvalue()


def test_a_finished_run_is_shown_with_its_page(results: Path) -> None:
    a_run(results / "r")
    for _ in range(2):
        output = io.StringIO()
        report.show(results / "r", Screen(output))
        assert output.getvalue() == f"report: {results / 'r/report.html'}\n"
        (results / "r/metrics.json").unlink(missing_ok=True)


def test_the_page_of_many_jobs_is_small(results: Path) -> None:
    jobs = simulated_runs.jobs_of(20_000, 3600, 16)
    simulated_runs.write(results / "r", jobs, 3600, 16)
    # Scattered nodes for each job, as Slurm would record them.
    generator = np.random.default_rng(1)
    lines = []
    for number, nodes in jobs.select("id", "nodes").iter_rows():
        numbers = ",".join(str(node) for node in sorted(generator.choice(3600, min(nodes, 40), replace=False) + 1))
        lines.append(f"JobId={number} Name=r.{number} JobState=COMPLETED NodeList=n[{numbers}] NodeCnt={nodes} \n")
    (results / "r/jobcomp.log").write_text("".join(lines))
    _, text = make_report("r")
    check_self_contained(text)
    assert len(text) < 2_500_000
    assert "data:image/png;base64," in text and "on the nodes that Slurm allocated" in text


def test_few_jobs_are_drawn_as_rectangles(results: Path) -> None:
    a_run(results / "r")
    run = Run.of(RunFolder(results / "r"))
    assert run.window is not None
    panel = node_picture.panel(run, timeline.Timeline(run.window.begin, run.window.end))
    assert panel is not None
    ran = run.schedule.jobs.filter(pl.col("end") > pl.col("start"))
    assert sorted(map(int, re.findall(r'data-job="(\d+)"', panel.body))) == ran["id"].sort().to_list()
    assert re.search(r"<title>job 3, .*, suspended .*</title>", panel.body)


# ---- lines ----


def test_jobs_that_change_their_size_are_drawn_so(results: Path) -> None:
    jobs = simulated_runs.jobs_of(60, 16, 4)
    start, end, size = jobs.filter(pl.col("id") == 5).select("start", "end", "processors").row(0)
    simulated_runs.write(results / "r", jobs, 16, 4)
    _, before = make_report("r")
    middle, other = (start + end) / 2, size + 3
    (results / "r/allocations.csv").write_text(f"job,from,nodes,processors\n5,{middle},,{other}\n")
    _, after = make_report("r")
    assert "Jobs changed their sizes while they ran" in after and "Jobs changed their sizes" not in before
    assert f"job 5, {size} processor{'s' * (size > 1)}, then {other}, waited" in after
    assert f"job 5, {size} processor{'s' * (size > 1)}, waited" in before
    run = Run.of(RunFolder(results / "r"))
    held = run.levels()[0]
    area = float((np.diff(held.times) * held.values).sum())
    assert area == pytest.approx(float(((jobs["end"] - jobs["start"]) * jobs["processors"]).sum()) + 3 * (end - middle))


def test_series_with_many_changes_are_drawn_as_means() -> None:
    times = np.arange(10_001, dtype=np.float64)
    values = np.tile([0.0, 10.0], 5000)
    drawn = Steps("x", times, values).reduced()
    assert drawn.values.size == timeline.STRETCHES and drawn.mean_over == pytest.approx(5)
    assert drawn.mean(0, 10_000) == pytest.approx(5)
    assert Steps("x", times[:11], values[:10]).reduced().mean_over is None


@pytest.mark.parametrize(("largest", "wanted"), [(100, [0, 25, 50, 75, 100]), (0.3, [0, 0.1, 0.2, 0.3]), (7, [0, 2, 4, 6])])
def test_ticks_are_round_numbers(largest: float, wanted: list[float]) -> None:
    assert timeline.y_ticks(largest) == pytest.approx(wanted)


def test_moments_are_not_rounded() -> None:
    assert [timeline.moment(second) for second in (0, 90, 3600, 86400 + 6 * 3600, 59.6)] == [
        "0",
        "1 min 30 s",
        "1 h",
        "1 d 6 h",
        "1 min",
    ]


# ---- comparison, sweep ----


def test_the_page_of_a_comparison(results: Path) -> None:
    a_comparison(results / "c")
    text = (results / "c/report.html").read_text()
    check_self_contained(text)
    content = read_json(results / "c/comparison.json")
    assert f"backfill against fifo: {content['metrics']['wait_mean']['pairs'][0]['words']}".replace(" %", "\u00a0%") in text
    assert "1 of 4 runs are not valid" in text and "fifo-2: noise" in text
    for name in ("fifo-1", "fifo-2", "backfill-1", "backfill-2"):
        assert f'href="{name}/report.html"' in text
        check_self_contained((results / "c" / name / "report.html").read_text())
    ending, again = make_report("c")
    assert ending.line == "ok: comparison of fifo, backfill, results/c/report.html"
    assert again == text


def test_the_page_of_a_sweep(results: Path) -> None:
    a_sweep(results / "s")
    a_run(results / "s-50")
    ending, text = make_report("s")
    assert (results / "s-50/report.html").exists() and not (results / "s-100").exists()
    assert ending.line == "ok: sweep s, results/s/report.html"
    check_self_contained(text)
    assert "1 of 4 runs are not valid: s-10. 1 of 4 runs are inconclusive: s-20." in text
    assert "(inconclusive)" in text and "(not valid)" not in text, "the invalid run has no values"
    assert 'href="../s-50/report.html"' in text


def test_a_stranger_s_sweep_or_comparison_names_no_folder_elsewhere(results: Path, tmp_path: Path) -> None:
    a_sweep(results / "s")
    a_run(tmp_path / "other")
    text = (results / "s/sweep.csv").read_text()
    (results / "s/sweep.csv").write_text(text.replace("s-50", "../other"))
    with pytest.raises(WrongUse, match=r"sweep\.csv line 3: run may be a name without /, not '\.\./other'"):
        make_report("s")
    described = {"comparison": [{"label": "a", "replica": 1, "folder": "../../other"}]}
    (results / "s/experiment.json").write_text(json.dumps(described))
    with pytest.raises(Damaged, match=r"comparison\[0\]\.folder may be a name without /"):
        _ = RunFolder(results / "s").experiment
    a_comparison(results / "c")
    content = read_json(results / "c/comparison.json") | {"configurations": [{"label": "a", "runs": ["../../other"]}]}
    (results / "s/comparison.json").write_text(json.dumps(content))
    with pytest.raises(Damaged, match=r"configurations\[0\]\.runs\[0\] may be a name without /"):
        make_report("s")
