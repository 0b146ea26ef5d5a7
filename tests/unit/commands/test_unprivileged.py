"""Targets without a cluster: an ordinary user can call each of them, and called by root they run without root's rights."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import simulated_runs
from copies import left_out

from mirage.commands import landlock
from mirage.commands.command_line import WITHOUT_CLUSTER
from mirage.knobs.table import BY_NAME

ROOT = Path(__file__).parents[3]
IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="skipped: only root has rights to give up")
CALLS: dict[str, dict[str, str]] = {
    "metrics": {"TRACE": "own/jobs.csv", "OUT": "own/metrics.json"},
    "simulate": {"TRACE": "own/log.swf", "POLICY": "easy", "OUT": "own/easy.swf"},
    "workload": {"TRACE": "own/log.swf", "OUT": "own/log.csv"},
    "workload-report": {"TRACE": "own/log.swf"},
    "report": {"RUN": "a"},
    "check": {"RUN": "a"},
    "why": {"RUN": "a"},
    "diff": {"RUNS": "a b"},
    "example-site": {"NODES": "12", "JOBS": "20"},
}
"""The calls that are compared; figure-load takes minutes."""


def run_folder(folder: Path, seed: int) -> None:
    """A finished run, whose waits point to a setting."""
    jobs = simulated_runs.jobs_of(20, 4, 4, seed=seed)
    simulated_runs.write(folder, jobs, 4, 4, CONFIG="slurm-defaults")
    pl.DataFrame({"job": [1], "from": [0.0], "to": [100.0], "cause": ["backfill"], "reason": ["bf_max_job_user"]}).write_csv(
        folder / "waits.csv"
    )
    metrics = json.loads((folder / "metrics.json").read_text())
    groups = {name: [] for name in ("by_size", "by_runtime", "by_user", "by_partition")}
    causes = {"jobs": 1, "users": 1, "reasons_recorded": True, "waited": 100.0, "unexplained": 0.0, "causes": {"backfill": 1.0}}
    metrics["wait_causes"] = {**causes, **groups, "longest": []}
    (folder / "metrics.json").write_text(json.dumps(metrics))


def project(folder: Path) -> Path:
    """A copy of what the program needs, with two runs, and a folder of the user's own that others may not enter."""
    for name in ("mirage", "module_utils", "configs"):
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for number, name in enumerate(("a", "b")):
        run_folder(folder / "results" / name, number)
    own = folder / "own"
    own.mkdir(mode=0o700)
    shutil.copy(ROOT / "tests/logs/sessions.swf", own / "log.swf")
    for name in ("jobs.csv", "experiment.json", "suspensions.csv"):
        shutil.copy(folder / "results/a" / name, own)
    for path in own.iterdir():
        path.chmod(0o600)
    return folder


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if name not in (*BY_NAME, "MIRAGE_GIVEN")}
    return {**clean, "NUMBA_DISABLE_JIT": "1", **more}


def call(folder: Path, target: str, *before: str, **knobs: str) -> tuple[int, str]:
    """Exit code and output of a target in a copy of the project."""
    words = [*before, sys.executable, "-m", "mirage", target]
    ended = subprocess.run(words, cwd=folder, env=environment(**knobs), capture_output=True, text=True, timeout=300, check=False)
    assert ended.stderr == ""
    return ended.returncode, ended.stdout.replace(str(folder), "")


def files_of(folder: Path) -> dict[str, bytes]:
    paths = [path for name in ("results", "own", "configs") for path in (folder / name).rglob("*")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}


