"""The test bed's exception, its progress messages, and a function that runs commands of this machine."""

from __future__ import annotations

import subprocess
import time

_started = time.monotonic()


class BedError(Exception):
    """An operation of the test bed failed. The message is printed to the user."""


def say(text: str) -> None:
    """Print a progress message with the seconds since the start."""
    print(f"{time.monotonic() - _started:6.1f} s  {text}", flush=True)


def run(*command: str, given: str | None = None) -> str:
    """Run a command of this machine, with `given` as its input, and return its output. Raises BedError with its error message."""
    try:
        result = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise BedError(f"{command[0]} is missing on this machine (.ci/run installs what the tests need)") from error
    if result.returncode != 0:
        output = (result.stderr or result.stdout).strip()
        raise BedError(f"{' '.join(command)}: {output or f'exit code {result.returncode}'}")
    return result.stdout
