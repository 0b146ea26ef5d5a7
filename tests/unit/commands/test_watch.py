"""`make watch`: what it reads, how it is drawn, and the program itself in a terminal of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from farm_states import farm_state
from simulated_runs import verdict

from mirage.commands import watch
from mirage.records.run_folder import RunFolder
from mirage.terminal import figures, live_state, trace_time
from mirage.terminal.console import PlainConsole
from mirage.terminal.figures import Row
from mirage.terminal.live_state import LiveState, Point
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json

ROOT = Path(__file__).parents[3]
FARM = farm_state(
    daemons={"slurmctld": {"wanted": 1, "up": 1, "ready": 1}, "slurmd": {"wanted": 60, "up": 60, "ready": 60}},
)
PROGRESS: dict[str, Any] = {
    "run": "one",
    "phase": "submitting",
    "jobs": 200,
    "submitted": 132,
    "done": 80,
    "lag": 0.01,
    "elapsed": 10.0,
    "speed": 50.0,
    "time_left_least": 41.0,
    "time_left_most": 55.0,
    "nodes": {"idle": 17, "allocated": 43},
    "states": {"running": 40, "pending": 12},
    "processors": 240,
    "processors_busy": 172,
    "scheduler": {"bf_last_cycle_us": 7289, "bf_max_cycle_us": 48165, "bf_last_depth": 5, "bf_queue_length": 6},
}
SAMPLES = "real,virtual,running,pending,processors_busy\n{0:.3f},1,40,2,100\n{1:.3f},1,40,12,172\n{1:.3f},1,4"


@pytest.fixture
def instance(tmp_path: Path, replaying: Callable[[Path, str], None]) -> Path:
    """An instance with a run that is replayed."""
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "instance.json", {"name": "mine"})
    write_json(tmp_path / "run/farm.json", FARM)
    folder = tmp_path / "runs/one"
    replaying(tmp_path, "one")
    write_json(folder / "progress.json", PROGRESS | {"real": time.time()})
    now = time.time()
    (folder / "samples.csv").write_text(SAMPLES.format(now - 1000, now - 60))
    return tmp_path


@pytest.fixture
def slurm(instance: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Commands of the instance's Slurm that answer as those of a cluster at rest, and note that they were asked."""
    folder = tmp_path_factory.mktemp("slurm") / "bin"
    folder.mkdir()
    answers = {"sinfo": "idle|60|0/240/0/240", "squeue": "PENDING", "sdiag": "Jobs submitted: 3"}
    for name, answer in answers.items():
        (folder / name).write_text(f"#!/bin/sh\necho x >> {folder}/asked\necho '{answer}'\n")
        (folder / name).chmod(0o755)
    farm = {"daemons": [{"kind": "slurmctld", "command": [f"{folder.parent}/sbin/slurmctld"]}]}
    (instance / "etc").mkdir()
    write_json(instance / "etc/farm.json", farm)
    return folder


def seen(state: LiveState) -> tuple[dict[str, Any], Any]:
    found = state.read()
    assert found is not None
    return found


def test_a_run_is_read_and_slurmctld_is_left_alone(instance: Path, slurm: Path) -> None:
    state = LiveState(instance)
    info, progress = seen(state)
    assert state.run_is_active and progress is not None and progress["submitted"] == 132
    assert (info["nodes"], info["processors"]) == ({"idle": 17, "allocated": 43}, {"busy": 172, "all": 240})
    earlier, latest = state.past
    assert (earlier.pending, earlier.busy, latest.pending, latest.busy) == (12, 172, 12, 172)
    assert not (slurm / "asked").exists()


def test_without_a_run_slurmctld_is_asked(instance: Path, slurm: Path) -> None:
    (instance / "runs/one/replay.lock").unlink()
    state = LiveState(instance)
    give_up = time.monotonic() + 60
    while not (info := seen(state)[0])["nodes"]:
        assert time.monotonic() < give_up
        time.sleep(0.05)
    assert not state.run_is_active
    assert (info["nodes"], info["jobs"], info["processors"]) == ({"idle": 60}, {"pending": 1}, {"busy": 0, "all": 240})


