"""Waits until /proc shows what a process was started with."""

from __future__ import annotations

import subprocess
import time
from typing import Any, TypeVar

from slurm_mirage.base import processes

Process = TypeVar("Process", bound="subprocess.Popen[Any]")


def visible(process: Process) -> Process:
    """The process, as soon as /proc shows its arguments and its environment, which it must have.

    Popen returns when the new program has taken the place of the old one. The kernel shows the new arguments only a moment later,
    and on a busy machine that moment lasts.
    """
    while not (processes.command_line(process.pid) and processes.environment(process.pid)):
        assert process.poll() is None
        time.sleep(0.001)
    return process
