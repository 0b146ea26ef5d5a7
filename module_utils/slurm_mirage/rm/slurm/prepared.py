"""sbatch processes that were started before their jobs are due, and wait for their scripts at a pipe.

sbatch without --wrap reads its script from its standard input, up to the end of it. In all releases from 16.05 to 26.05 it does so
after it has read slurm.conf, loaded its first plugins and looked at its options, and before it asks the controller for anything. So
a prepared sbatch has nothing left to do but the request itself.

What makes this safe:
* Without a script sbatch ends and submits nothing ("Batch script is empty"). If this process is killed, its pipes end.
* A script is written at once, and is not longer than what a pipe takes completely or not at all (PIPE_BUF, pipe(7)): no part of one
  is ever submitted.
* A job's id is known before the next process gets its script: ids are in the order of the calls.
"""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from ...clock import real_limit
from ..api import SUBMIT_TIMEOUT

Process = subprocess.Popen[str]

WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{}\n"
"""The script that sbatch makes of the argument of --wrap, in all releases."""


def script_of(command: str) -> bytes | None:
    """The script that `sbatch --wrap` makes of a command; None if a pipe does not take it at once, or sbatch could read options in
    it, which it looks for at the beginnings of lines."""
    script = WRAPPED.format(command).encode(errors="surrogateescape")
    is_one_line = not any(character in command for character in "\0\n\r")
    return script if is_one_line and command.lstrip()[:1] not in ("", "#") and len(script) <= select.PIPE_BUF else None


class Prepared:
    """The processes that wait for the scripts of the jobs that are expected, by their options. One thread uses it.

    `start` starts a process with these options, and pipes for its standard input, output and error output. Raises OSError.
    """

    def __init__(self, start: Callable[[Sequence[str]], Process]) -> None:
        self._start = start
        self._expected: list[tuple[str, ...]] = []
        self._waiting: dict[tuple[str, ...], Process] = {}

    def expect(self, expected: Iterable[Sequence[str]]) -> None:
        """Jobs with these options come next, and no others: end the processes that wait for others."""
        self._expected = [tuple(options) for options in expected]
        for options in [options for options in self._waiting if options not in self._expected]:
            end(self._waiting.pop(options))

    def take(self, options: Sequence[str]) -> Process | None:
        """The process that waits for the script of the job with these options, which is not expected any more; None if there is
        none, or if it has ended."""
        key = tuple(options)
        if key in self._expected:
            self._expected.remove(key)
        process = self._waiting.pop(key, None)
        if process is not None and process.poll() is not None:
            end(process)
            return None
        return process

    def start_expected(self) -> None:
        """Start a process for each expected job that has none. A job whose process cannot be started has none."""
        for options in self._expected:
            if options not in self._waiting:
                with suppress(OSError):
                    self._waiting[options] = self._start(options)

    def release(self, process: Process, script: bytes) -> subprocess.CompletedProcess[str]:
        """Give a process its script, start those that are expected next, and wait for the end of the process.

        Raises subprocess.TimeoutExpired, after SUBMIT_TIMEOUT real seconds; the process is ended then.
        """
        try:
            pipe, process.stdin = process.stdin, None
            assert pipe is not None
            with suppress(BrokenPipeError):  # it has ended; its exit code says how
                os.write(pipe.fileno(), script)
            pipe.close()
            self.start_expected()
            output, complaint = real_limit.communicate(process, None, SUBMIT_TIMEOUT)
        except BaseException:
            end(process)
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, output, complaint)


def end(process: Process) -> None:
    """Kill a process, if it still runs, and wait for its end."""
    with process:
        process.kill()
