"""The program behind make: wrong uses, finished runs, and the targets that need no cluster.

It runs in a copy of the project, so that what it writes can be seen. Most commands are run one after the other by the same process,
because a start takes much longer than a command.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from copies import left_out
from real_logs import KTH, real_log

from mirage.knobs import resolve as knobs
from mirage.knobs.table import BY_NAME
from slurm_mirage.base.files import write_json
from slurm_mirage.jobs import sigsleep_log

ROOT = Path(__file__).parents[3]
# Two jobs: submit 0 and 10, wait 0 and 5, run 30, 1 and 4 processors.
SWF = """; MaxProcs: 8
1 0 0 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1
2 10 5 30 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the program needs, with two traces."""
    project = tmp_path_factory.mktemp("project")
    for folder in ("mirage", "module_utils", "configs", "inventories"):
        shutil.copytree(ROOT / folder, project / folder, ignore=left_out)
    (project / "two.swf").write_text(SWF)
    (project / "a b'$HOME.swf").write_text(SWF)
    (project / "empty.swf").write_text("")
    (project / "six.swf").write_text("1 0 0 30 6 -1 -1 6 60 -1 1 1 1 -1 -1 -1 -1 -1\n")
    (project / "classes.yml").write_text("- {count: 2, cpus: 1}\n- {count: 1, cpus: 2, prefix: fat}\n")
    (project / "wrong.yml").write_text("- {count: 2, cpus: 1}\n- {count: 1}\n")
    (project / "week.yml").write_text("TRACE: two.swf\nNODES: 3\nCPUS: 1\n")
    (project / "twice.yml").write_text("NODES: 3\nNODES: 3\n")
    (project / "five.swf").write_text(SWF + "3 20 0 30 1\n" * 2)
    (project / "cut.swf.gz").write_bytes(gzip.compress(SWF.encode() * 100)[:-20])
    return project


def files_of(project: Path) -> set[str]:
    found = (path for path in project.rglob("*") if "__pycache__" not in path.parts)
    return {str(path.relative_to(project)) for path in found}


def environment(given: dict[str, str]) -> dict[str, str]:
    """The environment of `make target NAME=VALUE ...`."""
    clean = {name: value for name, value in os.environ.items() if name not in BY_NAME}
    return clean | given | {knobs.GIVEN: " ".join(given), "PYTHONDONTWRITEBYTECODE": "1"}


def start(project: Path, target: str, **given: str) -> subprocess.CompletedProcess[str]:
    """`make target NAME=VALUE ...` in a process of its own, as the Makefile would run it."""
    words = [sys.executable, "-m", "mirage", target]
    return subprocess.run(words, cwd=project, env=environment(given), capture_output=True, text=True, timeout=120, check=False)


PROGRAM = """
import contextlib, io, json, os, sys
from mirage.commands.command_line import main
for line in sys.stdin:
    target, environment = json.loads(line)
    os.environ.clear()
    os.environ.update(environment)
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
        code = main([target])
    print(json.dumps([code, out.getvalue(), errors.getvalue()]), flush=True)
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(copy: Path) -> Iterator[Run]:
    """run(target, NAME=VALUE, ...) is as `start`, by a process that runs one command after the other."""
    words, pipe = [sys.executable, "-c", PROGRAM], subprocess.PIPE
    with subprocess.Popen(words, cwd=copy, env=environment({}), stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdin is not None and program.stdout is not None

        def ask(target: str, **given: str) -> subprocess.CompletedProcess[str]:
            print(json.dumps([target, environment(given)]), file=program.stdin, flush=True)
            return subprocess.CompletedProcess(target, *json.loads(program.stdout.readline()))

        yield ask


def test_a_reader_that_has_enough_is_no_error(run: Run, copy: Path) -> None:
    environ = {**os.environ, "TRACE": "two.swf", "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-m", "mirage", "metrics"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as stdout:
        ended = subprocess.run(words, cwd=copy, env=environ, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("target", "given", "words"),
    [
        ("experiment", {"NODES": "0"}, "NODES: '0'"),
        ("experiment", {"SHRINK": "abc"}, "SHRINK: 'abc'"),
        ("experiment", {"SPEED": "-1"}, "SPEED: '-1'"),
        ("experiment", {"NODE": "10"}, "did you mean NODES?"),
        ("experiment", {"CONFIG": "nosuch"}, "it may be one of: backfill"),
        ("experiment", {"INVENTORY": "nosuch"}, "INVENTORY: nosuch is not there"),
        ("experiment", {"TRACE": "nosuch.swf"}, "TRACE: nosuch.swf"),
        ("experiment", {"TRACE": "configs"}, "TRACE: configs"),
        ("experiment", {"TRACE": "empty.swf"}, "is empty"),
        ("experiment", {"TRACE": "cut.swf.gz"}, "gzip"),
        ("experiment", {"TRACE": "five.swf"}, "line 4: has 5 fields"),
        ("experiment", {"TRACE": "two.swf", "NODES": "3", "CPUS": "1"}, "job 2 needs 4 processors"),
        ("experiment", {"CLASSES": "wrong.yml"}, "CLASSES: wrong.yml: class 2: cpus is missing"),
        ("cluster", {"CLASSES": "classes.yml", "NODES": "3"}, "NODES: CLASSES says that too"),
        ("experiment", {"TRACE": "six.swf", "CLASSES": "classes.yml"}, "CLASSES: job 1 needs 6 processors, the cluster has 4"),
        ("experiment", {"RUN_FILE": "twice.yml"}, "RUN_FILE: twice.yml line 2: NODES: is there twice"),
        ("experiment", {"RUN_FILE": "week.yml"}, "job 2 needs 4 processors"),
        ("compare", {"RUN_FILE": "week.yml", "CONFIGS": "fifo easy"}, "job 2 needs 4 processors"),
        ("experiment", {"RUN_FILE": "week.yml", "TRACE": "six.swf", "CPUS": "2", "NODES": "2"}, "job 1 needs 6 processors"),
        ("experiment", {"TRACE": "two.swf", "OFFSET": "2"}, "OFFSET: 2 may be up to 1"),
        ("experiment", {"TRACE": "two.swf", "JOBS": "3"}, "JOBS: 3 may be up to 2"),
        ("experiment", {"TRACE": "two.swf", "SUBMISSION": "period=1 drift=-2"}, "it may be a drift from -1 on"),
        ("experiment", {"TRACE": "two.swf", "SUBMISSION": "drift=-5"}, "it may be each word once, with the period: "),
        ("experiment", {"TRACE": "two.swf", "RUN": "bench"}, "RUN: results/bench"),
        ("experiment", {"TRACE": "two.swf", "NODES": "3", "CPUS": "1", "SHRINK": "100:50:10"}, "job 2 needs 4"),
        ("cluster", {"CLUSTER": "Upper"}, "CLUSTER: 'Upper'"),
        ("metrics", {}, "TRACE: the log is missing"),
        ("metrics", {"TRACE": "two.swf", "OUT": "nosuch/m.json"}, "OUT: nosuch/m.json"),
        ("metrics", {"TRACE": "two.swf", "OFFSET": "2"}, "OFFSET: 2"),
        ("workload", {}, "OUT: the file to write is missing"),
        ("workload", {"OUT": "w.swf", "MODEL": "nosuch"}, "MODEL: 'nosuch'"),
        ("workload", {"OUT": "w.swf", "TRACE": "two.swf", "SHRINK": "100:50:10"}, "one shrink factor"),
        ("workload", {"OUT": "w.swf", "TRACE": "two.swf", "LOAD": "0.5"}, "LOAD: a log has its own load"),
        ("workload", {"OUT": "w.csv"}, "OUT: a CSV holds a schedule, and a generated workload has none"),
        ("workload", {"OUT": "w.csv", "TRACE": "two.swf", "SHRINK": "50"}, "SHRINK: a recorded schedule"),
        ("workload", {"OUT": "w.swf", "OFFSET": "3", "PRESET": "all"}, "PRESET: all needs recorded waits"),
        ("experiment", {"TRACE": "two.swf", "FROM": "11"}, "FROM: no job was submitted from 11;"),
        ("experiment", {"TRACE": "two.swf", "TO": "2016-04-01"}, "TO: 2016-04-01 is a date, but the log has no UnixStartTime"),
        ("experiment", {"TRACE": "two.swf", "QUEUES": "night"}, "QUEUES: "),
        ("nosuch", {}, "target: nosuch"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(run: Run, copy: Path, target: str, given: dict[str, str], words: str) -> None:
    before = files_of(copy)
    done = run(target, **given)
    lines = done.stdout.splitlines()
    assert done.returncode == 2
    assert lines[-1].startswith("wrong use: ") and words in lines[-1]
    assert sum("wrong use:" in line for line in lines) == 1
    assert done.stderr == ""
    assert files_of(copy) == before


def test_metrics_of_a_log_without_a_cluster(copy: Path, tmp_path: Path) -> None:
    done = start(copy, "metrics", TRACE="a b'$HOME.swf", OUT=str(tmp_path / "m.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("ok: 2 jobs of a b'$HOME.swf")
    measured = json.loads((tmp_path / "m.json").read_text())
    assert measured["metrics"]["wait_mean"] == 2.5
    assert measured["settings"]["processors"] == 8
    row = next(line for line in done.stdout.splitlines() if "wait_mean" in line)
    assert row.split()[1:3] == ["2.50", "s"]


def test_metrics_of_a_machine_that_is_named(run: Run, tmp_path: Path) -> None:
    done = run("metrics", TRACE="two.swf", NODES="2", CPUS="16", OUT=str(tmp_path / "m.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    settings = json.loads((tmp_path / "m.json").read_text())["settings"]
    assert (settings["processors"], settings["nodes"]) == (32, 2)


def test_metrics_and_workload_of_a_machine_of_classes(run: Run, tmp_path: Path) -> None:
    done = run("metrics", TRACE="two.swf", CLASSES="classes.yml", OUT=str(tmp_path / "m.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "machine: 2 nodes of 1 CPUs, 1 of 2 (CLASSES)" in done.stdout.splitlines()
    settings = json.loads((tmp_path / "m.json").read_text())["settings"]
    assert (settings["processors"], settings["nodes"]) == (4, 3)
    run("workload", JOBS="5", CLASSES="classes.yml", OUT=str(tmp_path / "w.swf"))
    assert {"; MaxProcs: 4", "; MaxNodes: 3"} <= set((tmp_path / "w.swf").read_text().splitlines())


def test_metrics_of_sigsleeps_log_tell_where_it_is_damaged(run: Run, copy: Path, tmp_path: Path) -> None:
    record = sigsleep_log.Record(
        id=7,
        cores=2,
        priority="batch",
        submission_ns=10**9,
        start_ns=3 * 10**9,
        end_ns=13 * 10**9,
        runtime_ns=10**10,
        executed_ns=10**10,
        completed=True,
    )
    raw = sigsleep_log.pack(record)
    (copy / "jobs.log").write_bytes(raw + b"torn" + raw)
    done = run("metrics", TRACE="jobs.log", NODES="1", CPUS="4", OUT=str(tmp_path / "m.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"4 bytes at offset {len(raw)}" in done.stdout
    assert json.loads((tmp_path / "m.json").read_text())["metrics"]["wait_mean"] == 2.0


def test_workload_from_a_model_is_the_same_for_the_same_seed(copy: Path, tmp_path: Path) -> None:
    contents = []
    for seed in ("7", "7", "8"):
        out = tmp_path / "w.swf"
        done = start(copy, "workload", MODEL="raijin", JOBS="50", SEED=seed, OUT=str(out))
        assert done.stdout.splitlines()[-1] == f"ok: 50 jobs in {out}"
        contents.append(out.read_text())
    assert contents[0] == contents[1] != contents[2]


def test_a_knob_that_the_target_does_not_look_at_is_told(run: Run, tmp_path: Path) -> None:
    done = run("workload", JOBS="1", SUBMISSION="period=3", OUT=str(tmp_path / "w.swf"))
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "note: make workload ignores SUBMISSION"


def test_workload_is_selected_and_shrunk(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "w.swf"
    done = run("workload", TRACE="two.swf", SHRINK="50", OFFSET="1", OUT=str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = [line.split() for line in out.read_text().splitlines() if not line.startswith(";")]
    assert [(job[0], job[1], job[3], job[4]) for job in jobs] == [("2", "0", "15", "4")]


def lines_of(out: Path) -> list[list[str]]:
    return [line.split() for line in out.read_text().splitlines() if not line.startswith(";")]


def test_workload_with_what_ran_before_it_on_another_machine(run: Run, tmp_path: Path) -> None:
    """Job 1 ran from 0 to 30 and job 2 was submitted at 10: 20 s were left, and 50 of 60 s requested."""
    out = tmp_path / "w.swf"
    done = run("workload", TRACE="two.swf", OFFSET="1", PRESET="running", SIZES="scale", NODES="1", CPUS="16", OUT=str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "preset, as they were when the selection begins: 1 running, 0 queued" in done.stdout.splitlines()
    assert [(job[0], job[1], job[3], job[4], job[8]) for job in lines_of(out)] == [
        ("1", "0", "20", "2", "60"),
        ("2", "0", "30", "8", "60"),
    ]
    header = out.read_text()
    assert "; MaxProcs: 16\n" in header
    assert "; Note: changed by make workload: OFFSET=1 SIZES=scale PRESET=running\n" in header


def test_workload_of_a_model_with_exact_estimates_and_its_load(run: Run, tmp_path: Path) -> None:
    outs = [tmp_path / "a.swf", tmp_path / "b.swf"]
    for out, load in zip(outs, ("0.5", "1"), strict=True):
        done = run("workload", JOBS="300", LOAD=load, ESTIMATES="exact", OUT=str(out))
        assert done.returncode == 0, done.stdout + done.stderr
    slow, fast = (lines_of(out) for out in outs)
    assert all(job[3] == job[8] for job in slow)
    assert 1.99 < float(slow[-1][1]) / float(fast[-1][1]) < 2.01


def test_workload_writes_a_recorded_schedule_as_csv(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "w.csv"
    done = run("workload", TRACE="two.swf", FROM="5", OUT=str(out))
    assert done.stdout.splitlines()[-1] == f"ok: 1 jobs in {out}"
    heading, row = (line.split(",") for line in out.read_text().splitlines())
    assert dict(zip(heading, row, strict=True))["job_id"] == "2"


@pytest.fixture(scope="module")
def finished(copy: Path) -> Path:
    """results/done as a run of two.swf leaves it when its verdict is ok, made by the program's own functions."""
    folder = copy / "results/done"
    code = (
        "import os; from pathlib import Path; from mirage.experiment import preflight, prepare, runs;"
        "from mirage.knobs import resolve as knobs;"
        "k = knobs.resolve(os.environ); s = prepare.source(k.workload, k.nodes.machine);"
        "i = runs.inputs(k, s.trace.sha256, preflight.config(k.scheduler));"
        "p = prepare.Prepared.make(k, s.trace, k.jobs.shrinks[0]);"
        "p.write(runs.RESULTS / 'done', runs.describe(k, i, s.description))"
    )
    environ = {"PATH": os.environ["PATH"], "TRACE": "two.swf", "NODES": "4", "CPUS": "2"}
    subprocess.run([sys.executable, "-c", code], cwd=copy, env=environ, check=True)
    status = {"ending": "ok", "code": 0, "message": "ok: 2 jobs, results/done", "run": "done", "time": "-"}
    write_json(folder / "status.json", status)
    return folder


DONE = {"TRACE": "two.swf", "NODES": "4", "CPUS": "2", "RUN": "done"}


def test_a_run_keeps_its_inputs(finished: Path) -> None:
    experiment = json.loads((finished / "experiment.json").read_text())
    assert experiment["inputs"]["NODES"] == "4"
    assert experiment["knobs"]["TRACE"] == "two.swf"
    assert experiment["trace"]["jobs"] == 2
    assert set(experiment) >= {"inputs", "knobs", "trace", "clock", "host", "versions", "git", "workload"}
    plan = (finished / "plan.csv").read_text().splitlines()
    assert plan[0].startswith("index,id,due,processors")
    assert [line.split(",")[:4] for line in plan[1:]] == [["0", "1", "0.0", "1"], ["1", "2", "10.0", "4"]]
    assert plan[2].split(",")[9:12] == ["done.2", "", ""]
    assert {path.name for path in finished.iterdir()} >= {"workload.swf", "workload.csv"}


def test_a_finished_run_is_shown(copy: Path, finished: Path) -> None:
    before = files_of(copy)
    done = start(copy, "experiment", **DONE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "ok: 2 jobs, results/done"
    assert files_of(copy) == before


def test_a_finished_run_is_shown_with_its_trace_under_another_path(run: Run, finished: Path) -> None:
    done = run("experiment", **(DONE | {"TRACE": "a b'$HOME.swf"}))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"NODES": "5"}, "NODES was 4, is 5"),
        ({"SHRINK": "50"}, "SHRINK was 100, is 50"),
        ({"SHRINK": "100.0", "SEED": "2"}, "SEED was 1, is 2"),
        ({"JOBS": "1"}, "JOBS was not set, is 1"),
        ({"TRACE": ""}, "another TRACE"),
        ({"CONFIG": "fifo"}, "CONFIG was slurm-defaults, is fifo"),
        ({"NODES": "", "CPUS": "", "CLASSES": "classes.yml"}, "NODES was 4, is 3"),
    ],
)
def test_a_run_of_other_inputs_says_which(run: Run, copy: Path, finished: Path, change: dict[str, str], words: str) -> None:
    before = files_of(copy)
    done = run("experiment", **(DONE | change))
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].startswith("wrong use: RUN: results/done has other inputs: ")
    assert words in done.stdout
    assert files_of(copy) == before


def test_a_folder_that_is_no_run_is_left_alone(run: Run, copy: Path) -> None:
    folder = copy / "results/mine"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("keep")
    done = run("experiment", **(DONE | {"RUN": "mine"}))
    assert (done.returncode, "holds no run" in done.stdout) == (2, True)
    assert (folder / "notes.txt").read_text() == "keep"


def test_a_width_that_fits_no_node_of_a_real_log(run: Run) -> None:
    done = run("experiment", TRACE=str(real_log(KTH)), NODES="10", CPUS="1", JOBS="100", OFFSET="19151", SHRINK="0.2")
    assert done.returncode == 2
    assert "CPUS: job " in done.stdout.splitlines()[-1]
