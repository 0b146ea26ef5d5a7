"""What went wrong on a host while its farm ran: unexpected ends of daemons, and full file systems.

The farm appends each event as a line of JSON to DIRECTORY/log/events.jsonl. All events have `real`, in seconds since the epoch, and
`event`:

ended: `daemon`, `kind`; `exit`, its exit code, null if a signal ended it or if the code is not known (the daemon was no child of
    this farm); `signal`, or null; `out_of_memory`, whether the kernel ended a process for lack of memory just then; `words`, its
    last error message, or empty. The farm itself has the name and the kind `farm`.
full: `path`, a folder without space for another file
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base import strict_json, user_folders
from ..base.disk import is_full
from ..base.errors import WrongUse
from ..base.printing import one_line
from ..base.strict_json import FLAG, INSTANT, TEXT, Either, Maybe, NotStrict, Number, Object, Shape, Text
from .last_words import BY_SIGNAL, LONGEST

FILE = "log/events.jsonl"
MOST = 1000
"""Events that one farm writes. Thousands of daemons may end together; the first ones show the cause."""
LONGEST_FILE = 4_000_000
"""Bytes of the file that are read."""
FOLDERS = ("runs", "log", "state", "run", "spool")
"""Folders of an instance that must not be full."""
OUT_OF_MEMORY_WITHIN = 5.0
"""Seconds between the kernel's count of a killed process and its end."""
VMSTAT = Path("/proc/vmstat")

Event = dict[str, Any]
_ENDED: dict[str, Shape] = {
    "event": Text(words=("ended",)),
    "real": INSTANT,
    **dict.fromkeys(("daemon", "kind", "words"), TEXT),
    **dict.fromkeys(("exit", "signal"), Maybe(Number(-(2**31), 2**31, whole=True))),
    "out_of_memory": FLAG,
}
EVENT = Either((Object(_ENDED), Object({"event": Text(words=("full",)), "real": INSTANT, "path": TEXT})), "an event of a farm")
"""The shape of an event."""


class EventLog:
    """The events of one farm. What cannot be written, because the disk is full, is written later."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._unwritten: deque[Event] = deque()
        self._count = 0

    def add(self, event: str, **values: Any) -> None:
        """Note an event, and write it."""
        if self._count < MOST:
            self._count += 1
            self._unwritten.append({"event": event, "real": round(time.time(), 3), **values})
            self.write()

    def write(self) -> None:
        """Write the events that are not written yet."""
        if not self._unwritten:
            return
        # The line begins with a line feed: after a line that a full disk has cut off, it is whole again.
        text = "".join(f"\n{json.dumps(event)}" for event in self._unwritten).encode()
        with suppress(OSError, WrongUse):
            descriptor = user_folders.open_file(self._directory, FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                if os.write(descriptor, text) == len(text):
                    self._unwritten.clear()
            finally:
                os.close(descriptor)


def read_events(directory: Path, since: float, until: float | None = None) -> list[Event]:
    """Return the events between two instants (real seconds since the epoch; no end: None) of the instance in `directory`."""
    try:
        descriptor = user_folders.open_file(directory, FILE)
    except (OSError, WrongUse):
        return []
    with os.fdopen(descriptor, "rb") as stream:
        events = _parse(stream.read(LONGEST_FILE))
        return sorted(
            (event for event in events if since <= event["real"] and (until is None or event["real"] <= until)),
            key=lambda event: float(event["real"]),
        )


def _parse(text: bytes) -> Iterator[Event]:
    """Yield the events in the file's content. The instance's user can write the file: other lines are left out."""
    lines = set()
    for line in text.split(b"\n"):
        with suppress(NotStrict):
            if line not in lines:
                event = strict_json.parse(line, EVENT)
                lines.add(line)
                yield {name: one_line(value, LONGEST) if isinstance(value, str) else value for name, value in event.items()}


class FullFolders:
    """Finds the folders of an instance that have become full."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._full: set[int] = set()

    def look(self) -> Iterator[Path]:
        """Yield a folder of each file system that is full now and was not at the last look."""
        full = full_folders(self._directory)
        yield from (path for device, path in full.items() if device not in self._full)
        self._full = set(full)


def full_folders(directory: Path) -> dict[int, Path]:
    """Return the full folder of the instance in `directory` for each full file system, by the number of its device."""
    folders: dict[int, Path] = {}
    for name in FOLDERS:
        with suppress(OSError):
            if is_full(directory / name):
                folders.setdefault((directory / name).stat().st_dev, directory / name)
    return folders


class OutOfMemory:
    """Notices when the kernel ends a process for lack of memory. It counts those of all cgroups on the host (/proc/vmstat)."""

    def __init__(self) -> None:
        self._count = _killed()
        self._grown = float("-inf")

    def look(self) -> bool:
        """Return whether the kernel has ended a process in the last OUT_OF_MEMORY_WITHIN seconds. Call it every second."""
        if (count := _killed()) > self._count:
            self._count, self._grown = count, time.monotonic()
        return time.monotonic() - self._grown < OUT_OF_MEMORY_WITHIN


def _killed() -> int:
    """Number of processes that the kernel has ended for lack of memory; 0 where it does not say."""
    with suppress(OSError, ValueError):
        for line in VMSTAT.read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def how_it_ended(event: Mapping[str, Any]) -> str:
    """The cause in an event `ended`: `killed by signal 9, by a user or by the kernel`, or `exit 1: fatal: ...`."""
    number = event["signal"]
    if number == signal.SIGKILL:
        if event["out_of_memory"]:
            return "killed by the kernel, which had no memory left"
        return "killed by signal 9, by a user or by the kernel"
    words = f": {event['words']}" if event["words"] else ""
    if number is not None:
        return f"{BY_SIGNAL} {number}{words}"
    return f"exit {event['exit']}{words}" if event["exit"] is not None else f"it is not known how{words}"
