"""Events of a run: what happens to the cluster at instants of the run, beside its jobs (key `events` of run.json).

Each is one moment: a node that fails and returns is two events. The control machine has checked them and put them into the order of
their instants; a file of a user's is read there, not here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.errors import WrongUse
from ..base.run_settings import RunSettings
from ..base.strict_json import LENGTH, TEXT, Object

KEY = "events"

DOWN, DRAIN, RESUME = "down", "drain", "resume"
FAIL, RETURN = "fail", "return"
SILENCE, ANSWER = "not-responding", "responding"
RESERVE, RELEASE, SET, CONFIGURE = "reserve", "release", "set", "configure"
KILL_CONTROLLER, FAILOVER, TAKE_BACK = "kill-controller", "failover", "take-back"
CANCEL, REQUEUE, HOLD, RELEASE_JOB = "cancel", "requeue", "hold", "release-job"
RUN = "run"
RECONFIGURE, RESTART = "reconfigure", "restart"
"""Arguments of CONFIGURE: how the controller takes over the other configuration."""

NODE_ACTIONS = (DOWN, DRAIN, RESUME, FAIL, RETURN, SILENCE, ANSWER)
"""Actions whose target is a host list."""
JOB_ACTIONS = (CANCEL, REQUEUE, HOLD, RELEASE_JOB)
"""Actions whose target is the number of a job in the trace."""
ACTIONS = (
    *NODE_ACTIONS, RESERVE, RELEASE, SET, CONFIGURE, KILL_CONTROLLER, FAILOVER, TAKE_BACK, *JOB_ACTIONS, RUN,
)  # fmt: skip

_SHOWN = frozenset({DOWN, DRAIN, RESUME, RESERVE, RELEASE, CANCEL, HOLD, RELEASE_JOB})
"""Actions after which slurmctld's times of the last changes of jobs, nodes, partitions or reservations differ."""

_SHAPE = Object({"at": LENGTH, "action": TEXT, "target": TEXT, "argument": TEXT})


@dataclass(frozen=True)
class ClusterEvent:
    """One event.

    What target and argument are depends on the action:

    down, drain, resume, fail, return, not-responding, responding: a host list; of down and drain the argument is the reason
    reserve: the name of the reservation; words `NAME=VALUE` of `scontrol create reservation`, separated by spaces, in which
        StartTime is virtual seconds after the start of the run, and Duration virtual seconds
    release: the name of the reservation
    set: `partition NAME`, `node LIST`, `job NUMBER`, `account NAME`, `user NAME` or `qos NAME`; words `NAME=VALUE` of
        `scontrol update`, or of `sacctmgr modify ... set` for the last three
    configure: the name of the configuration; RECONFIGURE or RESTART
    cancel, requeue, hold, release-job: the number of a job in the trace
    run: empty; a command for /bin/sh
    """

    number: int
    """Its place among the events of the run, from 0."""
    at: float
    """Virtual seconds after the start of the run."""
    action: str
    target: str = ""
    argument: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether slurmctld notes the time of this change, of a job, node, partition or reservation: a backfill cycle follows.

        It notes none for limits of accounts and settings of the scheduler. A ping finds a silent node only later.
        """
        return self.action in _SHOWN or (self.action == SET and self.target.startswith(("partition ", "node ")))


def events_of(settings: RunSettings) -> list[ClusterEvent]:
    """The events in run.json, in the order of their instants; none without the key. Raises WrongUse."""
    content = settings.list_or_empty(KEY)
    return [_event(number, item) for number, item in enumerate(content)]


def _event(number: int, item: object) -> ClusterEvent:
    fault = _SHAPE.fault(item, f"{KEY}[{number}]")
    if fault:
        raise WrongUse(f"run.json: {fault}")
    assert isinstance(item, Mapping)
    if item["action"] not in ACTIONS:
        raise WrongUse(f"run.json: {KEY}[{number}]: there is no action {item['action']!r}")
    return ClusterEvent(number, item["at"], item["action"], item["target"], item["argument"])


def as_settings(events: Sequence[ClusterEvent]) -> list[dict[str, Any]]:
    """The value of the key in run.json."""
    return [{"at": event.at, "action": event.action, "target": event.target, "argument": event.argument} for event in events]
