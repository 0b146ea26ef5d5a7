"""The kernel's tracepoints of its scheduler and its timers, which the event clock's coordinator needs to count by BPF.

Only root can read tracefs, and the ids and offsets differ between kernels. So the farm reads them before it becomes the instance's
user, and passes them on as one text:

    switch=ID:PREV_COMM:PREV_PID:PREV_STATE:NEXT_COMM:NEXT_PID,waking=ID:COMM:PID,wakeup=ID:COMM:PID,
    wakeup_new=ID:COMM:PID,hrtimer_expire_entry=ID,hrtimer_expire_exit=ID,timer_expire_entry=ID,timer_expire_exit=ID

(without the line break). ID is the number for perf_event_open(2), the others are offsets of fields in bytes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from . import isolation

FIELDS = {
    "switch": ("prev_comm", "prev_pid", "prev_state", "next_comm", "next_pid"),
    "waking": ("comm", "pid"),
    "wakeup": ("comm", "pid"),
    "wakeup_new": ("comm", "pid"),
}
"""The fields that are named, by tracepoint without its prefix `sched_`."""
TIMERS = ("hrtimer_expire_entry", "hrtimer_expire_exit", "timer_expire_entry", "timer_expire_exit")
"""Tracepoints of timers, of which no field is needed."""
TRACEFS = Path("/sys/kernel/tracing")
_FIELD = r"field:[^;]*\b{}(?:\[\d+\])?;\s*offset:(\d+);"


def read() -> str:
    """Return the text; tracefs is mounted for the time of the call if it is not. Raises OSError."""
    if (TRACEFS / "events/sched").is_dir():
        return of_folder(TRACEFS / "events")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, _read_in_private().encode())
        except OSError as error:
            os.write(writer, f"!{error.errno or 0}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if not answer or answer.startswith("!"):
        number = int(answer[1:] or 0)
        raise OSError(number, f"tracefs cannot be read: {os.strerror(number)}")
    return answer


def _read_in_private() -> str:
    """In a child: mount tracefs where only this process sees it, and read it. Raises OSError."""
    isolation.unshare_mounts()
    isolation.mount_tracefs(TRACEFS)
    return of_folder(TRACEFS / "events")


def of_folder(events: Path) -> str:
    """Return the text, from the folder `events` of tracefs. Raises OSError when it has not what is expected."""
    scheduler = [_tracepoint(events / f"sched/sched_{name}", name, fields) for name, fields in FIELDS.items()]
    return ",".join([*scheduler, *(f"{name}={_id(events / f'timer/{name}')}" for name in TIMERS)])


def _tracepoint(folder: Path, name: str, fields: tuple[str, ...]) -> str:
    layout = (folder / "format").read_text()
    offsets = []
    for field in fields:
        match = re.search(_FIELD.format(field), layout)
        if match is None:
            raise OSError(0, f"{folder}/format: has no field {field}")
        offsets.append(match[1])
    return f"{name}={':'.join([_id(folder), *offsets])}"


def _id(folder: Path) -> str:
    return (folder / "id").read_text().strip()
