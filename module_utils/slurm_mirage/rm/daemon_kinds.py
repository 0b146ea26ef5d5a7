"""What the farm has to know of a kind of daemon. Each resource manager has a table of its kinds (rm/NAME/daemons.py)."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from ..base.files import file_digest
from ..clock import clock_page, instance_clock
from ..clock.event_clock import SPEED

FIRST_CONTROLLER = "slurmctld"
"""The farm's name of the controller that is in charge while it runs, where a cluster may have a second one."""
WITHOUT_HWLOC_PLUGINS = {"HWLOC_PLUGINS_PATH": "/nonexistent"}
"""Environment of a node's daemon. hwloc, by which it learns the host's processors, looks for its plugins here, and finds none.
Debian's load the libraries of X11, OpenGL and OpenCL and look for graphics adapters: that takes slurmd 6 ms of a processor at its
start, and the rest of hwloc's work 2 ms (22.05 on Debian 12)."""


class Role(Enum):
    """What daemons of a kind are for. They are stopped in this order, PREREQUISITEs in the reverse of that of the table."""

    SERVICE = "service"
    """Serves jobs."""
    SCHEDULER = "scheduler"
    CONTROLLER = "controller"
    """Jobs are submitted to it."""
    NODE = "node"
    """Each node has one. Its log file is log/KIND.NAME.log; others have log/NAME.log."""
    PREREQUISITE = "prerequisite"
    """Has to be ready before the kinds after it in the table are started."""


@dataclass(frozen=True)
class DaemonKind:
    """A kind of daemon, with its name in the farm's specification."""

    name: str
    role: Role
    manager: str = ""
    """The resource manager, in messages."""
    nodes_per_namespace: int = 0
    """Number of neighbouring nodes whose daemons share a PID namespace; 0: those of this kind have none of their own."""
    uses_clock: bool = True
    """Whether it is started with the virtual clock."""
    uses_event_clock: bool = False
    """Whether it is started with an event clock, although not with a constant one: its waits would be taken for something that is
    under way."""
    keeps_priority: bool = False
    """Whether it keeps the farm's priority, which is higher than that of other daemons and of jobs."""
    is_real_time: bool = False
    """Whether it gets a real-time priority."""
    is_real_time_by_events: bool = False
    """Whether it gets one on an event clock.

    A controller's threads then run one after another, in the order in which they were woken up, until they wait: whatever else the
    host does, two threads that are woken up at one instant of the cluster's time take the same locks in the same order.
    """
    end_signal: signal.Signals = signal.SIGTERM
    is_database: bool = False
    """Whether it is the server of the database for accounting."""
    may_restart_in_run: bool = False
    """Whether another digest, and so a restart, is allowed during a run, which waits for it."""
    capabilities: tuple[str, ...] = ()
    """What it may do if it runs as another account than the instance's user, as setpriv(1) names it."""
    records: tuple[str, ...] = ()
    """Of a controller: its records of ended jobs in the instance's directory, which are removed together with its saved state."""

    def has_clock(self, speed: object) -> bool:
        """Whether it is started with the virtual clock of this speed, a number or "event"."""
        return self.uses_clock or (self.uses_event_clock and speed == SPEED)

    @property
    def is_node(self) -> bool:
        """Whether each node has one."""
        return self.role is Role.NODE

    @property
    def is_controller(self) -> bool:
        """Whether jobs are submitted to it."""
        return self.role is Role.CONTROLLER

    @property
    def is_prerequisite(self) -> bool:
        """Whether it has to be ready before the kinds after it are started."""
        return self.role is Role.PREREQUISITE


CLOCK = DaemonKind("clock", Role.PREREQUISITE, uses_clock=False, keeps_priority=True, is_real_time=True, end_signal=signal.SIGKILL)
"""The coordinator of an event clock: time stops while it does not run. It may be killed at any moment."""


def coordinator(directory: Path) -> dict[str, Any]:
    """The coordinator of the instance's event clock, in the farm's specification.

    The farm adds where the kernel's tasks have their fields, and knows from the clock's page when it is ready.
    """
    program = instance_clock.coordinator(directory)
    return {
        "kind": CLOCK.name,
        "name": "clock",
        "command": [str(program), str(instance_clock.clock_file(directory))],
        "digest": file_digest(program),
        "ready_file": str(directory / clock_page.FILE),
    }


def leaving_order(kinds: Sequence[DaemonKind]) -> list[DaemonKind]:
    """The kinds of a table in the order in which their daemons are stopped."""
    return [kind for role in Role for kind in (reversed(kinds) if role is Role.PREREQUISITE else kinds) if kind.role is role]
