"""Figures and page of the study of malleable jobs, from folders of simulated runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import simulated_runs
from browser import check_page
from hypothesis import given
from hypothesis import strategies as st
from malleable_simulation import Played, simulate
from playwright.sync_api import Browser

from mirage.metrics.jobs_frame import JOBS_SCHEMA
from mirage.records.run_folder import RunFolder
from mirage.workloads import models
from mirage_extras.malleable.records import RESIZES_FILE, RESIZES_SCHEMA
from mirage_extras.malleable.rules import words_of
from mirage_extras.malleable.studies import measured, source
from mirage_extras.malleable.studies.measured import APPLICATIONS, SLEEP, Figure, StudyRun, as_csv, figures
from mirage_extras.malleable.studies.page import page
from slurm_mirage.base.files import read_json, write_json
from slurm_mirage.extras.malleable.words import Malleable

NODES = 64
RIGID = Malleable.parse("1:64:2:- check=1000000")


def folder_of(folder: Path, arm: str, seed: int) -> Played:
    """A run's folder with 30 simulated jobs of the model dmr, as the collection of a run leaves it."""
    log = models.generate("dmr", 30, seed, NODES)
    sizes, runs, submit = (log[name].to_list() for name in ("allocated_processors", "run_time", "submit"))
    words = [RIGID if arm == source.FIXED else Malleable.parse(words_of("dmr", size, NODES)) for size in sizes]
    played = simulate(submit, sizes, runs, words, NODES)
    known = {
        "id": log["job_number"],
        "submit": submit,
        "eligible": submit,
        "start": played.starts,
        "end": played.ends,
        "suspended": np.zeros(len(sizes)),
        "processors": sizes,
        "nodes": sizes,
        "runtime": runs,
        "state": ["COMPLETED"] * len(sizes),
    }
    jobs = pl.DataFrame({**dict.fromkeys(JOBS_SCHEMA), **known}).select(pl.col(n).cast(kind) for n, kind in JOBS_SCHEMA.items())
    changes = [(job + 1, at, nodes, nodes) for job, at, nodes in played.changes]
    schema = {"job": pl.Int64, "from": pl.Float64, "nodes": pl.Int64, "processors": pl.Int64}
    simulated_runs.write(
        folder, jobs, NODES, 1, allocations=pl.DataFrame(changes, schema=schema, orient="row") if changes else None
    )
    log.select("executable", id="job_number").write_csv(folder / "workload.csv")
    return played


def with_resizes(folder: Path, rows: Sequence[tuple[str, float, float, float | None, str]]) -> None:
    """resizes.csv with rows kind, asked, decided, done, outcome, and a mean of 0.5 s of checks without an action."""
    known = pl.DataFrame(rows, schema=["kind", "asked", "decided", "done", "outcome"], orient="row")
    table = known.select(
        (pl.col(name) if name in known.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in RESIZES_SCHEMA.items()
    )
    table.write_csv(folder / RESIZES_FILE)
    content = read_json(folder / "metrics.json")
    write_json(folder / "metrics.json", {**content, "resizes": {"none": {"count": 3, "mean": 0.5, "max": 0.7}}})


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[StudyRun], dict[tuple[str, int], Played]]:
    base, runs, played = tmp_path_factory.mktemp("results"), [], {}
    for arm in (source.FIXED, source.PREFERRED):
        for replica in (1, 2):
            folder = base / f"{arm}-{replica}"
            played[arm, replica] = folder_of(folder, arm, replica)
            runs.append(StudyRun(APPLICATIONS, 50, arm, replica, RunFolder(folder)))
    for mode in (source.FIXED, source.SYNC, source.ASYNC):
        folder = base / f"sleep-{mode}"
        folder_of(folder, source.FIXED if mode == source.FIXED else source.PREFERRED, 1)
        runs.append(StudyRun(SLEEP, 30, mode, 1, RunFolder(folder)))
        if mode != source.FIXED:
            rows = [("expand", 2.0, 2.1, 4.0, "done"), ("expand", 5.0, 5.1, 15.0, "aborted")]
            with_resizes(folder, [*rows, ("shrink", 6.0, 6.1, 6.5, "done"), ("shrink", 7.0, 7.1, None, "lost")])
    return runs, played


def test_table_4_has_means_and_intervals_of_the_replicas(study: tuple[list[StudyRun], dict[tuple[str, int], Played]]) -> None:
    runs, played = study
    found = {(one.table, one.row, one.column): one for one in figures(runs)}
    for arm in (source.FIXED, source.PREFERRED):
        both = [played[arm, replica] for replica in (1, 2)]
        for column, values in (
            ("wait, s", [one.wait for one in both]),
            ("execution, s", [one.execution for one in both]),
            ("utilisation, %", [one.utilisation for one in both]),
            ("completion, s", [one.wait + one.execution for one in both]),
        ):
            figure = found["table 4", f"50 jobs, {arm}", column]
            assert figure.values == pytest.approx(values)
            # Student's t with one degree of freedom.
            assert figure.half == pytest.approx(12.7062 * abs(values[0] - values[1]) / 2, rel=1e-4)
    assert found["table 4", "50 jobs, fixed", "wait, s"].source == 4115.02


