"""The broker's journal, log/resizes.jsonl of the instance: only ever appended to, one JSON object a line, each by one write.

{"begun": KIND, "job", "from", "to", "asked", "decided", "start", "limit"}: before a job's size is changed, so that a broker that
    follows a killed one knows what was under way; limit: the job's time limit in seconds, null without one
{"job", "mode", "kind", "from", "to", "asked", "decided", "done", "outcome", "reason", "way", "for", "used"}: an answered request;
    used: for how many seconds the job had run (null if its size did not change)
{"job", "resumed", "cost"}: a job works again

Instants are virtual seconds since the epoch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..base import user_folders

FILE = "log/resizes.jsonl"
Entry = Mapping[str, Any]


class Journal:
    """The journal of the instance in `directory`, open for more entries. Raises OSError and WrongUse."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = user_folders.open_file(directory, FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._end_torn_line()

    def _end_torn_line(self) -> None:
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")

    def add(self, entry: Entry) -> None:
        """Append an entry."""
        rounded = {key: round(value, 6) if isinstance(value, float) else value for key, value in entry.items()}
        os.write(self._descriptor, (json.dumps(rounded) + "\n").encode())

    def entries(self) -> Iterator[Entry]:
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
