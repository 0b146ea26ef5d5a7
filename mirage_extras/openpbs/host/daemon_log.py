"""Counts the complaints of OpenPBS's daemons during a run by kind, from their logs.

A line is `date time;event class;daemon;object class;object;text`. The event class is a bit mask, of which 0001 is PBSEVENT_ERROR.
The time is that of the daemon's own clock, in UTC because the farm starts it with TZ=UTC.
"""

from __future__ import annotations

import calendar
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...base import user_folders
from ...rm.evidence import CONNECTION_RENEWED, OTHER_COMPLAINT, Complaint, Span
from .daemons import NODE_HOMES, SERVER_HOME

FOLDERS = ("server_logs", "sched_logs", "comm_logs")
ERROR = 0x1
LARGEST = 1 << 30
"""Bytes of a log that are read at most."""
_LINE = re.compile(r"(?P<time>\d\d/\d\d/\d{4} \d\d:\d\d:\d\d)(?:\.\d+)?;(?P<class>[0-9a-f]{4});[^;]*;[^;]*;[^;]*;(?P<text>.*)")
_EXPECTED = re.compile(
    # What every start and every new connection says, what each job whose output goes to /dev/null says at its end, and what
    # pbs_server says beside `stream_eof, NODE down`.
    r"daemon_protect|net restore handler|finish_exec, chown failed|node down: communication closed",
    re.IGNORECASE,
)
# A line has the first kind whose expression is found in its text.
_KINDS = {
    "node failure": r"node down|stream_eof, \S+ down|marking all nodes unknown|node failure|discarded at request of server",
    "launch failed": (
        r"unable to run job|failed to start|could not (create|start)|job not started|execution failed|no password entry"
        r"|too many failed attempts|mom rejected job"
    ),
    # The first node of a job is not known to another one, which refuses to join.
    "node unknown": r"bad connect from",
    "database": r"database|_save_db|panic_stop_db|prepared statement",
    "time-out": r"timed? ?out|time-?out",
    # The message layer connects again. Jobs go on, and pbs_server says which it could not start.
    CONNECTION_RENEWED: r"premature end of message|net down handler|failed to receive auth token|down connection|not killing job",
    "connection cut": r"connection (reset|refused|closed)|broken pipe",
}
_KIND = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _KINDS.items()}
_REMARK = re.compile(r"node down", re.IGNORECASE)
"""Lines that are complaints although they are not errors."""
KINDS = (*_KINDS, OTHER_COMPLAINT)
"""All kinds."""


def kind_of(line: str) -> str | None:
    """The kind of the complaint on a line; None for any other line."""
    match = _LINE.match(line)
    if match is None:
        return None
    text = match["text"]
    is_error = bool(int(match["class"], 16) & ERROR)
    if _EXPECTED.search(text) or not (is_error or _REMARK.search(text)):
        return None
    return next((kind for kind, pattern in _KIND.items() if pattern.search(text)), OTHER_COMPLAINT)


def of_instance(directory: Path, span: Span, offset: int = 0) -> Iterator[Complaint]:
    """The complaints in the logs of the instance in `directory`, which are those of this host's daemons.

    `offset` means nothing: lines are chosen by their times.
    """
    folders = [(f"{SERVER_HOME}/{name}", name) for name in FOLDERS]
    nodes = directory / NODE_HOMES
    folders += [(f"{NODE_HOMES}/{path.name}/mom_logs", f"mom_logs of {path.name}") for path in sorted(nodes.glob("*"))]
    for folder, name in folders:
        for path in sorted((directory / folder).glob("[0-9]*")):
            # Most of thousands of logs have not been written to for long. File times are real time.
            if path.stat().st_mtime >= span.real - 1:
                yield from _of(directory, f"{folder}/{path.name}", name, span)


def _of(directory: Path, path: str, name: str, span: Span) -> Iterator[Complaint]:
    with os.fdopen(user_folders.open_file(directory, path), "rb") as stream:
        for data in stream.read(LARGEST).split(b"\n"):
            line = data.decode(errors="replace")
            if (kind := kind_of(line)) is not None and _is_within(line, span):
                yield Complaint(kind, name, line)


def _is_within(line: str, span: Span) -> bool:
    match = _LINE.match(line)
    assert match is not None
    try:
        at = calendar.timegm(time.strptime(match["time"], "%m/%d/%Y %H:%M:%S"))
    except ValueError:
        return False
    return int(span.virtual) <= at and (span.until is None or at <= span.until + 1)


def by_kind(complaints: Iterable[Complaint]) -> dict[str, int]:
    """Number of complaints by kind."""
    return dict(Counter(complaint.kind for complaint in complaints))
