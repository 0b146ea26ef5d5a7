"""The modules slurm_replay and slurm_replay_info, run in process. The replay waits for a slurmctld that does not exist."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from copies import left_out
from journals import start_event

from slurm_mirage.base.processes import start_time
from slurm_mirage.base.run_lock import lock_holder
from slurm_mirage.jobs.plan import write_plan

ROOT = Path(__file__).parents[3]


@pytest.fixture
def params(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Parameters for a run of an instance whose slurmctld never answers, so that its replay waits until it is killed."""
    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    write_plan(folder / "plan.csv", [])
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\necho 'Unable to contact slurm controller (connect failure)' >&2\nexit 1\n")
    program.chmod(0o755)
    settings = {
        "run": "first",
        "instance": str(tmp_path),
        "plan_sha256": hashlib.sha256((folder / "plan.csv").read_bytes()).hexdigest(),
        "slurm_conf": "/nowhere/slurm.conf",
        "bin": str(tmp_path),
        "sigsleep": "/bin/true",
        "sigsleep_log": str(folder / "sigsleep.log"),
        "clock": None,
        "speed": 1,
        "sample_interval": 10,
    }
    (folder / "run.json").write_text(json.dumps(settings))
    user = pwd.getpwuid(os.geteuid()).pw_name
    yield {"instance": str(tmp_path), "run": "first", "user": user, "package_path": str(ROOT / "module_utils")}
    replay = lock_holder(tmp_path, "first")
    if replay is not None:
        os.kill(replay[0], signal.SIGKILL)


def info(params: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"instance": params["instance"], "run": params["run"], **more}


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    # A thread that starts a program may reap the process first.
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)


def test_a_replay_is_started_followed_and_stopped(call: Any, params: dict[str, Any]) -> None:
    assert call("slurm_replay", check=True, **params) == {"changed": True, "running": True, "invocation": ANY}
    before = {"changed": False, "running": False, "failure": "", "progress": {}, "invocation": ANY}
    assert call("slurm_replay_info", **info(params)) == before
    started = call("slurm_replay", **params)
    assert started["changed"] and started["running"]
    assert os.getsid(started["pid"]) == started["pid"], "it is detached"
    environment = Path(f"/proc/{started['pid']}/environ").read_bytes().split(b"\0")
    assert f"SLURM_MIRAGE_INSTANCE={params['instance']}".encode() in environment
    again = call("slurm_replay", **params)
    assert (again["changed"], again["pid"]) == (False, started["pid"])

    until(Path(params["instance"], "runs", "first", "progress.json").exists)
    seen = call("slurm_replay_info", **info(params, wait=0.3))
    assert seen["running"] and seen["progress"]["phase"] == "waiting"

    assert call("slurm_replay", check=True, state="stopped", **params)["changed"]
    replay = lock_holder(Path(params["instance"]), "first")
    assert replay is not None and replay[0] == started["pid"], "a check changes nothing"
    assert call("slurm_replay", state="stopped", **params)["changed"]
    assert not call("slurm_replay", state="stopped", **params)["changed"]
    seen = call("slurm_replay_info", **info(params, wait=60))
    assert not seen["running"] and seen["progress"]["phase"] == "stopped"


def test_a_killed_replay_is_reported_and_started_again(call: Any, params: dict[str, Any]) -> None:
    pid = call("slurm_replay", **params)["pid"]
    progress = Path(params["instance"], "runs", "first", "progress.json")
    until(progress.exists)
    end(pid)
    seen = call("slurm_replay_info", **info(params, wait=60))
    assert not seen["running"]
    assert seen["progress"]["message"] == "the replay was killed; the same command goes on"
    again = call("slurm_replay", **params)
    assert again["changed"] and again["pid"] != pid


def test_a_finished_run_is_not_started_again(call: Any, params: dict[str, Any]) -> None:
    folder = Path(params["instance"], "runs", "first")
    start = start_event()
    (folder / "journal.jsonl").write_text(f"{json.dumps(start)}\n{json.dumps({'event': 'finished', 'real': 2.0})}\n")
    result = call("slurm_replay", **params)
    assert (result["changed"], result["running"]) == (False, False)


