"""`make why`: the story of one job."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path

import line_values
import pytest
from hypothesis import given

from mirage.commands import why
from mirage.experiment import configuration, runs, wait_trials
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


def test_a_run_of_a_comparison(run: Path) -> None:
    whole = run.parent / "cmp"
    whole.mkdir()
    run.rename(whole / "fifo-1")
    ending, said = call(RUN="cmp/fifo-1", JOB="2")
    assert ending.word == "ok" and "after 5 min" in " ".join(said.split())
    (whole / "comparison.json").write_text("{}")
    (whole / "experiment.json").write_text(json.dumps({"comparison": [{"label": "fifo", "replica": 1, "folder": "fifo-1"}]}))
    with pytest.raises(WrongUse, match=r"results/cmp is a comparison; it may be one of its runs: cmp/fifo-1"):
        call(RUN="cmp")


def test_a_job_that_did_not_wait() -> None:
    ending, said = call(RUN="a", JOB="1")
    assert (ending.word, said) == ("ok", "") and "did not wait" in ending.message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"RUN": "a"}, "results/a has no metrics.json"),
        ({"RUN": "a", "JOB": "3"}, "has no job 3"),
        ({"RUN": "b", "JOB": "1"}, "is not there"),
        ({"RUN": "a", "JOB": "x"}, "x"),
    ],
)
def test_wrong_use(given: dict[str, str], message: str) -> None:
    with pytest.raises(WrongUse, match=message):
        call(**given)


def test_a_run_of_another_release(run: Path) -> None:
    (run / "metrics.json").write_text("{}")
    with pytest.raises(WrongUse, match=r"metrics\.json: wait_causes is missing: it is not of this release$"):
        call(RUN="a")
    (run / "waits.csv").unlink()
    with pytest.raises(WrongUse, match=r"has no waits\.csv"):
        call(RUN="a", JOB="2")


CAUSES = {"backfill": 0.5, "QOS limit": 0.25, "priority": 0.25}


def with_settings(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **given: str) -> None:
    """A run whose waits point to settings, and a checkout with its configuration."""
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "own.yml").write_text("settings: {SchedulerParameters: {bf_interval: 60, bf_max_job_user: 3}}\n")
    monkeypatch.setattr(wait_trials, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    spans = [
        "2,5.0,1205.0,backfill,bf_max_job_user", "2,1205.0,2005.0,QOS limit,max jobs per-user for QOS normal",
        "2,2005.0,7505.0,priority,",
    ]  # fmt: skip
    (run / "waits.csv").write_text("\n".join(["job,from,to,cause,reason", *spans]) + "\n")
    groups = {name: [] for name in ("by_size", "by_runtime", "by_user", "by_partition")}
    longest = [{"job": 2, "waited": 7500.0, "processors": 4, "user": "1", "partition": "batch", "causes": {"priority": 5500.0}}]
    member = {"jobs": 1, "users": 1, "reasons_recorded": True, "waited": 7500.0, "unexplained": 0.0, "causes": CAUSES, **groups}
    (run / "metrics.json").write_text(json.dumps({"wait_causes": {**member, "longest": longest}}))
    chosen = knobs.resolve({"CONFIG": "slurm-defaults", "TRACE": "my log.swf", "JOBS": "20", **given}, "experiment")
    (run / "experiment.json").write_text(json.dumps({"inputs": chosen.inputs(), "knobs": {**chosen.given(), "CONFIG": "own"}}))


def test_the_settings_to_which_a_run_points(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my log.swf").write_text("1 0 0 1 1 -1 -1 1 1 -1 1 1 1 1 1 -1 -1 -1\n")
    monkeypatch.chdir(tmp_path)
    with_settings(run, tmp_path, monkeypatch)
    ending, said = call(RUN="a")
    lines = said.splitlines()
    assert lines[0].split(":")[0].split() == ["50.0", "%", "backfill"]
    commands = [line.strip() for line in lines if "make compare" in line]
    assert 'CONFIGS="own why-bf_max_job_user"' in commands[0] and "JOBS=20" in commands[0] and "TRACE=" in commands[0]
    assert 'CONFIG=own EVENTS="none results/a/why-qos-normal-MaxJobsPerUser.csv"' in commands[1]
    changed = configuration.read(tmp_path / "configs/why-bf_max_job_user.yml")
    assert changed.settings["SchedulerParameters"] == {"bf_interval": 60, "bf_max_job_user": 0}
    assert (run / "why-qos-normal-MaxJobsPerUser.csv").read_text().splitlines()[1] == "0,set,qos normal,MaxJobsPerUser=-1"
    assert "20 min of the waits of 1 job (1.33 processor hours)" in said
    assert ending.message == "1 job waited 2 h 5 min, 0.0 % of it unexplained; 2 settings to try"


def test_events_of_the_run_stay(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my log.swf").write_text("1 0 0 1 1 -1 -1 1 1 -1 1 1 1 1 1 -1 -1 -1\n")
    (tmp_path / "own.csv").write_text("instant,action,target,argument\n")
    rows = [
        "0,3600,drain,n[1-2],a reason,own.csv:2",
        "1,7200,set,qos normal,MaxJobsPerUser=1,own.csv:3",
        "2,9000,down,n3,,FAILURES",
    ]
    (run / "events.csv").write_text("\n".join(["number,instant,action,target,argument,source", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    with_settings(run, tmp_path, monkeypatch, EVENTS="own.csv")
    _, said = call(RUN="a")
    assert 'results/a/why-qos-normal-MaxJobsPerUser.csv"' in said
    lines = (run / "why-qos-normal-MaxJobsPerUser.csv").read_text().splitlines()[1:]
    assert lines == ["3600,drain,n[1-2],a reason", "0,set,qos normal,MaxJobsPerUser=-1"]


def test_a_file_that_cannot_be_written_is_named(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_settings(run, tmp_path, monkeypatch)
    changed = tmp_path / "configs/why-bf_max_job_user.yml"
    changed.mkdir()
    ending, said = call(RUN="a")
    assert ending.word == "ok"
    assert f"  {changed} cannot be written: Is a directory" in said.splitlines()


def test_a_run_names_no_file_outside_of_configs(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_settings(run, tmp_path, monkeypatch)
    content = json.loads((run / "experiment.json").read_text())
    (run / "experiment.json").write_text(json.dumps({**content, "knobs": {**content["knobs"], "CONFIG": "../own"}}))
    (tmp_path / "own.yml").write_text("settings: {}\n")
    with pytest.raises(WrongUse, match="CONFIG of knobs is no name of a configuration"):
        call(RUN="a")


def test_the_name_of_a_setting_to_try_is_no_path(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_settings(run, tmp_path, monkeypatch)
    waits = (run / "waits.csv").read_text()
    (run / "waits.csv").write_text(waits.replace("QOS normal", "QOS ../../../x"))
    call(RUN="a")
    assert [path.name for path in tmp_path.rglob("why-*.csv")] == ["why-qos-.._.._.._x-MaxJobsPerUser.csv"]


@given(line_values.values)
def test_a_value_in_the_printed_command_is_one_word_of_a_shell(value: str) -> None:
    word = wait_trials._word(value)
    assert shlex.split(word) == [value]
    assert word[:1] != '"' or re.fullmatch(r'"[\w.,:/=+@% -]+"', word, re.ASCII)
