"""suspended.jsonl: what the resource manager said last of each job that ended, one JSON object a line (`JobDetails.record`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from ..rm.api import JobDetails, Records

NAME = "suspended.jsonl"


def keep_details(folder: Path, jobs: Iterable[JobDetails]) -> None:
    """Append jobs to the file in the run's folder, in one piece: two threads may do so. Raises OSError."""
    text = "".join(json.dumps(job.record) + "\n" for job in jobs)
    if text:
        with (folder / NAME).open("a") as stream:
            stream.write(text)


def kept_details(folder: Path, records: Records) -> list[JobDetails]:
    """All jobs in the file, in its order; what is no whole line of it is left out. Raises OSError."""
    path, jobs = folder / NAME, []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            jobs.append(records.details(json.loads(line)))
        except (ValueError, KeyError, TypeError):
            continue
    return jobs


def end_torn_line(folder: Path) -> None:
    """Give a torn last line of the file its end, so that the next job has a line of its own. Raises OSError."""
    path = folder / NAME
    if path.exists() and path.read_bytes()[-1:] not in (b"", b"\n"):
        with path.open("a") as stream:
            stream.write("\n")