@pytest.fixture(scope="module")
def places() -> Iterator[Path]:
    """A folder that each user can enter, which pytest's are not."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-mirage-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def ordinary(places: Path) -> tuple[Path, list[str]]:
    """A copy of the project that belongs to an ordinary user, and the words before a command of that user."""
    folder = project(places / "ordinary")
    if not IS_ROOT:
        return folder, []
    user = pwd.getpwnam("nobody")
    become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--no-new-privs"]
    if subprocess.run([*become, sys.executable, "-c", ""], cwd="/", capture_output=True, check=False).returncode:
        pytest.skip(f"skipped: another user cannot run {sys.executable}")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid)
    return folder, become


@pytest.fixture(scope="module")
def of_root(places: Path) -> Path:
    """A copy of the project that belongs to root, and that others may not enter."""
    folder = project(places / "root")
    folder.chmod(0o700)
    return folder


def test_all_targets_are_called() -> None:
    assert {*CALLS, "figure-load"} == set(WITHOUT_CLUSTER)


@pytest.mark.parametrize("target", CALLS)
def test_an_ordinary_user_and_root_get_the_same(ordinary: tuple[Path, list[str]], of_root: Path, target: str) -> None:
    folder, become = ordinary
    ended = call(folder, target, *become, **CALLS[target])
    # The runs are none of a cluster: there are no records from which they could be computed, and they differ.
    assert ended[0] == {"check": 2, "diff": 1}.get(target, 0), ended
    assert "our mistake" not in ended[1]
    if IS_ROOT:
        assert call(of_root, target, **CALLS[target]) == ended
        assert files_of(of_root) == files_of(folder)
        assert {path.lstat().st_uid for path in of_root.rglob("*")} == {0}


RUN_FILES = {
    "TRACE: own/log.swf\nJOBS: 3\nNODES: 4\n": (0, "ok: 3 jobs of log"),
    "TRACE: /etc/hostname\n": (2, "wrong use: RUN_FILE: own/week.yml line 1: TRACE: it names a file outside of this folder"),
    "JOBS: x\n": (2, "wrong use: JOBS: 'x' (in own/week.yml) is not possible"),
    "OUT: own/x\n": (2, "wrong use: RUN_FILE: own/week.yml line 1: OUT: it names a file to write"),
    "A: *x\n": (2, "wrong use: RUN_FILE: own/week.yml line 1: A: there is no such knob"),
}


@pytest.mark.parametrize("content", RUN_FILES)
def test_knobs_of_a_file(ordinary: tuple[Path, list[str]], of_root: Path, content: str) -> None:
    """The file is read in a process without root's rights; it names files below the current folder only."""
    folder, become = ordinary
    code, words = RUN_FILES[content]
    for project, before in ((folder, become), (of_root, [])) if IS_ROOT else ((folder, become),):
        path = project / "own/week.yml"
        path.write_text(content)
        shutil.copymode(project / "own/log.swf", path)
        os.chown(path, *((project / "own").stat().st_uid, -1))
        ended = call(project, "workload-report", *before, RUN_FILE="own/week.yml")
        path.unlink()
        assert (ended[0], ended[1].splitlines()[-1].startswith(words)) == (code, True), ended


def test_what_a_user_may_not_write_is_told_with_its_owner(ordinary: tuple[Path, list[str]]) -> None:
    folder, become = ordinary
    if not become:
        pytest.skip("skipped: needs root to give a folder to another user")
    run = folder / "results/b"
    os.chown(run, 0, 0)
    line = "failed: /results/b/report.html: Permission denied; /results/b belongs to root"
    code, said = call(folder, "report", *become, RUN="b")
    assert (code, said.splitlines()[-1]) == (1, line)
    os.chown(run, pwd.getpwnam("nobody").pw_uid, -1)


