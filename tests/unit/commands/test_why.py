"""`make why`: the story of one job."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mirage.commands import why
from mirage.experiment import runs
from mirage.experiment.endings import Ending
from mirage.knobs import resolve as knobs
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse

HEADING = "id,submit,eligible,start,end,suspended,processors,nodes,requested,runtime,priority,partition,state,submit_lag,preset"


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    folder = tmp_path / "results/a"
    folder.mkdir(parents=True)
    rows = [
        f"{job},5.0,5.0,{start},9000.0,0.0,4,1,600.0,10.0,default,batch,COMPLETED,0.0," for job, start in ((1, 5.0), (2, 7505.0))
    ]
    (folder / "jobs.csv").write_text("\n".join([HEADING, *rows]) + "\n")
    spans = ['2,5.0,305.0,priority,""', "2,305.0,7205.0,QOS limit,QOSGrpNodeLimit", '2,7205.0,7505.0,resources,""']
    (folder / "waits.csv").write_text("\n".join(["job,from,to,cause,reason", *spans]) + "\n")
    return folder


def call(**given: str) -> tuple[Ending, str]:
    stream = io.StringIO()
    return why.why(knobs.resolve(given, "why"), Screen(stream)), stream.getvalue()


def test_the_story_of_a_job() -> None:
    ending, said = call(RUN="a", JOB="2")
    assert [" ".join(line.split()) for line in said.splitlines()] == [
        "after 0 s for 5 min other jobs were before it",
        "after 5 min for 1 h 55 min a limit of its QOS (QOSGrpNodeLimit)",
        "after 2 h for 5 min not enough processors or nodes were free",
    ]
    assert ending.word == "ok"
    assert ending.message == (
        "Job 2 (4 processors, partition batch) waited 2 h 5 min. 1 h 55 min: a limit of its QOS; 5 min: other jobs were before it; "
        "5 min: not enough processors or nodes were free"
    )


def test_a_job_that_did_not_wait() -> None:
    ending, said = call(RUN="a", JOB="1")
    assert (ending.word, said) == ("ok", "") and "did not wait" in ending.message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"RUN": "a"}, "may be the number of a job"),
        ({"RUN": "a", "JOB": "3"}, "has no job 3"),
        ({"RUN": "b", "JOB": "1"}, "is not there"),
        ({"RUN": "a", "JOB": "x"}, "x"),
    ],
)
def test_wrong_use(given: dict[str, str], message: str) -> None:
    with pytest.raises(WrongUse, match=message):
        call(**given)


def test_a_run_of_an_earlier_release(run: Path) -> None:
    (run / "waits.csv").unlink()
    with pytest.raises(WrongUse, match=r"has no waits\.csv"):
        call(RUN="a", JOB="2")
