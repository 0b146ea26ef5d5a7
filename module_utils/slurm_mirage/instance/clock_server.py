"""Starts and stops the server that answers other hosts about the head's clock. For root."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import processes
from ..base.errors import WrongUse

PROGRAM = "slurm_mirage.programs.clock_answers"
STOP_TIMEOUT = 5.0  # seconds between SIGTERM and SIGKILL


def start(directory: Path, parameters: Mapping[str, Any]) -> int:
    """Restart the server with the parameters of the module clock_answers; returns its port.

    Raises RuntimeError when it does not start, and WrongUse when there is no such account.
    """
    stop(directory)
    try:
        account = pwd.getpwnam(parameters["user"])
    except KeyError:
        raise WrongUse(f"user={parameters['user']}: there is no such account") from None
    ids: dict[str, Any] = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    server = subprocess.Popen(
        [parameters["python"], "-m", PROGRAM, *(str(parameters[name]) for name in ("address", "port", "ports", "seconds"))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        cwd="/",
        env=processes.python_environment(directory),
        text=True,
        **ids,
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    if line.strip().isdecimal():
        return int(line)
    output = (line + server.stdout.read()).strip().splitlines() or [f"exit {server.wait()}"]
    raise RuntimeError(f"the clock server does not start: {output[-1]}")


def stop(directory: Path) -> None:
    """Stop the instance's server, if it runs."""
    running = processes.of_instance(str(directory)) if (directory / "run").is_dir() else {}
    processes.end({pid: began for pid, began in running.items() if PROGRAM in processes.command_line(pid)}, STOP_TIMEOUT)