PROBE = """
import errno, fcntl, json, os, socket, sys, termios
from pathlib import Path
from mirage import RESULTS
from mirage.commands.unprivileged import give_up_root
from mirage.text import output_file

given, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
other = folder / "other"
give_up_root("report", given)

def connect():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(folder / "socket"))

attempts = {
    "read what is named": lambda: Path(given["TRACE"]).read_text(),
    "read a file beside it": lambda: (other).read_text(),
    "read what root alone may": lambda: Path("/etc/shadow").read_text(),
    "list a folder": lambda: os.listdir(folder),
    "write": lambda: Path(given["OUT"]).write_text("x"),
    "write where everybody may": lambda: (folder / "x").write_text("x"),
    "change a mode": lambda: os.chmod(other, 0o666),
    "change an owner": lambda: os.chown(other, os.getuid(), -1),
    "signal": lambda: os.kill(int(sys.argv[3]), 0),
    "ask a server of root": connect,
    "become root": lambda: os.setuid(0),
    "type into the terminal": lambda: fcntl.ioctl(os.pipe()[0], termios.TIOCSTI, b"x"),  # elsewhere ENOTTY
    "have OUT written": lambda: output_file.write(Path(given["OUT"]), "out"),
    "have a page written": lambda: output_file.write(RESULTS / "a/report.html", "page"),
    "have another file written": lambda: output_file.write(RESULTS / "a/jobs.csv", ""),
    "have a file written that is not in results": lambda: output_file.write(RESULTS / "../mirage/report.html", ""),
    "have a file written by a link": lambda: output_file.write(RESULTS / "link/report.html", ""),
}
outcomes = {}
for name, attempt in attempts.items():
    try:
        attempt()
        outcomes[name] = "done"
    except OSError as error:
        outcomes[name] = errno.errorcode[error.errno]
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps([outcomes, os.getresuid(), os.getgroups(), status["CapPrm"].strip(), status["NoNewPrivs"].strip()]))
"""


@needs_root
def test_what_is_left_of_roots_rights(of_root: Path, places: Path) -> None:
    folder = places / "open"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "log.swf").write_text("x")
    (folder / "other").write_text("x")
    for name in ("log.swf", "other"):
        (folder / name).chmod(0o600)
    (of_root / "results/link").symlink_to(folder)
    knobs = {"TRACE": str(folder / "log.swf"), "OUT": str(folder / "out")}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
        (folder / "socket").chmod(0o600)
        server.listen()
        words = [sys.executable, "-c", PROBE, json.dumps(knobs), str(folder), str(os.getpid())]
        ended = subprocess.run(words, cwd=of_root, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    outcomes, users, groups, capabilities, no_new = json.loads(ended.stdout)
    allowed = {"read what is named", "have OUT written", "have a page written"}
    if not landlock.version():
        allowed |= {"read a file beside it", "read what root alone may", "list a folder"}  # docs/security.md
    refused = {name: outcome for name, outcome in outcomes.items() if outcome != "done"}
    assert outcomes.keys() - refused == allowed
    assert set(refused.values()) <= {"EACCES", "EPERM"} and refused["type into the terminal"] == "EPERM"
    nobody = pwd.getpwnam("nobody").pw_uid
    assert (users, groups, int(capabilities, 16).bit_count(), no_new) == ([nobody] * 3, [], 1, "1")
    assert ((folder / "out").read_text(), (folder / "out").stat().st_uid) == ("out", 0)
    assert {path.name for path in folder.iterdir()} == {"log.swf", "other", "out", "socket"}
    assert (of_root / "results/a/report.html").read_text() == "page"


REQUESTS: dict[str, dict[str, Any]] = {
    "a size below zero": {"action": "write", "sizes": {"": -1}},
    "an unknown action": {"action": "remove", "sizes": {}},
    "a report in another folder": {"action": "report", "kind": "x", "sizes": {"../x": 0}},
    "no path": {"action": "write", "sizes": {"": 0}, "path": 5},
}


@needs_root
@pytest.mark.parametrize("request_", REQUESTS)
def test_the_writing_process_ends_at_a_request_that_is_none(of_root: Path, request_: str) -> None:
    program = (
        "import json, sys; from pathlib import Path; from mirage.commands.writing_process import Client, Places, start\n"
        "out = Path(sys.argv[1]); channel = start(Places((out,), ()))\n"
        "text = json.dumps({'path': str(out), **json.loads(sys.argv[2])}).encode()\n"
        "channel.sendall(len(text).to_bytes(4, sys.byteorder) + text)\n"
        "print(channel.recv(100))"
    )
    out = of_root / "own/none"
    words = [sys.executable, "-c", program, str(out), json.dumps(REQUESTS[request_])]
    ended = subprocess.run(words, cwd=of_root, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, out.exists()) == ("b''\n", False), ended.stderr
