"""`make simulate`: from a log to a table and a file, in this process."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest
from real_logs import KTH, real_log

from mirage.commands.simulate import played, simulate
from mirage.experiment.endings import Ending
from mirage.knobs import resolve as knobs
from mirage.knobs.table import BY_NAME
from mirage.terminal.screen import Screen
from mirage.traces.trace import read_trace
from mirage.workloads.selection import Selection
from mirage.workloads.workload import prepare
from slurm_mirage.base.errors import WrongUse

# Job 1 has the machine of 4 for 600 s and is expected to have it for 1200. Job 2 needs all of it. Job 3 would have a limit of
# 900 s, in time under EASY; job 4 is cancelled after 100 s of waiting, job 5 after 350 s of which it waited 30.
LOG = """; MaxProcs: 4
; MaxNodes: 2
; UnixStartTime: 800000000
; Computer: Small
1 1000 0 600 3 -1 -1 3 1200 -1 1 7 1 1 1 -1 -1 -1
2 1010 990 300 4 -1 -1 4 600 -1 0 7 1 1 1 -1 -1 -1
3 1020 -1 800 1 -1 -1 1 900 -1 1 8 1 1 1 -1 -1 -1
4 1030 100 -1 2 -1 -1 2 600 -1 5 8 1 1 2 -1 -1 -1
5 2200 30 320 4 -1 -1 4 900 -1 5 8 1 1 2 -1 -1 -1
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in BY_NAME:
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "log.swf"
    path.write_text(LOG)
    return path


def run(monkeypatch: pytest.MonkeyPatch, **given: str) -> tuple[Ending, str]:
    """The ending and what was printed, for knobs in the environment."""
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    ending = simulate(knobs.resolve(given), Screen(stream))
    return ending, stream.getvalue()


def row(printed: str, metric: str) -> list[str]:
    [line] = [line for line in printed.splitlines() if line.split()[:1] == [metric]]
    return line.split()


@pytest.mark.parametrize(
    ("policy", "waits", "runs"),
    [
        # Job 2 at 1600, when job 1 has ended; job 3 after it. Job 5 finds job 3 there until 2700, and is cancelled at 2550.
        ("fcfs", [0, 590, 880, 100, 350], [600, 300, 800, -1, -1]),
        # Job 3 is over before 2200. It ends at 1820, then job 2. Job 5 finds nobody, and runs for 320 s.
        ("easy", [0, 810, 0, 100, 0], [600, 300, 800, -1, 320]),
        # Job 2 is promised 2200, job 3 is in time before that; as it is expected to go on to 1920, job 2 moves there, and to 1820.
        ("conservative", [0, 810, 0, 100, 0], [600, 300, 800, -1, 320]),
    ],
)
def test_waits_and_run_times_are_written(
    log: Path, monkeypatch: pytest.MonkeyPatch, policy: str, waits: list[int], runs: list[int]
) -> None:
    out = log.with_name("out.swf")
    ending, _ = run(monkeypatch, TRACE=str(log), POLICY=policy, OUT=str(out))
    assert ending.word == "ok" and str(out) in ending.message and "without Slurm" in ending.message
    written = read_trace(out)
    assert written.frame["wait"].to_list() == waits
    assert written.frame["run_time"].to_list() == runs
    assert written.frame["submit"].to_list() == [1000, 1010, 1020, 1030, 2200]
    assert written.frame["requested_time"].to_list() == [1200, 600, 900, 600, 900]
    kept = {label: written.header[label] for label in ("Computer", "UnixStartTime", "MaxProcs", "MaxNodes")}
    assert kept == {"Computer": "Small", "UnixStartTime": "800000000", "MaxProcs": "4", "MaxNodes": "2"}
    assert "simulated" in written.header["Note"]


