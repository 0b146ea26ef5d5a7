#!/usr/bin/python
"""Ansible module: starts and stops the replay of a workload on the head."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_replay
short_description: Start or stop the replay of a workload
description:
  - Starts the program that submits the jobs in the run's C(plan.csv) at their submission times, as the instance's user and detached
    from Ansible, and returns when it has started. M(slurm_replay_info) returns its progress.
  - A replay that was stopped or killed, or has failed, is continued. A running or finished replay is not changed.
options:
  instance:
    description: Directory of the instance.
    type: path
    required: true
  run:
    description: Name of the run, a folder below C(runs) in the instance that contains C(plan.csv) and C(run.json).
    type: str
    required: true
  user:
    description: Unprivileged account of the replay. It owns the run's folder.
    type: str
    required: true
  state:
    description: Whether the replay runs. V(stopped) ends the replay but not the jobs that it has submitted.
    type: str
    choices: [started, stopped]
    default: started
  python:
    description: Python interpreter (3.9 or later) that runs the replay. The default is that of this module.
    type: path
  package_path:
    description: Folder on the host that contains the package C(slurm_mirage). The default is C(lib) in the instance.
    type: path
  timeout:
    description: Seconds to wait until the replay has started or ended.
    type: int
    default: 60
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Replay the workload
  slurm_replay:
    instance: /var/lib/slurm-mirage/mirage
    run: first
    user: slurm-mirage

- name: Stop the replay; the task above continues it
  slurm_replay:
    instance: /var/lib/slurm-mirage/mirage
    run: first
    user: slurm-mirage
    state: stopped
"""

RETURN = r"""
running:
  description: Whether the replay runs (in check mode, whether it would run).
  returned: success
  type: bool
pid:
  description: Process id of the replay.
  returned: when the replay runs
  type: int
  sample: 4711
"""

import os
import pwd
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base import processes, strict_json, user_folders
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.processes import INSTANCE_VARIABLE
from ansible.module_utils.slurm_mirage.base.run_lock import lock_holder
from ansible.module_utils.slurm_mirage.base.strict_json import OBJECT, NotStrict
from ansible.module_utils.slurm_mirage.clock import instance_clock
from ansible.module_utils.slurm_mirage.clock.event_clock import SPEED
from ansible.module_utils.slurm_mirage.farm.network import entrance
from ansible.module_utils.slurm_mirage.rm.api import Unavailable

LAST_BYTES = 65536  # of a file, of which only the last line is read


def last_line(directory: Path, run: str, name: str) -> str:
    """The last line of a file of the run; empty if it has none. Raises WrongUse and FileNotFoundError."""
    descriptor = user_folders.open_file(directory, f"runs/{run}/{name}")
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - LAST_BYTES))
        lines = file.read(LAST_BYTES).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def is_finished(directory: Path, run: str) -> bool:
    """Whether the run is finished according to the last line of its journal. Raises WrongUse."""
    try:
        last: dict[str, Any] = strict_json.parse(last_line(directory, run, "journal.jsonl"), OBJECT)
    except (FileNotFoundError, NotStrict):  # the replay itself says what is wrong with its journal
        return False
    return last.get("event") == "finished"


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


def launch(directory: Path, params: dict[str, Any]) -> subprocess.Popen[bytes]:
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


def start(directory: Path, params: dict[str, Any]) -> int | None:
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


def stop(directory: Path, run: str, replay: tuple[int, int], timeout: int) -> None:
    """Send SIGTERM to the replay, (process id, start time), and wait for its end. Raises WrongUse after `timeout` seconds."""
    processes.send(*replay, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while lock_holder(directory, run) == replay:
        if time.monotonic() > deadline:
            raise WrongUse(f"timeout: the replay (process {replay[0]}) had not ended after {timeout} s")
        time.sleep(0.05)


def apply(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the replay into the wanted state; returns the module's result. Raises WrongUse."""
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


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "path", "required": True},
            "run": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
            "python": {"type": "path"},
            "package_path": {"type": "path"},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    try:
        result = apply(module.params, module.check_mode)
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except (OSError, Unavailable) as error:
        module.fail_json(msg=f"failed: {error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
