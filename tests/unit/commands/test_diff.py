"""`make diff`: where two runs part."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from mirage.commands import diff
from mirage.experiment import runs
from mirage.experiment.endings import Ending
from mirage.knobs import resolve as knobs
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse

HEADING = "id,submit,eligible,start,end,suspended,processors,nodes,requested,runtime,priority,partition,state,submit_lag,preset"
JOBS = ((1, 0.0, 1.0, 101.0, 4), (2, 5.0, 101.5, 121.5, 8), (3, 6.0, 101.5, 401.5, 2), (4, 7.0, None, 300.0, 8))


def write(folder: Path, late: dict[int, float] | None = None, seed: str = "1", version: str = "22.05.8", last: int = 4) -> None:
    """A run of four jobs, of which some start late by so many seconds."""
    folder.mkdir(parents=True)
    rows = [HEADING]
    for number, submit, start, end, processors in JOBS[:last]:
        by = (late or {}).get(number, 0.0)
        at = "" if start is None else start + by
        state = "CANCELLED" if start is None else "COMPLETED"
        rows.append(f"{number},{submit},{submit},{at},{end + by},0.0,{processors},1,600.0,10.0,default,batch,{state},0.0,")
    (folder / "jobs.csv").write_text("\n".join(rows) + "\n")
    inputs = {"SEED": seed, "CLUSTER": folder.name, "NODES": "4", "CPUS": "4"}
    (folder / "experiment.json").write_text(json.dumps({"inputs": inputs, "knobs": inputs, "slurm": {"version": version}}))


def call(names: str) -> tuple[Ending, str]:
    stream = io.StringIO()
    return diff.diff(knobs.resolve({"RUNS": names}, "diff"), Screen(stream)), stream.getvalue()


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    write(tmp_path / "results/a")
    return tmp_path / "results"


def test_equal_runs(results: Path) -> None:
    write(results / "cmp/fifo-1")
    ending, said = call("a cmp/fifo-1")
    assert (ending.word, said) == ("ok", "")
    assert ending.message == "equal: all 4 jobs of a and cmp/fifo-1 start and end at the same instants"


def test_the_first_decision_that_differs(results: Path) -> None:
    write(results / "b", {3: 100.0}, seed="2", version="25.11.0")
    ending, said = call("a b")
    assert ending.word == "failed"
    assert ending.message == "1 of 4 jobs differ, 1 of them by more than a minute; mean wait 64.3333 s in a, 97.6667 s in b"
    assert said.splitlines() == [
        "SEED: 1, 2",
        "slurm version: 22.05.8, 25.11.0",
        "the first job that differs, at 101.500000: 3, 2 processors",
        "  a: starts at 101.500000, ends at 401.500000; 3 jobs waiting, 0 running, 16 of 16 processors free",
        "    waiting: 2 (8 processors for 10 min), 3 (2 processors for 10 min), 4 (8 processors for 10 min)",
        "    starts: 2, 3",
        "  b: starts at 201.500000, ends at 501.500000; 3 jobs waiting, 0 running, 16 of 16 processors free",
        "    waiting: 2 (8 processors for 10 min), 3 (2 processors for 10 min), 4 (8 processors for 10 min)",
        "    starts: 2",
        "nearness: mean difference of waits -33.3333 s, rank correlation 0.5000, 66.7 % of the jobs within a minute",
    ]


def test_a_small_difference_is_not_the_first_decision(results: Path) -> None:
    """A start that is late by less than a minute may come from timers; the first one that is late by more is named too."""
    write(results / "b", {1: 0.25, 3: 100.0})
    ending, said = call("a b")
    assert ending.message.startswith("2 of 4 jobs differ, 1 of them by more than a minute")
    firsts = [line for line in said.splitlines() if line.startswith("the first")]
    assert firsts == [
        "the first job that differs, at 1.000000: 1, 4 processors",
        "the first start that differs by more than a minute, at 101.500000: 3, 2 processors",
    ]


def test_a_job_of_which_only_the_end_differs_is_put_at_its_end(results: Path) -> None:
    """Job 1 starts at the same instant and ends 5 s later, at 101 instead of 106; job 2 is late before that."""
    write(results / "b")
    path = results / "b/jobs.csv"
    path.write_text(path.read_text().replace("1,0.0,0.0,1.0,101.0,", "1,0.0,0.0,1.0,106.0,"))
    assert "the first job that differs, at 101.000000: 1, 4 processors" in call("a b")[1]
    path.write_text(path.read_text().replace("2,5.0,5.0,101.5,121.5,", "2,5.0,5.0,90.0,110.0,"))
    assert "the first job that differs, at 90.000000: 2, 8 processors" in call("a b")[1]


def test_a_job_with_other_nodes_differs(results: Path) -> None:
    write(results / "b")
    line = "JobId=1 Name={}.1 JobState=COMPLETED NodeList={} NodeCnt=1 \n"
    (results / "a/jobcomp.log").write_text(line.format("a", "n1"))
    (results / "b/jobcomp.log").write_text(line.format("b", "n1"))
    assert call("a b")[0].word == "ok"
    (results / "b/jobcomp.log").write_text(line.format("b", "n2"))
    ending, said = call("a b")
    assert "the first job that differs, at 1.000000: 1, 4 processors" in said
    assert "a: starts at 1.000000, ends at 101.000000 on n1;" in said and "ends at 101.000000 on n2;" in said
    assert ending.message.startswith("0 of 4 jobs differ, 0 of them by more than a minute, 1 more have other nodes only; ")


def test_a_job_that_one_run_never_starts_differs_by_more_than_a_minute(results: Path) -> None:
    write(results / "b", last=4)
    jobs = results / "b/jobs.csv"
    jobs.write_text(jobs.read_text().replace("3,6.0,6.0,101.5,", "3,6.0,6.0,,"))
    ending, said = call("a b")
    assert ending.message.startswith("1 of 4 jobs differ, 1 of them by more than a minute")
    assert "  b: never starts, ends at 401.500000" in said


def test_the_nearness_of_a_rerun(results: Path) -> None:
    """Jobs that never started are left out."""
    for name, late in (("c", 0), ("d", 7)):
        (results / name).mkdir()
        starts = {n: 60 * n + n % 13 + late * (37 * n % 101 <= 50) for n in range(1, 101)}
        rows = [f"{n},{60 * n},,{start},{60 * n + 90},0,1,1,,,,,COMPLETED,," for n, start in starts.items()]
        (results / name / "jobs.csv").write_text("\n".join([HEADING, *rows, "101,9000,,,9060,0,1,1,,,,,CANCELLED,,"]) + "\n")
        (results / name / "experiment.json").write_text(json.dumps({"inputs": {"NODES": "4", "CPUS": "4"}}))
    _, said = call("d c")
    line = said.splitlines()[-1]
    words = r"nearness: mean difference of waits 3.5 s, rank correlation 0\.\d{4}, 100\.0 % of the jobs within a minute"
    assert re.fullmatch(words, line), line


def test_other_workloads(results: Path) -> None:
    write(results / "b", last=3)
    ending, _ = call("a b")
    assert (ending.word, ending.message) == ("failed", "1 job of a and b are in one of them only: other workloads")


@pytest.mark.parametrize(
    ("names", "reason"),
    [("", "RUNS='a b'"), ("a nosuch", "results/nosuch is not there"), ("a empty", "no finished run"), ("a cmp/x", "not there")],
)
def test_bad_input(results: Path, names: str, reason: str) -> None:
    (results / "empty").mkdir()
    with pytest.raises(WrongUse, match=reason):
        call(names)


@pytest.mark.parametrize("names", ["a", "a b c", "a ../b", "a b/c/d"])
def test_names_that_are_none(names: str) -> None:
    with pytest.raises(WrongUse):
        call(names)
