"""Starts the farm of an instance, as a unit of systemd where there is one, and ends it again. For root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ..base import processes, user_folders
from .running import PROGRAM


def unit_of(directory: Path) -> str:
    """Name of the farm's unit of systemd, for the instance in `directory`."""
    return f"slurm-farm@{directory.name}.service"


def has_systemd() -> bool:
    """Whether PID 1 is systemd (sd_booted(3))."""
    return Path("/run/systemd/system").is_dir()


def is_enabled(directory: Path) -> bool:
    """Whether systemd would start the farm at boot."""
    return has_systemd() and _systemctl("is-enabled", "--quiet", unit_of(directory)).returncode == 0


def enable(directory: Path) -> None:
    """Let systemd start the farm, now and at boot. Raises RuntimeError."""
    _change("enable", directory)


def disable(directory: Path) -> None:
    """Let systemd end the farm, and not start it at boot. Raises RuntimeError."""
    _change("disable", directory)


def start(directory: Path, python: str) -> None:
    """Start the farm; `python` is its interpreter where there is no systemd. Raises WrongUse and RuntimeError."""
    if has_systemd():
        enable(directory)
        return
    with os.fdopen(_open_log(directory), "ab") as log:
        subprocess.Popen(
            [python, "-m", PROGRAM, "run", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env=processes.python_environment(directory),
        )


def _open_log(directory: Path) -> int:
    """Open the farm's log. Raises WrongUse if it is not a regular file."""
    try:
        return user_folders.open_file(directory, "log/farm.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        raise RuntimeError(f"{directory}/log/farm.log cannot be written: {error.strerror}") from error


def _change(verb: str, directory: Path) -> None:
    done = _systemctl(verb, "--now", unit_of(directory))
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or done.stdout.strip())


def _systemctl(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
