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

import os
from pathlib import Path
from typing import Any

from ....base.json_lines import JsonLines

FILE = "feeder.jsonl"


class FeederJournal(JsonLines):
    """The journal of the run in `folder`, open for more entries. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        super().__init__(os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644))

    def add(self, event: str, virtual: float, **values: Any) -> None:
        """Append an entry."""
        self.append({"event": event, **values, "virtual": round(virtual, 3)})
