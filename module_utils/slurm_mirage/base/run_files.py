"""The shapes (`strict_json`) of the JSON files in the folder of a run on the head: run.json, result.json and progress.json.

The shapes name the members that are read. A replay that begins, or was ended, has not written all of them.
"""

from __future__ import annotations

from .. import extras
from .strict_json import COUNT, INSTANT, LENGTH, OBJECT, TEXT, Each, Maybe, Name, Named, Number, Object

_SPEED = Number(1e-9, 1e9)

RESULT = Object(
    {
        "ended": Maybe(INSTANT),
        "message": Maybe(TEXT),
        "messages": Maybe(Named(COUNT)),
        "released": Maybe(COUNT),
        "outside": Maybe(Object({"began": Maybe(INSTANT), "ended": Maybe(INSTANT)})),
        "event_clock": Maybe(Object({"mode": Maybe(COUNT)})),
    }
)
"""result.json: what the replay found at its end."""

PROGRESS = Object(
    {
        "run": Maybe(Name()),
        **dict.fromkeys(("cluster", "phase", "message", "time_left_cause"), Maybe(TEXT)),
        **dict.fromkeys(("jobs", "submitted", "running", "pending", "done", "retries", "resubmitted"), Maybe(COUNT)),
        **dict.fromkeys(("nodes_not_responding", "processors", "processors_busy", "memory_available_bytes"), Maybe(COUNT)),
        **dict.fromkeys(("elapsed", "time_left_least", "time_left_most", "lag"), Maybe(LENGTH)),
        **dict.fromkeys(("real_left_least", "real_left_most"), Maybe(LENGTH)),
        **dict.fromkeys(("speed", "pace"), Maybe(Number(0, 1e9))),
        **dict.fromkeys(("states", "ended", "nodes"), Maybe(Named(COUNT))),
        **dict.fromkeys(("real", "virtual"), Maybe(INSTANT)),
        "scheduler": Maybe(Named(Maybe(Number()))),
        "cpu_busy": Maybe(Number(-1, 2)),
    }
)
"""progress.json: what the replay writes once a second (`Status` of replay/monitor.py)."""

RUN_SETTINGS = Object(
    {
        "run": Maybe(TEXT),
        "speed": _SPEED,
        "shrink_percent": _SPEED,
        "rm": Maybe(TEXT),
        "clock_kind": Maybe(TEXT),
        "hosts": Maybe(Each(OBJECT)),
        **extras.merged("run_json", "MEMBERS"),
    }
)
"""run.json, as the records of a run are read with it."""
