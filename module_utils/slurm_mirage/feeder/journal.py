"""The feeder's journal, feeder.jsonl of the run: only ever appended to, one JSON object a line, each by one write.

{"event": "submitted", "number", "job"}: a filler got a job; more than once if a job was lost, or ended by its time limit
{"event": "asked", "number", "job", "for"}: a filler was asked to save itself; for: the job of the workload that is to get its node,
    null at the end of the run
{"event": "cancelled", "number", "job"}
{"event": "given up", "number", "job"}: the jobs of a filler ended again and again without a save
{"event": "extended", "jobs"}: fillers whose time limit the scheduler had lowered
{"event": "draining"} and {"event": "finished"}: all jobs of the workload have ended; no filler is left

All have "virtual", the instant in virtual seconds since the epoch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FILE = "feeder.jsonl"


class FeederJournal:
    """The journal of the run in `folder`, open for more entries. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(folder / FILE, flags, 0o644)
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")

    def add(self, event: str, virtual: float, **values: Any) -> None:
        """Append an entry."""
        os.write(self._descriptor, (json.dumps({"event": event, **values, "virtual": round(virtual, 3)}) + "\n").encode())

    def entries(self) -> Iterator[Mapping[str, Any]]:
        """The entries so far. A line that is no JSON object, such as one that a full disk tore, is left out."""
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            for line in file:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if isinstance(entry, dict):
                    yield entry

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