def test_table_2_counts_and_times_the_actions(study: tuple[list[StudyRun], dict[tuple[str, int], Played]]) -> None:
    found = {(one.row, one.column): one.mean for one in figures(study[0]) if one.table == "table 2"}
    assert found["no action, sync", "mean time, s"] == pytest.approx(0.5)
    # An aborted action took its time, too; one that was lost has none.
    assert found["expand, async", "number per job"] == pytest.approx(2 / 30)
    assert (found["expand, sync", "mean time, s"], found["expand, sync", "longest, s"]) == (6, 10)
    assert found["shrink, async", "number per job"] == pytest.approx(1 / 30)
    assert found["shrink, async", "mean time, s"] == pytest.approx(0.5)


def test_table_3_has_gains_against_the_fixed_jobs(study: tuple[list[StudyRun], dict[tuple[str, int], Played]]) -> None:
    runs = study[0]
    values = {run.arm: run.values() for run in runs if run.workload == SLEEP}
    found = {(one.row, one.column): one.mean for one in figures(runs) if one.table == "table 3"}
    before, after = (values[arm]["wait, s"] for arm in (source.FIXED, source.SYNC))
    assert before is not None and after is not None
    assert found[source.SYNC, "gain in wait, %"] == pytest.approx(100 * (before - after) / before)
    assert (source.FIXED, "gain in wait, %") not in found


def test_each_difference_has_a_reason_or_is_unexplained() -> None:
    row = ("table 4", "100 jobs, fixed", "wait, s")
    assert Figure(*row, (9750.34 * 1.1,)).remark == "within 15 %"
    assert Figure(*row, (9750.34 * 1.3,)).remark == "unexplained"
    assert Figure(*row, (9750.34 * 0.8, 9750.34 * 1.7)).remark == "within the interval of the replicas"
    assert "another draw" in Figure("table 4", "50 jobs, preferred", "wait, s", (1359.92 * 1.3,)).remark
    assert "contradicts itself" in Figure("table 4", "200 jobs, preferred", "completion, s", (7676.67,)).remark
    assert "same utilisation" in Figure("table 4", "400 jobs, fixed", "utilisation, %", (10.0,)).remark
    assert "broker" in Figure("table 2", "expand, sync", "mean time, s", (9.0,)).remark
    assert Figure("table 4", "50 jobs, wide", "wait, s", (1.0,)).remark == "the source has no such figure"


def test_the_sources_rows_that_contradict_themselves() -> None:
    sums = {
        row: source.FIGURES["table 4", row, "wait, s"] + source.FIGURES["table 4", row, "execution, s"]
        for table, row, column in source.FIGURES
        if table == "table 4" and column == "completion, s"
    }
    wrong = {row for row, sum_ in sums.items() if abs(sum_ - source.FIGURES["table 4", row, "completion, s"]) > 0.015}
    assert wrong == {row for _, row, column in source.CONTRADICTIONS if column == "completion, s"} == {"200 jobs, preferred"}


def test_the_page_and_the_table_have_all_figures(study: tuple[list[StudyRun], dict[tuple[str, int], Played]]) -> None:
    runs = study[0]
    found = figures(runs)
    resizes = [{"kind": "expand", "from": 1, "to": 2, "mean": 0.1, "low": 0.09, "high": 0.11}]
    text = page("study-malleable", runs, found, ["study-malleable-applications-50"], resizes)
    for words in ("Table 2", "Table 3", "Table 4", "Figure 4", "4,115", "1 to 2: 0.10 s", "N-body", "Allocated nodes over time"):
        assert words in text
    assert "All 7 runs are valid." in text
    table = pl.read_csv(as_csv(found).encode())
    assert table.height == len(found)
    assert set(table["table"]) == {"table 2", "table 3", "table 4", "figure 4"}


def test_its_pictures_are_seen(
    study: tuple[list[StudyRun], dict[tuple[str, int], Played]], browser: Browser, tmp_path: Path
) -> None:
    resizes = [{"kind": "expand", "from": 1, "to": 2, "mean": 0.1, "low": 0.09, "high": 0.11}]
    path = tmp_path / "study.html"
    path.write_text(page("study-malleable", study[0], figures(study[0]), ["study-malleable-applications-50"], resizes))
    over_time = [f"{what}-over-time" for what in ("nodes", "running", "ended")]
    by_application = ["execution-by-application", "wait-by-application", "differences"]
    check_page(browser, path, ["makespan", "wait", *over_time, *by_application, "resize-times"])


@given(st.lists(st.tuples(st.sampled_from(["expand", "shrink"]), st.floats(0, 100), st.floats(0, 100)), max_size=20))
def test_durations_are_from_the_question_to_the_end(rows: list[tuple[str, float, float]]) -> None:
    schema = {"kind": pl.String, "asked": pl.Float64, "decided": pl.Float64, "done": pl.Float64, "outcome": pl.String}
    content = [(kind, at, at, at + took, "done") for kind, at, took in rows]
    table = pl.DataFrame(content, schema=schema, orient="row")
    for kind in ("expand", "shrink"):
        assert measured.durations(table, kind) == pytest.approx([took for one, _, took in rows if one == kind], abs=1e-9)
