"""The scheduling cycles in the scheduler's log.

The log has an event at the beginning and at the end of each cycle, and one for each job that it considers, if the events of
debugging are among those that the scheduler logs.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from .records import printed_instant

_CYCLE = re.compile(
    r"(?P<date>\d\d/\d\d/\d{4} \d\d:\d\d:\d\d)(?P<fraction>\.\d{6})?;[0-9a-f]+;pbs_sched;(?:Req|Job);[^;]*;"
    r"(?P<what>Starting Scheduling Cycle|Leaving Scheduling Cycle|Considering job to run)"
)
LOOK_BACK = 1 << 20
"""Bytes at the end of the log in which the last cycle is looked for at first."""


@dataclass
class SchedulerLog:
    """Lengths of the scheduling cycles, from the scheduler's log as it grows. Its files are named by days of the virtual clock."""

    folder: Path
    last_us: int | None = None
    """Length of the last complete cycle, in virtual microseconds."""
    jobs: int | None = None
    """Number of jobs that the last complete cycle considered."""
    max_us: int | None = None
    cycles: int = 0
    """The longest cycle, and the number of cycles, since the first call of `update`."""
    _read: dict[str, int] = field(default_factory=dict)
    """Bytes of each file that have been read."""
    _is_open: bool = False
    _began: float | None = None
    _considered: int = 0

    def update(self) -> None:
        """Read what was written since the last call; the first one reads only the end of the log."""
        files = self._files()
        is_first, self._is_open = not self._is_open, True
        if is_first:
            self._read = {path.name: path.stat().st_size for path in files[:-1]}
        for path in files:
            self._read_on(path, is_first)
        if is_first:
            self.max_us, self.cycles = None, 0

    def _files(self) -> list[Path]:
        try:
            return sorted(path for path in self.folder.iterdir() if path.name.isdigit())
        except OSError:
            return []

    def _read_on(self, path: Path, only_end: bool) -> None:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            done = self._read.get(path.name, max(0, size - LOOK_BACK) if only_end else 0)
            stream.seek(done)
            data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read[path.name] = done + len(whole)
        for line in whole.decode(errors="replace").split("\n"):
            if (match := _CYCLE.match(line)) is not None:
                self._take(match)

    def _take(self, match: re.Match[str]) -> None:
        at = (printed_instant(match["date"]) or 0) + float(match["fraction"] or 0)
        if match["what"].startswith("Starting"):
            self._began, self._considered = at, 0
        elif match["what"].startswith("Considering"):
            self._considered += 1
        elif self._began is not None:
            self.last_us, self.jobs = round((at - self._began) * 1e6), self._considered
            self.max_us = max(self.max_us or 0, self.last_us)
            self.cycles, self._began = self.cycles + 1, None
