"""The end of a command, with a limit in real seconds also for a program that lives on an event clock.

There a wait with a limit is one of the cluster's time: Python looks at the end of a process each millisecond or so of it, which
would make the instants of submissions depend on the host.
"""

from __future__ import annotations

import subprocess
import threading
from typing import Any, TypeVar

from . import real_time

Text = TypeVar("Text", str, bytes)


def communicate(process: subprocess.Popen[Text], text: Text | None, limit: float) -> tuple[Text, Text]:
    """As Popen.communicate: give a process its input, and wait for its end, `limit` real seconds at most.

    Raises subprocess.TimeoutExpired.
    """
    if not real_time.is_preloaded():
        return process.communicate(text, timeout=limit)
    has_ended, is_late = threading.Event(), threading.Event()

    def watch() -> None:
        if not real_time.pause(has_ended, limit):
            is_late.set()
            process.kill()

    watcher = threading.Thread(target=watch, name="limit", daemon=True)
    watcher.start()
    try:
        answer = process.communicate(text)
    finally:
        has_ended.set()
    if is_late.is_set():
        raise subprocess.TimeoutExpired(process.args, limit)
    return answer


def run(command: list[str], text: str, limit: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """As subprocess.run with input, captured output and without a check: run a command, for `limit` real seconds at most.

    Raises subprocess.TimeoutExpired, with the command killed, and OSError.
    """
    pipe = subprocess.PIPE
    process: subprocess.Popen[str]
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe, **options) as process:
        try:
            output, complaint = communicate(process, text, limit)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(command, process.returncode, output, complaint)
