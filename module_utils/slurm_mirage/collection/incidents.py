"""Errors in the daemons' logs, and events of the farm, in the time of a run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ..base import user_folders
from ..base.run_files import RESULT, RUN_SETTINGS
from ..farm.events import full_folders, read_events
from ..replay.journal import start_of
from ..rm.evidence import Complaint, Span
from ..rm.managers import manager_of
from ..rm.registry import tools

MOST_LINES = 20
"""Lines of each kind of error that are kept."""


def span_of(instance: Path, run: str) -> tuple[dict[str, Any], int]:
    """Return the time span of a run, empty when it has not started, and the size of the controller's log then. Raises WrongUse.

    The span has `real` and `ended`, the run's begin and end in seconds since the epoch, and `virtual` and `until`, the same on the
    cluster's clock. The ends are None before the replay has ended.
    """
    start = start_of(instance, run)
    if start is None:
        return {}, 0
    result = user_folders.read_json(instance, f"runs/{run}/result.json", RESULT)
    settings = user_folders.read_json(instance, f"runs/{run}/run.json", RUN_SETTINGS)
    until = ended = None
    if result and settings and (ended := result.get("ended")) is not None:
        until = start["virtual"] + (ended - start["real"]) * settings["speed"]
    # On an event clock the replay uses virtual time, but not the farm.
    outside = (result or {}).get("outside") or {}
    real, ended = start.get("outside", start["real"]), outside.get("ended", ended)
    return {"real": real, "virtual": start["virtual"], "until": until, "ended": ended}, start.get("controller_log_offset") or 0


def incidents(instance: Path, span: dict[str, Any], offset: int = 0, most: int = MOST_LINES) -> dict[str, Any]:
    """Return the errors in the logs of the instance's daemons and the events of its farm in a time span.

    span: as `span_of` returns it; an empty one has no incidents. offset: size of the controller's log at the begin. most: lines of
    each kind of error.

    The result has `counts`, the number of errors by kind, `lines`, the first lines of each kind with the name of their log, and
    `events`, those of `farm.events` in order. Raises WrongUse.
    """
    if not span:
        return {"counts": {}, "lines": [], "events": []}
    manager = tools(manager_of(instance))
    errors = list(manager.complaints(instance, Span(span["real"], span["virtual"], span["until"]), offset))
    events = _with_full_folders(instance, read_events(instance, span["real"], span["ended"]))
    return {"counts": manager.by_kind(errors), "lines": _first_of_each(errors, most), "events": events}


def _with_full_folders(instance: Path, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events, and one for each folder that is full now: the farm cannot note it if the disk with its events is full."""
    noted = {event["path"] for event in events if event["event"] == "full"}
    now = round(time.time(), 3)
    full = [str(path) for path in full_folders(instance).values()]
    return [*events, *({"event": "full", "real": now, "path": path} for path in full if path not in noted)]


def _first_of_each(errors: list[Complaint], most: int) -> list[str]:
    """Return the first `most` lines of each kind, in the order of the logs."""
    counts: dict[str, int] = {}
    lines = []
    for complaint in errors:
        counts[complaint.kind] = counts.get(complaint.kind, 0) + 1
        if counts[complaint.kind] <= most:
            lines.append(f"{complaint.log}: {complaint.line}")
    return lines
