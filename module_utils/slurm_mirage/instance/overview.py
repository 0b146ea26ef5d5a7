"""The state of a running instance on its host: farm, nodes, jobs, scheduler, replay and clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base.errors import WrongUse
from ..clock import instance_clock
from ..farm.farm import failure_of, read_state
from ..farm.pacing import host_memory
from ..rm.api import Commands, Registered, ResourceManagerError
from ..rm.evidence import Names
from ..rm.managers import manager_of
from ..rm.registry import IMPLEMENTATIONS
from .instance import active_run, read_progress
from .manager import manager_at
from .registration import Registration

UNKNOWN = Registered({}, 0, all_ready=False)


def overview(directory: Path, programs: str | None, has_controller: bool, wait: int) -> dict[str, Any]:
    """The state of the instance in `directory`, as the module slurm_farm_info returns it.

    programs: folder of the resource manager's commands; has_controller: whether it runs on this host, and may be asked; wait: as of
    `wait_for_nodes`. Raises RuntimeError, and WrongUse for an instance of an unknown manager.
    """
    manager = manager_at(directory, programs)
    farm: dict[str, Any] | None = read_state(directory) if (directory / "run").is_dir() else None
    if farm is None and wait:
        raise RuntimeError(f"the farm does not run; see {directory}/log")
    try:
        clock = instance_clock.both_times(directory)
    except WrongUse as error:
        raise RuntimeError(f"the virtual clock cannot be read, run `make teardown`: {error}") from error
    queries_controller = farm is not None and has_controller
    names = IMPLEMENTATIONS[manager_of(directory)].records.names
    nodes = wait_for_nodes(directory, manager, names, wait) if queries_controller else {}
    jobs = jobs_of(manager) if queries_controller else {}
    processors, scheduler = load_of(manager) if nodes else (None, {})
    return {
        "farm": farm or {"phase": "stopped"},
        "nodes": nodes,
        "jobs": jobs,
        "processors": processors,
        "scheduler": scheduler,
        "progress": read_progress(directory, active_run(directory)),
        "clock": clock,
        "memory": int(host_memory().available),
    }


def wait_for_nodes(directory: Path, manager: Commands, names: Names, timeout: int) -> dict[str, int]:
    """Wait until all nodes are ready; returns the number of nodes by state. `names`: of the resource manager.

    Raises RuntimeError if a daemon of the farm ends again and again, or if no further node becomes ready within `timeout` seconds
    (0: return immediately).
    """
    if not timeout:
        return dict(registered_of(manager.registered).states)
    queries = NodeQueries(manager)
    queries.start()
    best, deadline = -1, time.monotonic() + timeout
    while True:
        nodes = queries.nodes
        if nodes.all_ready:
            return dict(nodes.states)
        state = read_state(directory)
        if cause := "the farm has ended" if state is None else failure_of(state, directory):
            raise RuntimeError(cause)
        if nodes.ready > best:
            best, deadline = nodes.ready, time.monotonic() + timeout
        if time.monotonic() > deadline:
            states = dict(nodes.states) or f"{names.controller} does not answer"
            drained = sum(count for state, count in nodes.states.items() if state.startswith(("drain", "offline")))
            advice = f"{drained} nodes are drained (in `make shell`: {names.return_nodes})" if drained else f"see {directory}/log"
            raise RuntimeError(f"for {timeout} s no further node has registered: {states}; {advice}")
        time.sleep(0.2)


class NodeQueries(threading.Thread):
    """Queries the nodes again and again. Without the controller, a query takes up to a minute.

    It has nodes asked again that do not register. It returns nodes to service that the resource manager has drained by itself:
    a controller which was killed and restored, or whose host was held up. A replay does so otherwise, but it may have been killed,
    too.
    """

    def __init__(self, manager: Commands) -> None:
        super().__init__(daemon=True)
        self._manager = manager
        self._registration = Registration(manager)
        self.nodes = UNKNOWN

    def run(self) -> None:
        """The thread's work."""
        while True:
            began = time.monotonic()
            self.nodes = registered_of(self._registration.look)
            if any(state.startswith("drain") for state in self.nodes.states):
                with suppress(ResourceManagerError, WrongUse):
                    self._manager.resume_nodes()
            # A query about many nodes takes processor time, which the controller and this host need for the start.
            time.sleep(max(0.5, 4 * (time.monotonic() - began)))


def registered_of(query: Callable[[], Registered]) -> Registered:
    """The answer to the query; no nodes if the controller does not answer."""
    try:
        return query()
    except (ResourceManagerError, WrongUse):
        return UNKNOWN


def jobs_of(manager: Commands) -> dict[str, int]:
    """Number of jobs by state; empty if the controller does not answer."""
    try:
        return dict(manager.jobs_by_state())
    except (ResourceManagerError, WrongUse):
        return {}


def load_of(manager: Commands) -> tuple[dict[str, int] | None, dict[str, int | None]]:
    """Processors (busy and all) and the scheduler's diagnostics; None and empty if the controller does not answer."""
    try:
        nodes = manager.nodes()
        return {"busy": nodes.allocated, "all": nodes.processors}, dict(manager.diagnostics())
    except (ResourceManagerError, WrongUse):
        return None, {}
