"""What every part of the test bed needs: its one error, commands of the host, and progress for those who wait."""

from __future__ import annotations

import subprocess
import time

_started = time.monotonic()


class BedError(Exception):
    """The host cannot do what the bed needs; the message is what the user reads."""


def say(text: str) -> None:
    """Tell what happens, with the seconds since the start."""
    print(f"{time.monotonic() - _started:6.1f} s  {text}", flush=True)


def run(*command: str, given: str | None = None) -> str:
    """Output of a command of the host; a failure is a BedError with what the command said."""
    try:
        result = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise BedError(f"{command[0]} is missing on this machine (.ci/run installs what the tests need)") from error
    if result.returncode != 0:
        said = (result.stderr or result.stdout).strip()
        raise BedError(f"{' '.join(command)}: {said or f'exit code {result.returncode}'}")
    return result.stdout
