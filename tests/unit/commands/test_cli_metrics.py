"""`make metrics`: what its knobs do to the metrics of a recorded schedule."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from real_logs import real_log
from simulated_runs import in_run, verdict

from mirage.campaign import sweep_table
from mirage.commands.metrics import metrics
from mirage.experiment import runs
from mirage.experiment.endings import Ending
from mirage.knobs import resolve as knobs
from mirage.knobs.resolve import user_message
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json

# Submitted every 100 s, on 4 of 8 processors, for 50 s; the wait is the job's number.
LOG = "; MaxProcs: 8\n; MaxNodes: 2\n" + "".join(
    f"{n} {100 * n} {n} 50 4 -1 -1 4 60 -1 1 {1 + n % 2} 1 -1 {1 + n // 6} -1 -1 -1\n" for n in range(10)
)
JOBS = (
    "id,submit,eligible,start,end,suspended,processors,nodes,requested,runtime,priority,partition,state,submit_lag,preset\n"
    "1,0,0,2,12,4,2,1,60,6,100,batch,COMPLETED,0.01,\n"
)


def measured(folder: Path, trace: Path, **given: str) -> tuple[dict[str, Any], str]:
    """metrics.json, and what was printed."""
    stream = io.StringIO()
    values = knobs.resolve({"TRACE": str(trace), "OUT": str(folder / "m.json"), **given})
    assert metrics(values, Screen(stream)).word == "ok"
    return json.loads((folder / "m.json").read_text()), stream.getvalue()


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    (tmp_path / "ten.swf").write_text(LOG)
    return tmp_path / "ten.swf"


def test_settings(tmp_path: Path, ten: Path) -> None:
    found, said = measured(tmp_path, ten, TAU="60", W2="log", WARMUP_CUT="10%", COOLDOWN_CUT="200")
    settings = found["settings"]
    assert (settings["tau"], settings["w2_reading"]) == (60, "log")
    # From 0 to 959.
    assert settings["window"] == pytest.approx([95.9, 759])
    assert found["metrics"]["wait_mean"] == pytest.approx(sum(range(1, 8)) / 7)
    assert found["metrics"]["makespan"] == pytest.approx(759 - 95.9)
    assert "left out: 1 (submitted in the warm-up: not in metrics over jobs)" in said.splitlines()
    assert "left out: 2 (submitted in the cool-down: not in metrics over jobs)" in said.splitlines()
    assert "machine: 8 processors, 2 nodes (the log's header)" in said.splitlines()


@pytest.mark.parametrize(("given", "share"), [({}, 0.1), ({"IMMEDIATE": "5"}, 0.5)])
def test_jobs_that_started_at_once(tmp_path: Path, ten: Path, given: dict[str, str], share: float) -> None:
    assert measured(tmp_path, ten, **given)[0]["metrics"]["immediate_fraction"] == pytest.approx(share)


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        ({"FROM": "200", "TO": "500"}, [2, 3, 4]),
        ({"OFFSET": "8"}, [8, 9]),
        ({"JOBS": "3"}, [0, 1, 2]),
        ({"QUEUES": "2"}, [6, 7, 8, 9]),
        ({"USERS": "2", "QUEUES": "2"}, [7, 9]),
    ],
)
def test_selection(tmp_path: Path, ten: Path, given: dict[str, str], waits: list[int]) -> None:
    found, _ = measured(tmp_path, ten, **given)
    assert found["jobs"]["submitted"] == len(waits)
    assert found["metrics"]["wait_mean"] == pytest.approx(sum(waits) / len(waits))


def test_what_is_not_selected_is_told(tmp_path: Path, ten: Path) -> None:
    _, said = measured(tmp_path, ten, USERS="2")
    assert "not selected: 5 jobs (of another user)" in said.splitlines()


def test_a_runs_own_machine(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "jobs.csv").write_text(JOBS)
    (run / "experiment.json").write_text('{"inputs": {"NODES": "3", "CPUS": "2", "SHRINK": "100"}}')
    found, said = measured(tmp_path, run / "jobs.csv")
    assert (found["settings"]["processors"], found["settings"]["nodes"]) == (6, 3)
    assert "machine: 6 processors, 3 nodes (experiment.json)" in said.splitlines()
    (run / "experiment.json").unlink()
    found, _ = measured(tmp_path, run / "jobs.csv")
    assert (found["settings"]["processors"], found["settings"]["nodes"]) == (5760, 360)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def test_all_metrics_of_a_finished_run(results: Path, tmp_path: Path, ten: Path) -> None:
    found, _ = measured(tmp_path, ten)
    (results / "r").mkdir(parents=True)
    write_json(results / "r/metrics.json", in_run(found, verdict(retries=3, launch_cost=0.0)))
    write_json(results / "r/experiment.json", {"inputs": {"MALLEABLE": "0"}})
    Ending("invalid", "a reason").store(results / "r")
    ending = metrics(knobs.resolve({"RUN": "r"}), Screen(stream := io.StringIO()))
    assert ending.line == "ok: 10 jobs, results/r"
    rows = {line.split()[0] for line in stream.getvalue().splitlines() if line.split()}
    assert {"wait_p99", "W4", "retries"} <= rows and not {"resizes_mean", "launch_cost", "suspended_mean"} & rows


def test_a_run_without_all_metrics_is_wrong_use(results: Path, ten: Path) -> None:
    def said(**given: str) -> str:
        with pytest.raises(WrongUse) as caught:
            metrics(knobs.resolve({"RUN": "r", **given}), Screen(io.StringIO()))
        return user_message(caught.value)

    assert said() == "RUN: results/r is not there; it may be a folder with a finished run, sweep or comparison"
    (results / "r").mkdir(parents=True)
    assert said() == "RUN: results/r is not finished; it may be a finished run or comparison"
    Ending("failed", "interrupted").store(results / "r")
    assert said() == "RUN: results/r is not finished; it may be a finished run or comparison"
    assert said(TRACE=str(ten)) == f"TRACE={ten}: is a log, and RUN a run; give one of them"
    assert said(TAU="60") == "TAU=60: with RUN nothing is measured again; TRACE=results/r/jobs.csv does so"
    assert said(OUT="m.json").startswith("OUT=m.json: with RUN nothing is measured again")
    sweep_table.write(results / "r", [(Decimal(shrink), results / f"r-{shrink}", Ending("ok", "")) for shrink in (100, 50)])
    Ending("ok", "2 runs").store(results / "r")
    assert said() == "RUN: results/r is a sweep, whose metrics are in sweep.csv; it may be one of its runs: r-100, r-50"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"TAU": "0"}, "tau: 0 may be any number of seconds above 0"),
        ({"IMMEDIATE": "0"}, "immediate: 0 may be any number of seconds above 0"),
        ({"WARMUP_CUT": "50%", "COOLDOWN_CUT": "50%"}, "warmup_cut, cooldown_cut: 479.5 s and 479.5 s leave nothing"),
        ({"USERS": "7"}, "users: the log has no job of the user '7'"),
    ],
)
def test_wrong_use(ten: Path, given: dict[str, str], message: str) -> None:
    with pytest.raises(WrongUse, match=f"^{message}"):
        metrics(knobs.resolve({"TRACE": str(ten), **given}), Screen(io.StringIO()))


def test_a_machine_that_is_too_small_is_told(tmp_path: Path, ten: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPUS", "1")
    _, said = measured(tmp_path, ten, NODES="1", CPUS="1")
    assert "machine: 1 node of 1 CPUs (NODES, CPUS)" in said.splitlines()
    assert "more was in use than the machine has: it was larger (NODES and CPUS say so)" in said.splitlines()


@pytest.mark.parametrize(
    ("content", "reasons"),
    [
        ("1 0 -1 50 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1\n" * 3, "3 no start"),
        ("1 0 7 -1 4 -1 -1 4 60 -1 5 1 1 -1 1 -1 -1 -1\n2 0 -1 9 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1\n", "1 .*, 1 no start"),
    ],
)
def test_a_workload_that_never_ran_has_no_metrics(tmp_path: Path, content: str, reasons: str) -> None:
    (tmp_path / "w.swf").write_text(content)
    with pytest.raises(
        WrongUse, match=rf"^trace: .*: nothing can be measured, no job has .* start and end \({reasons}\); a workload"
    ):
        measured(tmp_path, tmp_path / "w.swf")
    assert not (tmp_path / "m.json").exists()


def test_nasas_log_has_no_waits(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"nothing can be measured, .* \(18239 no start\)"):
        measured(tmp_path, real_log("NASA-iPSC-1993-3.1-cln.swf.gz"))


def test_lines_that_cannot_be_read_are_told_and_excluded(tmp_path: Path, ten: Path) -> None:
    expected, _ = measured(tmp_path, ten)
    ten.write_text(LOG.replace("\n5 ", "\n77 500 5\n5 "))
    found, said = measured(tmp_path, ten)
    assert "1 of 11 lines could not be read: line 8: has 3 fields, a job in SWF has 18" in said.splitlines()
    assert "left out: 1 (line of the log that cannot be read)" in said.splitlines()
    assert found["excluded"] == {"line of the log that cannot be read": 1}
    assert found["metrics"] == expected["metrics"]
    found, said = measured(tmp_path, ten, JOBS="3")
    assert found["excluded"] == {"line of the log that cannot be read": 1}
    assert "not selected" not in said
