"""Queues of OpenPBS as a configuration names them (configs/NAME.yml, key `partitions`): checks, the default one, and their limits.

A queue is a mapping: `name`, `Default` (whether jobs that name no queue go there) and attributes of the queue as qmgr(8B) has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...base import line_text
from ...base.errors import WrongUse

Queue = Mapping[str, Any]

NAME, IS_DEFAULT = "name", "Default"
ATTRIBUTES = (
    "Priority",
    "backfill_depth",
    "max_queued",
    "max_run",
    "max_group_run",
    "max_user_run",
)
"""Attributes of an execution queue that affect the jobs of an emulated cluster."""
OF_RESOURCES = ("max_run_res", "resources_default", "resources_max", "resources_min")
"""Attributes with the name of a resource after a dot. All jobs of an emulated cluster belong to one user."""
WALLTIME = "resources_max.walltime"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,14}\Z")
_RESOURCE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_TIME = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+)\Z")


def check(queues: Sequence[Queue], where: str) -> None:
    """Raises WrongUse for the first queue that OpenPBS cannot have. The message begins with `where`."""
    for queue in queues:
        name = str(queue[NAME])
        if not is_name(name):
            raise WrongUse(f"{where}: queue {name!r}: a letter, then at most 14 letters, digits, hyphens or underscores")
        for key, value in queue.items():
            whole, _, resource = str(key).partition(".")
            if key not in (NAME, IS_DEFAULT, *ATTRIBUTES) and not (whole in OF_RESOURCES and _RESOURCE.match(resource)):
                known = ", ".join((IS_DEFAULT, *ATTRIBUTES, *(f"{one}.RESOURCE" for one in OF_RESOURCES)))
                raise WrongUse(f"{where}: queue {name}: {key!r} means nothing to OpenPBS; it may have {known}")
            if isinstance(value, (Mapping, list)) or line_text.fault(str(value)):
                raise WrongUse(f"{where}: queue {name}: {key} is not a single value")
        if WALLTIME in queue and seconds_of(queue[WALLTIME]) is None:
            raise WrongUse(f"{where}: queue {name}: {WALLTIME} may be seconds or HH:MM:SS")
    names = [str(queue[NAME]) for queue in queues]
    if len(set(names)) < len(names):
        raise WrongUse(f"{where}: two queues have the same name")
    if sum(queue.get(IS_DEFAULT) is True for queue in queues) > 1:
        raise WrongUse(f"{where}: several queues are the default one")


def is_name(text: str) -> bool:
    """Whether a queue can have this name."""
    return _NAME.match(text) is not None


def default_of(queues: Sequence[Queue]) -> str:
    """Name of the default queue: the one that says so, else the first."""
    return str(next((queue for queue in queues if queue.get(IS_DEFAULT) is True), queues[0])[NAME])


def most_minutes(queue: Queue) -> float | None:
    """The longest time limit that the queue takes, in minutes; None: any."""
    seconds = seconds_of(queue[WALLTIME]) if WALLTIME in queue else None
    return None if seconds is None else seconds / 60


def seconds_of(value: object) -> int | None:
    """Seconds of a duration of OpenPBS; None for anything else. YAML reads 01:00:00 as a number of seconds."""
    match = None if isinstance(value, bool) else _TIME.match(str(value))
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return (hours * 60 + minutes) * 60 + seconds