def test_the_run_that_was_the_last_stays_on_the_screen(instance: Path, slurm: Path) -> None:
    state = LiveState(instance)
    state.read()
    (instance / "runs/one/replay.lock").unlink()
    ended = {**PROGRESS, "phase": "finished", "time_left_least": None, "time_left_most": None, "real": 1_790_000_000.0}
    write_json(instance / "runs/one/progress.json", ended)
    progress = seen(state)[1]
    assert watch.heading("mine", state.run_is_active, progress).startswith("cluster mine: run one has finished, at 2026-09-21 ")
    assert seen(LiveState(instance))[1] == ended, "for who comes later too"


def test_an_instance_that_is_removed_meanwhile(instance: Path, slurm: Path) -> None:
    state = LiveState(instance)
    (instance / "state").mkdir()
    (instance / "state/clock").write_text("half of a l")
    with pytest.raises(WrongUse, match="clock file"):
        state.read()
    (instance / "instance.json").unlink()
    assert state.read() is None


def test_results_of_a_run_and_of_a_part_of_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_state, "RESULTS", tmp_path)
    (tmp_path / "v1.2").mkdir()
    assert live_state.results_of("v1.2") == tmp_path / "v1.2"
    assert live_state.results_of("v1.2.fifo-1") == tmp_path / "v1.2/fifo-1"
    assert live_state.results_of("kth") == tmp_path / "kth"
    (tmp_path / "v1.2/fifo-1").mkdir()
    assert live_state.results_of("v1.2.fifo-1.2") == tmp_path / "v1.2/fifo-1"
    assert live_state.results_of("v1.3") == tmp_path / "v1/3"


@pytest.mark.parametrize(
    ("validity", "told"),
    [
        (verdict(), "valid"),
        (verdict("invalid", "a", "b"), "not valid: a; b"),
        (verdict("inconclusive", "a"), "inconclusive: a"),
        (None, None),
    ],
)
def test_the_verdict_on_the_run_that_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validity: dict[str, Any] | None, told: str | None
) -> None:
    monkeypatch.setattr(live_state, "RESULTS", tmp_path)
    (tmp_path / "c/fifo-1").mkdir(parents=True)
    (tmp_path / "c/fifo-1/experiment.json").write_text(json.dumps({"run": "c.fifo-1.2"}))
    if validity is not None:
        (tmp_path / "c/fifo-1/metrics.json").write_text(json.dumps({"validity": validity}))
    assert live_state._verdict({"run": "c.fifo-1.2"}) == told
    # What is there is of another attempt.
    assert live_state._verdict({"run": "c.fifo-1"}) is None
    info = {"nodes": {}, "jobs": {}, "processors": None, "scheduler": {}, "farm": {"phase": "stopped"}, "clock": None, "memory": 0,
            "cpu_busy": 0.5, "trace": None, "verdict": told}  # fmt: skip
    shown = [(row.text, row.urgent) for row in watch.all_rows(info, None) if row.label == "verdict"]
    assert shown == ([(told, told != "valid")] if told else [])


@pytest.mark.parametrize(
    ("goes_on", "progress", "told"),
    [
        (False, None, "no run goes on"),
        (True, {"run": "one", "phase": "submitting", "ago": 0.0}, "run one goes on"),
        (True, {"run": "one", "phase": "submitting", "ago": 300.0}, "run one goes on, silent for "),
        (
            False,
            {"run": "one", "phase": "draining"},
            "the replay of run one does not run; the same make experiment goes on",
        ),
        (False, {"run": "one", "phase": "failed", "real": 1.0}, "run one has failed, at 1970-01-01 "),
    ],
)
def test_what_the_cluster_is_at(goes_on: bool, progress: dict[str, Any] | None, told: str) -> None:
    """ago: real seconds since the progress was written."""
    if progress is not None and "ago" in progress:
        progress = {**progress, "real": time.time() - progress["ago"]}
    said = watch.heading("mine", goes_on, progress)
    assert said.startswith(f"cluster mine: {told}") and ("silent" in told or "silent" not in said)