def test_recorded_and_simulated_metrics_stand_beside_each_other(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, printed = run(monkeypatch, TRACE=str(log), POLICY="fcfs")
    # Recorded: 0, 990, 30, for job 3's wait is unknown; simulated: 0, 590, 880, for jobs 4 and 5 never start.
    assert row(printed, "wait_mean")[1:5] == ["340.00", "s", "490.00", "s"]
    assert "recorded: what the log says" in printed
    assert "left out, recorded: 1 (no start)" in printed and "left out, simulated: 2 (cancelled before start)" in printed


def test_a_log_without_waits_has_one_column(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write_text("1 0 -1 10 1 -1 -1 1 60 -1 1 1 1 1 1 -1 -1 -1\n")
    _, printed = run(monkeypatch, TRACE=str(log))
    assert row(printed, "wait_mean")[1:3] == ["0.00", "s"]
    assert "recorded" not in printed


def test_the_machine_is_the_logs_unless_another_one_is_given(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "machine: 4 processors (the log's header)" in run(monkeypatch, TRACE=str(log))[1]
    ending, printed = run(monkeypatch, TRACE=str(log), NODES="12", CPUS="1", POLICY="fcfs")
    assert ending.word == "ok" and "machine: 12 nodes of 1 CPUs" in printed
    # On three times the processors nobody waits.
    assert row(printed, "wait_max")[3] == "0.00"


def test_sizes_are_scaled_to_the_machine_that_is_given(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongUse, match="NODES=1 of CPUS=2"):
        run(monkeypatch, TRACE=str(log), NODES="1", CPUS="2")
    out = log.with_name("out.swf")
    run(monkeypatch, TRACE=str(log), NODES="1", CPUS="2", SIZES="scale", OUT=str(out))
    assert read_trace(out).frame["allocated_processors"].to_list() == [2, 2, 1, 1, 2]


def test_the_selection_is_that_of_an_experiment(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = log.with_name("out.swf")
    ending, _ = run(monkeypatch, TRACE=str(log), USERS="7", FROM="1005", OUT=str(out))
    assert ending.message.startswith("1 jobs")
    assert read_trace(out).frame["job_number"].to_list() == [2]


def test_presets_hold_processors_and_their_waits_are_not_measured(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = log.with_name("out.swf")
    ending, printed = run(monkeypatch, TRACE=str(log), OFFSET="1", JOBS="1", PRESET="running", OUT=str(out))
    assert ending.message.startswith("1 jobs")
    # Job 1 had 590 s to run when job 2 was submitted.
    written = read_trace(out)
    assert written.frame.select("job_number", "submit", "wait").rows() == [(1, 1010, 0), (2, 1010, 590)]
    assert "the first 1 are presets" in written.header["Note"]
    assert row(printed, "wait_mean")[1:5] == ["990.00", "s", "590.00", "s"]
    # Of 4 processors 3 for 590 s, then 4 for 300.
    assert row(printed, "utilisation")[2] == f"{(3 * 590 + 4 * 300) / (4 * 890):.4g}"


def test_batsims_columns(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = log.with_name("out.csv")
    run(monkeypatch, TRACE=str(log), OUT=str(out))
    table = pl.read_csv(out)
    assert table.select("job_id", "waiting_time", "execution_time").head(3).rows() == [(1, 0, 600), (2, 810, 300), (3, 0, 800)]


def test_exact_estimates_are_exact_to_the_second(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = log.with_name("out.swf")
    run(monkeypatch, TRACE=str(log), ESTIMATES="exact", POLICY="easy", OUT=str(out))
    written = read_trace(out).frame
    assert written["requested_time"].to_list()[:3] == [600, 300, 800]
    # Job 3 would be in the way of job 2 at 1600, has to wait; job 4 as well.
    assert written["wait"].to_list() == [0, 590, 880, 100, 350]


def test_repeated_job_numbers_become_lines(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write_text(LOG.replace("\n3 ", "\n2 "))
    out = log.with_name("out.swf")
    _, printed = run(monkeypatch, TRACE=str(log), POLICY="fcfs", OUT=str(out))
    assert "numbered by their lines" in printed
    assert row(printed, "wait_mean")[1:5] == ["340.00", "s", "490.00", "s"]
    assert read_trace(out).frame["job_number"].to_list() == [1, 2, 3, 4, 5]


def test_a_generated_workload(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"MODEL": "raijin", "JOBS": "300", "NODES": "4", "CPUS": "16", "LOAD": "2", "SEED": "3"}
    outs = [log.with_name(f"out{number}.swf") for number in (1, 2)]
    for out in outs:
        ending, printed = run(monkeypatch, **given, OUT=str(out))
        assert ending.message.startswith("300 jobs") and "recorded" not in printed
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert read_trace(outs[0]).header["Note"].endswith("jobs of model raijin, seed 3, load 2")
    assert (read_trace(outs[0]).frame["wait"] > 0).any()


def test_fillers_in_slots_leave_the_schedule_and_gain_less_than_what_is_idle(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outs = [log.with_name(f"{variant}.swf") for variant in ("no", "slots")]
    for out in outs:
        _, printed = run(monkeypatch, TRACE=str(log), FILLER=out.stem, FILLER_JOBS="speed=0.5 slot=100", OUT=str(out))
    assert outs[0].read_bytes() == outs[1].read_bytes()
    # 1000 to 2520: job 1 has 3 of 4 processors for 600 s, job 2 all for 300, job 3 one for 800, job 5 all for 320.
    idle = 1 - (3 * 600 + 4 * 300 + 800 + 4 * 320) / (4 * 1520)
    assert row(printed, "filler_load")[2] == f"{idle:.4g}"
    assert f"idle (1 - t) c = {100 * idle:.2f} % x 0.85 x 0.5 = {100 * idle * 0.85 * 0.5:.2f} %" in printed
    assert "fillers: 0 of 4 jobs waited for saves; mean wait +0.00 s" in printed


def test_planned_fillers_delay_jobs_that_come_unexpectedly(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = log.with_name("out.swf")
    _, printed = run(monkeypatch, TRACE=str(log), POLICY="fcfs", FILLER="planned", FILLER_JOBS="save=20", OUT=str(out))
    # Job 2 takes one processor of a filler at 1600, job 3 has those of job 2.
    assert read_trace(out).frame["wait"].to_list() == [0, 590 + 20, 880 + 20, 100, 350]
    assert "fillers: 1 of 3 jobs waited for saves; mean wait +13.33 s" in printed


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"FILLER": "slots", "FILLER_JOBS": "save=600"}, "filler_jobs: .*more than restore and save"),
        ({"FILLER": "planned", "FILLER_JOBS": "save=-1"}, "filler_jobs: .*save"),
        ({"FILLER": "no slots"}, "filler=no slots: only make compare takes several"),
        ({"OUT": "schedule.json"}, "out: schedule.json may be a name that ends in .swf"),
        ({"OUT": "nosuch/out.swf"}, "out: nosuch/out.swf cannot be written"),
        ({"OFFSET": "5"}, "offset: 5 may be up to 4"),
        ({"TRACE": "nosuch.swf"}, "nosuch.swf"),
        ({"WARMUP_CUT": "100000"}, "100000 s and 0 s leave nothing"),
        ({"TRACE": "", "MODEL": "nosuch"}, "model"),
    ],
)
def test_wrong_use(log: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], words: str) -> None:
    monkeypatch.chdir(log.parent)
    with pytest.raises(WrongUse, match=words):
        run(monkeypatch, **{"TRACE": str(log), **given})


def test_a_stretch_of_kths_log() -> None:
    """500 jobs, of which real Slurm with backfill, emulated, made mean waits of 1,700 to 2,100 s."""
    chosen = prepare(read_trace(real_log(KTH)), Selection(jobs=500, offset=19150), classes=[(100, 1)], slack=10.0)
    waits = {policy: played(chosen, 100, policy, by_limits=True)["wait"].mean() for policy in ("fcfs", "easy", "conservative")}
    # As computed when this was written; the slow implementation of test_simulation.py says the same of smaller workloads.
    assert waits == pytest.approx({"fcfs": 5044.324, "easy": 1506.77, "conservative": 1777.838})