def test_the_error_says_why_a_replay_does_not_start(call: Any, params: dict[str, Any]) -> None:
    folder = Path(params["instance"], "runs", "first")
    (folder / "run.json").write_text("{}")
    result = call("slurm_replay", **params)
    assert result["failed"] and result["msg"] == f"wrong use: {folder}/run.json: 'run' is missing"


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"run": "second"}, "holds no plan.csv"), ({"user": "nobody-at-all"}, "user: there is no account nobody-at-all")],
)
def test_wrong_use(call: Any, params: dict[str, Any], changes: dict[str, str], message: str) -> None:
    result = call("slurm_replay", **{**params, **changes})
    assert result["failed"] and result["msg"].startswith("wrong use: ") and message in result["msg"]


@pytest.mark.skipif(os.geteuid() != 0, reason="skipped: only root can become another user")
def test_the_replay_runs_as_its_user(call: Any, params: dict[str, Any]) -> None:
    nobody = pwd.getpwnam("nobody")
    package = Path(params["instance"], "lib")
    shutil.copytree(ROOT / "module_utils" / "slurm_mirage", package / "slurm_mirage", ignore=left_out)
    for path in [Path(params["instance"]), *Path(params["instance"]).rglob("*")]:
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    for parent in Path(params["instance"]).parents:
        if parent.stat().st_uid == os.geteuid() and "pytest" in str(parent):
            parent.chmod(parent.stat().st_mode | 0o111)
    params.pop("package_path")  # by default the instance's own
    pid = call("slurm_replay", **{**params, "user": "nobody", "python": "/usr/bin/python3"})["pid"]
    status = Path(f"/proc/{pid}/status").read_text()
    assert f"Uid:\t{nobody.pw_uid}\t{nobody.pw_uid}\t{nobody.pw_uid}" in status
    assert f"Groups:\t{nobody.pw_gid}" in status
    assert (Path(params["instance"]) / "runs" / "first" / "replay.log").stat().st_uid == nobody.pw_uid
    end(pid)


class _Any:
    def __eq__(self, other: object) -> bool:
        return True


ANY = _Any()


@pytest.mark.parametrize("found", ["a symbolic link", "a FIFO"])
def test_a_log_that_is_no_file_is_refused(call: Any, params: dict[str, Any], tmp_path: Path, found: str) -> None:
    log, secret = Path(params["instance"], "runs/first/replay.log"), tmp_path / "secret"
    secret.write_text("secret")
    if found == "a FIFO":
        os.mkfifo(log)
    else:
        log.symlink_to(secret)
    result = call("slurm_replay", **params)
    assert result["failed"] and result["msg"] == f"{log}: is {found}; remove it"
    assert secret.read_text() == "secret"


def test_only_the_replay_gets_a_signal(call: Any, params: dict[str, Any]) -> None:
    """The lock names a process that is not the instance's: it is neither believed nor ended."""
    with subprocess.Popen(["sleep", "1000"]) as other:
        lock = Path(params["instance"], "runs/first/replay.lock")
        lock.write_text(f"{other.pid} {start_time(other.pid)}\n")
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert not call("slurm_replay_info", **info(params))["running"]
            assert not call("slurm_replay", state="stopped", **params)["changed"]
        assert other.poll() is None
        other.kill()


def test_progress_that_is_garbage(call: Any, params: dict[str, Any]) -> None:
    progress = Path(params["instance"], "runs/first/progress.json")
    progress.write_bytes(b"\xff garbage")
    assert call("slurm_replay_info", **info(params))["msg"] == f"{progress}: is not UTF-8 text at byte 0"
    progress.unlink()
    os.mkfifo(progress)
    assert call("slurm_replay_info", **info(params))["msg"] == f"{progress}: is a FIFO; remove it"
