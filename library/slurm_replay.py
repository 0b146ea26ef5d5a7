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
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.processes import INSTANCE_VARIABLE
from ansible.module_utils.slurm_mirage.base.run_lock import lock_holder
from ansible.module_utils.slurm_mirage.replay.journal import replay_lines


def is_finished(folder: Path) -> bool:
    """Whether the run is finished according to its journal."""
    try:
        return replay_lines((folder / "journal.jsonl").read_bytes())[0].finished
    except FileNotFoundError:
        return False


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


def launch(folder: Path, params: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start the program in its own session, with standard output and standard error in replay.log."""
    user_arguments = identity(params["user"])
    descriptor = os.open(folder / "replay.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        if user_arguments:
            os.fchown(descriptor, user_arguments["user"], user_arguments["group"])
        return subprocess.Popen(
            [params["python"] or sys.executable, "-m", "slurm_mirage.programs.replay", str(folder)],
            env={
                "PATH": "/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "PYTHONPATH": params["package_path"] or f"{params['instance']}/lib",
                INSTANCE_VARIABLE: params["instance"],
            },
            cwd=params["instance"],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            **user_arguments,
        )
    finally:
        os.close(descriptor)


def start(folder: Path, params: dict[str, Any]) -> int | None:
    """Start the replay and wait until it has locked its folder; returns its process id, or None if it has already finished.

    Raises WrongUse with the last line of its log if it did not start.
    """
    process = launch(folder, params)
    deadline = time.monotonic() + params["timeout"]
    while lock_holder(folder / "replay.lock") != process.pid:
        if process.poll() == 0:
            return None
        if process.returncode is not None:
            lines = (folder / "replay.log").read_text(errors="replace").strip().splitlines()
            raise WrongUse((lines or ["it ended without a word"])[-1].replace("wrong use: ", ""))
        if time.monotonic() > deadline:
            raise WrongUse(f"timeout: the replay (process {process.pid}) had not begun after {params['timeout']} s")
        time.sleep(0.02)
    return process.pid


def stop(folder: Path, pid: int, timeout: int) -> None:
    """Send SIGTERM to the replay and wait until it has ended. Raises WrongUse after `timeout` seconds."""
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while lock_holder(folder / "replay.lock") == pid:
        if time.monotonic() > deadline:
            raise WrongUse(f"timeout: the replay (process {pid}) had not ended after {timeout} s")
        time.sleep(0.05)


def apply(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the replay into the wanted state; returns the module's result. Raises WrongUse."""
    folder = Path(params["instance"]) / "runs" / params["run"]
    pid = lock_holder(folder / "replay.lock")
    wanted = params["state"] == "started"
    if wanted and not (folder / "plan.csv").exists():
        raise WrongUse(f"run: {folder} holds no plan.csv")
    changed = pid is None and not is_finished(folder) if wanted else pid is not None
    if not changed:
        return {"changed": False, "running": pid is not None, **({"pid": pid} if pid else {})}
    if check_mode:
        return {"changed": True, "running": wanted}
    if wanted:
        pid = start(folder, params)
        return {"changed": True, "running": pid is not None, **({"pid": pid} if pid else {})}
    assert pid is not None
    stop(folder, pid, params["timeout"])
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
    except OSError as error:
        module.fail_json(msg=f"failed: {error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
