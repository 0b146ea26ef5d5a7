"""Writes lines to the terminal: permanent lines, and one live line that is rewritten.

A caller gives each line by itself. It may hold text from outside: what is no printable character is escaped here.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from mirage.text.words import about
from slurm_mirage.base.printing import one_line
from slurm_mirage.replay.real_left import real_left
from slurm_mirage.rm.managers import NODE_KINDS

# Without a terminal: seconds without output after which a live line is written. The interval doubles with each live line, up to the
# longest. CI systems end a program that writes nothing for ten minutes.
BETWEEN_LINES, LONGEST_BETWEEN_LINES = 30.0, 300.0


class Screen:
    """Writes to a terminal, or to a file or pipe, where the live line is written as an ordinary line from time to time."""

    def __init__(self, stream: TextIO | None = None, between_lines: float = BETWEEN_LINES) -> None:
        self.stream = stream or sys.stdout
        self.is_terminal = self.stream.isatty()
        self.between_lines = between_lines
        self._live = False
        self._last_text = ""
        self._begin_interval(between_lines)

    def say(self, *lines: str) -> None:
        """Write permanent lines."""
        self.clear()
        self._write("".join(f"{one_line(line)}\n" for line in lines))
        self._begin_interval(self.between_lines)

    def tell(self, text: str) -> None:
        """Write a permanent line with the title, where there is one."""
        self.say(self._titled(text))

    def say_in_log(self, text: str) -> None:
        """Write a permanent line if there is no terminal. A terminal has shown its content as live lines."""
        if not self.is_terminal:
            self.say(self._titled(text))

    def live(self, text: str, in_log: str | None = None) -> None:
        """Write a live line, which the next line replaces.

        Without a terminal it is an ordinary line, written only if nothing else was written for some time.
        in_log: the text without a terminal, instead of `text`.
        """
        if self.is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r\x1b[K{one_line(self._titled(text))[:width]}")
            self._live = True
            return
        line = self._titled(text if in_log is None else in_log)
        if line != self._last_text and time.monotonic() - self._interval_began >= self._interval:
            self._write(f"{one_line(line)}\n")
            self._last_text = line
            self._begin_interval(min(2 * self._interval, LONGEST_BETWEEN_LINES))

    def _titled(self, text: str) -> str:
        """`text` as it is written; subclasses add a title."""
        return text

    def _begin_interval(self, seconds: float) -> None:
        self._interval, self._interval_began = seconds, time.monotonic()

    def clear(self) -> None:
        """Remove the live line."""
        if self._live:
            self._live = False
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            # The reader has closed the pipe (`make metrics ... | head`), or the terminal was closed: continue without output.
            with Path(os.devnull).open("w") as null:
                os.dup2(null.fileno(), self.stream.fileno())


def time_left(progress: Mapping[str, Any]) -> str | None:
    """The remaining time of a run in progress.json: `about 4 to 6 min left`, and why it became longer; None if it is not known."""
    left = real_left(progress)
    if left is None or not progress["time_left_most"]:
        return None
    first, last = map(about, left)
    if first.split()[1:] == last.split()[1:] and len(last.split()) == 2:
        first = first.split()[0]
    words = f"about {last} left" if first in (last, last.split()[0]) else f"about {first} to {last} left"
    cause = progress.get("time_left_cause")
    return f"{words} (longer than before: {cause})" if cause else words


def _part_done(done: int, wanted: int, rate: float | None) -> str:
    """Number done, rate and remaining time: `1840 of 3600, 95/s, 19 s left`."""
    parts = [f"{done} of {wanted}"]
    if rate:
        parts += [f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s", f"{about((wanted - done) / rate)} left"]
    return ", ".join(parts)


def start_line(farm: Mapping[str, Any]) -> str | None:
    """Progress of the daemons' start, from the state of the farm; None if the farm is not starting."""
    if farm["phase"] != "starting":
        return None
    if farm["leaving"]:
        return f"ending daemons: {farm['leaving']} left"
    nodes = next((farm["daemons"][kind] for kind in NODE_KINDS if kind in farm["daemons"]), {"ready": 0, "wanted": 0})
    # Waits of one or two seconds are normal: the start is limited to the rate at which memory is freed.
    if (waiting := farm["waiting_for_memory"] or 0) > 2:
        return f"starting nodes: {nodes['ready']} of {nodes['wanted']}, waiting for memory for {waiting} s"
    return f"starting nodes: {_part_done(nodes['ready'], nodes['wanted'], farm['rate'])}"


def registration_line(registered: int, wanted: int, rate: float | None) -> str:
    """Progress of the registration of nodes: number registered, of the number wanted."""
    return f"registered: {_part_done(registered, wanted, rate)}"


def progress_line(progress: Mapping[str, Any]) -> str:
    """The replay's progress.json as one line: `replay: 132/200 submitted, 40 running, 3 pending, ...`."""
    parts = [f"{progress.get('submitted', 0)}/{progress.get('jobs', 0)} submitted"]
    if (left := time_left(progress)) is not None:
        # Early in the line, because a narrow terminal cuts its end off.
        parts.append(left)
    parts += [f"{progress.get(key, 0)} {key}" for key in ("running", "pending", "done")]
    if (lag := progress.get("lag")) is not None:
        parts.append(f"lag {lag:.2f} s")
    for key, word in (
        ("retries", "retries"),
        ("resubmitted", "submitted again"),
        ("nodes_not_responding", "nodes silent"),
    ):
        if progress.get(key):
            parts.append(f"{progress[key]} {word}")
    return "replay: " + ", ".join(parts)