def test_samples_that_are_torn_or_old(tmp_path: Path) -> None:
    path = tmp_path / "runs/one/samples.csv"
    path.parent.mkdir(parents=True)
    assert not live_state.read_points(tmp_path, "one", 0.0)
    path.write_text(SAMPLES.format(100.0, 900.0))
    assert list(live_state.read_points(tmp_path, "one", 500.0)) == [Point(900.0, 12.0, 172.0)]
    path.write_text("real,pending,processors_busy\n900.0,3,\n")
    assert list(live_state.read_points(tmp_path, "one", 500.0)) == [Point(900.0, 3.0, None)]
    path.write_text("real,pending\n900.0,3\n")
    assert not live_state.read_points(tmp_path, "one", 500.0)


def test_sparkline() -> None:
    values = [(920.0, 0.0), (940.0, 8.0), (941.0, 2.0), (970.0, 4.0)]
    assert watch.sparkline(values, 1000.0, 100.0, 10) == "  ▁▁███▅▅▅"
    assert watch.sparkline([], 1000.0, 100.0, 4) == "    "
    assert watch.sparkline([(999.0, 0.0)], 1000.0, 100.0, 4) == "   ▁"


def drawn(width: int, height: int, encoding: str) -> list[str]:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding)
    console = PlainConsole(stream, width=width, height=height, force_terminal=False)
    info = live_state._of_run(PROGRESS) or {}
    info |= {"farm": FARM, "clock": None, "memory": 2048.0, "cpu_busy": 0.5, "trace": "1997-05-13 15:39:25 in the log"}
    past = [Point(time.time() - 90, 0, 10), Point(time.time() - 5, 12, 172)]
    console.print(watch.page("cluster mine: run one goes on", watch.all_rows(info, PROGRESS), past, console))
    stream.flush()
    return raw.getvalue().decode(encoding).splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (200, 60), (40, 12)])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_screen_fits_the_terminal(width: int, height: int, encoding: str) -> None:
    lines = drawn(width, height, encoding)
    assert len(lines) <= height and max(map(len, lines)) <= width
    assert lines[0] == "cluster mine: run one goes on"
    assert lines[-1].startswith("q closes this screen")
    if height >= 24:
        text = "\n".join(lines)
        for words in (
            "172 of 240 busy (72 %)",
            "132 of 200 submitted, 80 ended",
            "about 41 to 55 s left",
            "0 to 12 in 2 min",
            "in the log",
        ):
            assert words in text


def test_rows_of_a_cluster_that_does_not_answer() -> None:
    info = {"farm": FARM, "nodes": {}, "jobs": {}, "processors": None, "scheduler": {}, "clock": None, "memory": 1024}
    assert Row("nodes", "slurmctld does not answer", urgent=True) in figures.rows(info, None)
    assert {row.label for row in figures.rows(info, None)} == {"daemons", "nodes", "jobs", "clock", "memory"}


def experiment(folder: Path, time_of_log: dict[str, Any] | None, **inputs: str) -> Path:
    write_json(folder / "experiment.json", {"inputs": {"SUBMISSION": "", "SHRINK": "50", **inputs}, "trace": {"time": time_of_log}})
    rows = 'preset,submit,submit_virtual\nrunning,3,0.0\n"",1000.0,5.0\n'
    (folder / "workload.csv").write_text(rows)
    return folder


def test_where_in_its_log_a_run_is(tmp_path: Path) -> None:
    """The first job that is no preset one came at second 1000 of the log, 10 s of the log after the replay's start."""
    begin = {"begin": 1_000_000_000.0, "zone": "Europe/Berlin", "offset": 0.0}
    dated = trace_time.trace_time(RunFolder(experiment(tmp_path, begin)), speed=20.0)
    assert dated is not None
    assert dated.words(2.0) == "2001-09-09 04:04:30 in the log", "1070 s after 03:46:40, in summer"
    counted = trace_time.trace_time(RunFolder(experiment(tmp_path, None)), speed=20.0)
    assert counted is not None and counted.words(2.0) == "second 1070 of the log"
    assert trace_time.trace_time(RunFolder(experiment(tmp_path, begin, SUBMISSION="period=10")), 20.0) is None
    assert trace_time.trace_time(RunFolder(tmp_path / "another clone's"), 20.0) is None


