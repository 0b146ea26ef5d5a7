"""suspended.jsonl: what the resource manager said last of each job that ended, one JSON object a line (`JobDetails.record`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..base import strict_json
from ..base.strict_json import COUNT, INSTANT, OBJECT, TEXT, Maybe, NotStrict, Number, Object
from ..rm.api import JobDetails, Records

NAME = "suspended.jsonl"
_INSTANT = Maybe(Number(0, INSTANT.most, whole=True))
_DETAILS = Object(
    {
        "job_id": COUNT,
        **dict.fromkeys(("name", "state"), TEXT),
        **dict.fromkeys(("eligible", "start", "end"), _INSTANT),
        "suspended": Maybe(Number(-INSTANT.most, INSTANT.most, whole=True)),
    }
)
"""Shape of a line; it holds for the records of all resource managers."""


def keep_details(folder: Path, jobs: Iterable[JobDetails]) -> None:
    """Append jobs to the file in the run's folder with one write, because two threads may append at the same time. Raises
    OSError."""
    text = "".join(json.dumps(job.record) + "\n" for job in jobs)
    if text:
        with (folder / NAME).open("a") as stream:
            stream.write(text)


def kept_details(folder: Path, records: Records) -> list[JobDetails]:
    """All jobs in the file, in its order; incomplete and damaged lines are left out. Raises OSError."""
    path = folder / NAME
    return list(details_in(path.read_bytes(), records)) if path.exists() else []


def details_in(text: bytes, records: Records) -> Iterator[JobDetails]:
    """The jobs in the content of the file; incomplete and damaged lines are left out."""
    for line in text.split(b"\n"):
        try:
            job = records.details(strict_json.parse(line, OBJECT))
        except (NotStrict, KeyError, TypeError):
            continue
        if not _DETAILS.fault(vars(job), ""):
            yield job


def end_torn_line(folder: Path) -> None:
    """Give a torn last line of the file its end, so that the next job has a line of its own. Raises OSError."""
    path = folder / NAME
    if path.exists() and path.read_bytes()[-1:] not in (b"", b"\n"):
        with path.open("a") as stream:
            stream.write("\n")
