"""The broker's journal, log/resizes.jsonl of the instance: only ever appended to, one JSON object a line, each by one write.

{"begun": KIND, "job", "from", "to", "asked", "decided", "start", "limit"}: before a job's size is changed, so that a broker that
    follows a killed one knows what was under way; limit: the job's time limit in seconds, null without one
{"job", "mode", "kind", "from", "to", "asked", "decided", "done", "outcome", "reason", "way", "for", "used"}: an answered request;
    used: for how many seconds the job had run (null if its size did not change)
{"job", "resumed", "cost"}: a job works again

Instants are virtual seconds since the epoch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....base import user_folders
from ....base.json_lines import JsonLines

FILE = "log/resizes.jsonl"
Entry = Mapping[str, Any]


class Journal(JsonLines):
    """The journal of the instance in `directory`, open for more entries. Raises OSError and WrongUse."""

    def __init__(self, directory: Path) -> None:
        super().__init__(user_folders.open_file(directory, FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND))

    def add(self, entry: Entry) -> None:
        """Append an entry, instants to a microsecond."""
        self.append({key: round(value, 6) if isinstance(value, float) else value for key, value in entry.items()})