# ---- the program ----


def program(instance: Path, **knobs: str) -> tuple[str, list[str], dict[str, str]]:
    """`make watch` as the Makefile would run it, on an instance in a folder of the test's."""
    code = (
        "import sys; from pathlib import Path; from mirage.commands import main; from mirage.experiment import preflight;"
        f"preflight.INSTANCES = Path({str(instance.parent)!r}); sys.exit(main.main(['watch']))"
    )
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    environ |= {"CLUSTER": instance.name, "TERM": "xterm-256color", **knobs}
    return sys.executable, ["-c", code], environ


@pytest.fixture
def mine(instance: Path, tmp_path_factory: pytest.TempPathFactory, replaying: Callable[[Path, str], None]) -> Path:
    """The same under a name that a cluster may have."""
    named = tmp_path_factory.mktemp("instances") / "mine"
    instance.rename(named)
    (named / "runs/one/replay.lock").unlink()
    replaying(named, "one")
    return named


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_a_key_ends_it_and_the_terminal_is_as_before(mine: Path, key: str) -> None:
    python, words, environ = program(mine)
    child = pexpect.spawn(python, words, env=environ, cwd=str(ROOT), dimensions=(24, 80), timeout=60, encoding="utf-8")
    child.expect_exact("\x1b[?1049h")
    child.expect_exact("q closes this screen")
    child.send(key)
    child.expect_exact("\x1b[?1049l")
    child.expect_exact("ok: cluster mine was watched; nothing in it has changed")
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, child.signalstatus) == (0, None)


def test_it_follows_the_run(mine: Path) -> None:
    python, words, environ = program(mine)
    child = pexpect.spawn(python, words, env=environ, cwd=str(ROOT), dimensions=(24, 80), timeout=60, encoding="utf-8")
    child.expect_exact("132 of 200 submitted")
    write_json(mine / "runs/one/progress.json", PROGRESS | {"submitted": 133, "real": time.time()})
    child.expect_exact("133 of 200 submitted")
    child.setwinsize(24, 50)
    child.send("q")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_without_a_terminal_it_writes_plain_screens_until_nobody_reads(mine: Path) -> None:
    python, words, environ = program(mine)
    # On a busy host the program begins late.
    write_json(mine / "runs/one/progress.json", PROGRESS | {"real": time.time() + 600})
    with subprocess.Popen(
        [python, *words], env=environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        assert running.stdout.readline() == "cluster mine: run one goes on\n"
        screen = [running.stdout.readline() for _ in range(5)]
        assert "cpus:     172 of 240 busy (72 %)\n" in screen
        running.terminate()
        rest, errors = running.communicate(timeout=60)
        assert rest.splitlines()[-1] == "ok: cluster mine was watched; nothing in it has changed"
        assert (running.returncode, errors, "\x1b" in rest) == (0, "", False)


def test_a_cluster_that_is_not_there(mine: Path) -> None:
    for knobs, told in (
        (
            {"CLUSTER": "other"},
            "wrong use: CLUSTER: there is no cluster other on this machine; make cluster CLUSTER=other ",
        ),
        (
            {"INVENTORY": "inventories/hosts.example"},
            "wrong use: INVENTORY: make watch reads the files of an instance on this machine; ",
        ),
    ):
        python, words, environ = program(mine, **knobs)
        done = subprocess.run([python, *words], env=environ, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        assert len(done.stdout.splitlines()) == 1 and done.stdout.startswith(told)


def test_it_ends_when_the_cluster_does(mine: Path) -> None:
    python, words, environ = program(mine)
    child = pexpect.spawn(python, words, env=environ, cwd=str(ROOT), dimensions=(24, 80), timeout=60, encoding="utf-8")
    child.expect_exact("q closes this screen")
    (mine / "instance.json").unlink()
    child.expect_exact("ok: cluster mine is gone")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
