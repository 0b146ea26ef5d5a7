"""Starts, stops and follows the replay of a run, a process of the instance's user. For root."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import processes, strict_json, user_folders
from ..base.disk import no_space
from ..base.errors import WrongUse
from ..base.processes import INSTANCE_VARIABLE
from ..base.run_files import PROGRESS
from ..base.run_lock import lock_holder
from ..base.strict_json import OBJECT, NotStrict
from ..clock import instance_clock
from ..clock.event_clock import SPEED
from ..farm.events import full_folders, read_events
from ..farm.farm import failure_of, read_state
from ..farm.network import entrance
from ..rm.managers import DAEMON_KINDS

LAST_BYTES = 65536  # of a file, of which only the last line is read
ENDED = ("finished", "failed", "stopped")
NEEDED = [name for name, kind in DAEMON_KINDS.items() if kind.is_prerequisite or kind.is_controller]
"""Kinds of daemons that a replay needs."""
SIGN_WITHIN = 5.0  # seconds before the last progress of a replay in which its disk may have become full
FAILING_FOR = 10.0  # seconds for which a daemon has to fail before the wait ends


def apply(params: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the replay into the wanted state; returns what the module slurm_replay returns, by its parameters.

    Raises WrongUse, Unavailable and OSError.
    """
    directory, run = Path(params["instance"]), params["run"]
    replay = lock_holder(directory, run)
    pid = replay[0] if replay else None
    wanted = params["state"] == "started"
    if wanted and user_folders.status(directory, f"runs/{run}/plan.csv") is None:
        raise WrongUse(f"run: {directory}/runs/{run} holds no plan.csv")
    changed = pid is None and not is_finished(directory, run) if wanted else pid is not None
    if not changed:
        return {"changed": False, "running": pid is not None, **({"pid": pid} if pid else {})}
    if check_mode:
        return {"changed": True, "running": wanted}
    if wanted:
        pid = start(directory, params)
        return {"changed": True, "running": pid is not None, **({"pid": pid} if pid else {})}
    assert replay is not None
    stop(directory, run, replay, params["timeout"])
    return {"changed": True, "running": False}


def start(directory: Path, params: Mapping[str, Any]) -> int | None:
    """Start the replay and wait until it has locked its folder; returns its process id, or None if it has already finished.

    Raises WrongUse with the last line of its log if it did not start.
    """
    process = launch(directory, params)
    deadline = time.monotonic() + params["timeout"]
    while (holder := lock_holder(directory, params["run"])) is None or holder[0] != process.pid:
        if process.poll() == 0:
            return None
        if process.returncode is not None:
            raise WrongUse(
                (last_line(directory, params["run"], "replay.log") or "it ended without a word").replace("wrong use: ", "")
            )
        if time.monotonic() > deadline:
            raise WrongUse(f"timeout: the replay (process {process.pid}) had not begun after {params['timeout']} s")
        time.sleep(0.02)
    return process.pid


def launch(directory: Path, params: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Start the program in its own session, with standard output and standard error in replay.log. Raises WrongUse, Unavailable."""
    user_arguments = identity(params["user"])
    owner = (user_arguments["user"], user_arguments["group"]) if user_arguments else None
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    python = params["python"] or sys.executable
    settings = user_folders.read_json(directory, f"runs/{params['run']}/run.json") or {}
    on_event_clock = settings.get("clock_kind") == SPEED
    descriptor = user_folders.open_file(directory, f"runs/{params['run']}/replay.log", flags, 0o644, owner)
    try:
        with entrance(directory) as inside:
            if inside.words:  # which change to the user themselves
                user_arguments = {}
            return subprocess.Popen(
                [*inside.words, python, "-m", "slurm_mirage.programs.replay", str(directory / "runs" / params["run"])],
                env={
                    "PATH": "/usr/bin:/bin",
                    "LANG": "C.UTF-8",
                    "PYTHONPATH": params["package_path"] or f"{params['instance']}/lib",
                    INSTANCE_VARIABLE: params["instance"],
                    **(instance_clock.environment(directory) if on_event_clock else {}),
                },
                cwd=params["instance"],
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
                pass_fds=inside.descriptors,
                **user_arguments,
            )
    finally:
        os.close(descriptor)


def stop(directory: Path, run: str, replay: tuple[int, int], timeout: int) -> None:
    """Send SIGTERM to the replay, (process id, start time), and wait for its end. Raises WrongUse after `timeout` seconds."""
    processes.send(*replay, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while lock_holder(directory, run) == replay:
        if time.monotonic() > deadline:
            raise WrongUse(f"timeout: the replay (process {replay[0]}) had not ended after {timeout} s")
        time.sleep(0.05)


def is_finished(directory: Path, run: str) -> bool:
    """Whether the run is finished according to the last line of its journal. Raises WrongUse."""
    try:
        last: dict[str, Any] = strict_json.parse(last_line(directory, run, "journal.jsonl"), OBJECT)
    except (FileNotFoundError, NotStrict):  # the replay itself says what is wrong with its journal
        return False
    return last.get("event") == "finished"


def last_line(directory: Path, run: str, name: str) -> str:
    """The last line of a file of the run; empty if it has none. Raises WrongUse and FileNotFoundError."""
    descriptor = user_folders.open_file(directory, f"runs/{run}/{name}")
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - LAST_BYTES))
        lines = file.read(LAST_BYTES).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def identity(user: str) -> dict[str, Any]:
    """Arguments of subprocess.Popen that change to `user`; empty if this process runs as that user. Raises WrongUse."""
    try:
        account = pwd.getpwnam(user)
    except KeyError as error:
        raise WrongUse(f"user: there is no account {user}") from error
    if os.geteuid() == account.pw_uid:
        return {}
    groups = os.getgrouplist(user, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}


def follow(directory: Path, run: str, wait: float) -> dict[str, Any]:
    """Wait until the replay has ended or cannot go on, at most `wait` seconds; returns as `state_of`.

    Raises WrongUse and OSError.
    """
    deadline = time.monotonic() + wait
    well = time.monotonic()
    while True:
        result = state_of(directory, run)
        if not result["running"]:
            return result
        failure, now = failure_of_daemons(directory) or lack_of_state_space(directory), time.monotonic()
        if not failure:
            well = now
        elif now - well >= min(FAILING_FOR, wait):
            return {**result, "failure": failure}
        if now >= deadline:
            return result
        time.sleep(min(deadline - now, 0.2))


def state_of(directory: Path, run: str) -> dict[str, Any]:
    """Whether the replay runs, its progress, and why it cannot go on, as slurm_replay_info returns it. Raises WrongUse."""
    running = lock_holder(directory, run) is not None
    progress = user_folders.read_json(directory, f"runs/{run}/progress.json", PROGRESS) or {}
    failure = ""
    if progress and not running and progress.get("phase") != "finished":
        if progress.get("phase") not in ENDED:
            progress["message"] = "the replay was killed; the same command goes on"
        failure = lack_of_space(directory, progress.get("real")) or failure_of_daemons(directory)
    return {"changed": False, "running": running, "failure": failure, "progress": progress}


def lack_of_space(directory: Path, since: Any) -> str:
    """Error message for a folder of the instance that is full, or was at the last sign of the replay, `since` (real seconds)."""
    full = [str(path) for path in full_folders(directory).values()]
    if isinstance(since, (int, float)):
        full += [event["path"] for event in read_events(directory, since - SIGN_WITHIN) if event["event"] == "full"]
    return no_space(full[0]) if full else ""


def failure_of_daemons(directory: Path) -> str:
    """Error message for a daemon that the replay needs and that does not start."""
    state = read_state(directory)
    return "" if state is None else failure_of(state, directory, NEEDED)


def lack_of_state_space(directory: Path) -> str:
    """Error message for a folder that is full and without which the controller accepts no job and starts none."""
    full = [path for path in full_folders(directory).values() if path.name != "log"]
    return no_space(full[0]) if full else ""
