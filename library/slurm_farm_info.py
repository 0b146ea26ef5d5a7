#!/usr/bin/python
"""Ansible module: gathers the state of an instance from its farm and its controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_farm_info
short_description: Gather the state of an emulated cluster
description:
  - Returns the farm's state and, on the head, nodes, processors and jobs by state as slurmctld or pbs_server tells them, the
    scheduler's statistics, and the progress of a running replay.
  - With O(wait) greater than 0, waits until every node has registered and none is down, drained or unknown. Fails if the farm does
    not run, if a daemon ends again and again, or if no further node has registered for this time.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
  bin:
    description: Folder with the resource manager's commands. The default is that of the release that the farm runs.
    type: path
  controller:
    description: Whether to query the controller as well. On hosts other than the head, only the farm's state is of interest.
    type: bool
    default: true
  wait:
    description: Seconds to wait for the next node to register.
    type: int
    default: 0
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Wait for the nodes
  slurm_farm_info:
    directory: /var/lib/slurm-mirage/mirage
    wait: 120
"""

RETURN = r"""
farm:
  description: State of the farm; its phase is C(stopped) when it does not run.
  returned: always
  type: dict
nodes:
  description: Number of nodes by state.
  returned: always
  type: dict
jobs:
  description: Number of jobs by state.
  returned: always
  type: dict
processors:
  description: Processors of all nodes, C(all), and processors allocated to jobs, C(busy). Null when the controller does not answer.
  returned: always
  type: dict
scheduler:
  description: Statistics of the scheduler, such as those of sdiag; empty when the controller does not answer.
  returned: always
  type: dict
progress:
  description: Content of C(progress.json) of the running replay. Null when none runs.
  returned: always
  type: dict
clock:
  description: Speed of the virtual clock, and the current virtual and real time (seconds since the epoch). Null in real time.
  returned: always
  type: dict
memory:
  description: Available memory of the host in MiB.
  returned: always
  type: int
"""

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.clock import instance_clock
from ansible.module_utils.slurm_mirage.farm.farm import failure_of, read_state
from ansible.module_utils.slurm_mirage.farm.pacing import host_memory
from ansible.module_utils.slurm_mirage.instance.instance import active_run, read_progress
from ansible.module_utils.slurm_mirage.instance.manager import manager_at
from ansible.module_utils.slurm_mirage.rm.api import Commands, Registered, ResourceManagerError
from ansible.module_utils.slurm_mirage.rm.evidence import Names
from ansible.module_utils.slurm_mirage.rm.registry import IMPLEMENTATIONS, manager_of

UNKNOWN = Registered({}, 0, all_ready=False)


def registered_of(manager: Commands) -> Registered:
    """The nodes; none if the controller does not answer."""
    try:
        return manager.registered()
    except (ResourceManagerError, WrongUse):
        return UNKNOWN


def jobs_of(manager: Commands) -> dict[str, int]:
    """Number of jobs by state; empty if the controller does not answer."""
    try:
        return dict(manager.jobs_by_state())
    except (ResourceManagerError, WrongUse):
        return {}


class NodeQueries(threading.Thread):
    """Queries the nodes again and again. Without the controller, a query takes up to a minute.

    It returns nodes to service that the resource manager has drained by itself: a controller which was killed and restored, or
    whose host was held up. A replay does so otherwise, but it may have been killed, too.
    """

    def __init__(self, manager: Commands) -> None:
        super().__init__(daemon=True)
        self._manager = manager
        self.nodes = UNKNOWN

    def run(self) -> None:
        """The thread's work."""
        while True:
            began = time.monotonic()
            self.nodes = registered_of(self._manager)
            if any(state.startswith("drain") for state in self.nodes.states):
                with suppress(ResourceManagerError, WrongUse):
                    self._manager.resume_nodes()
            # A query about many nodes takes processor time, which the controller and this host need for the start.
            time.sleep(max(0.5, 4 * (time.monotonic() - began)))


def wait_for_nodes(module: AnsibleModule, manager: Commands, names: Names) -> dict[str, int]:
    """Wait until all nodes are ready; returns the number of nodes by state. `names`: of the resource manager.

    The module fails if a daemon of the farm ends again and again, or if no further node becomes ready within its parameter `wait`
    (seconds; 0: return immediately).
    """
    timeout, directory = module.params["wait"], Path(module.params["directory"])
    if not timeout:
        return dict(registered_of(manager).states)
    queries = NodeQueries(manager)
    queries.start()
    best, deadline = -1, time.monotonic() + timeout
    while True:
        nodes = queries.nodes
        if nodes.all_ready:
            return dict(nodes.states)
        state = read_state(directory)
        if cause := "the farm has ended" if state is None else failure_of(state, directory):
            module.fail_json(msg=cause)
        if nodes.ready > best:
            best, deadline = nodes.ready, time.monotonic() + timeout
        if time.monotonic() > deadline:
            states = dict(nodes.states) or f"{names.controller} does not answer"
            drained = sum(count for state, count in nodes.states.items() if state.startswith(("drain", "offline")))
            advice = f"{drained} nodes are drained (in `make shell`: {names.return_nodes})" if drained else f"see {directory}/log"
            module.fail_json(msg=f"for {timeout} s no further node has registered: {states}; {advice}")
        time.sleep(0.2)


def load_of(manager: Commands) -> tuple[dict[str, int] | None, dict[str, int | None]]:
    """Processors (busy and all) and the scheduler's diagnostics; None and empty if the controller does not answer."""
    try:
        nodes = manager.nodes()
        return {"busy": nodes.allocated, "all": nodes.processors}, dict(manager.diagnostics())
    except (ResourceManagerError, WrongUse):
        return None, {}


def progress_of(directory: Path) -> dict[str, Any] | None:
    """Content of progress.json of the running replay; None if none runs."""
    return read_progress(directory, active_run(directory))


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "bin": {"type": "path"},
            "controller": {"type": "bool", "default": True},
            "wait": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    directory = Path(module.params["directory"])
    manager = manager_at(directory, module.params["bin"])
    farm: dict[str, Any] | None = read_state(directory) if (directory / "run").is_dir() else None
    if farm is None and module.params["wait"]:
        module.fail_json(msg=f"the farm does not run; see {directory}/log")
    try:
        clock = instance_clock.both_times(directory)
    except WrongUse as error:
        module.fail_json(msg=f"the virtual clock cannot be read, run `make teardown`: {error}")
    queries_controller = farm is not None and module.params["controller"]
    names = IMPLEMENTATIONS[manager_of(directory)].records.names
    nodes = wait_for_nodes(module, manager, names) if queries_controller else {}
    jobs = jobs_of(manager) if queries_controller else {}
    processors, scheduler = load_of(manager) if nodes else (None, {})
    module.exit_json(
        changed=False,
        farm=farm or {"phase": "stopped"},
        nodes=nodes,
        jobs=jobs,
        processors=processors,
        scheduler=scheduler,
        progress=progress_of(directory),
        clock=clock,
        memory=int(host_memory().available),
    )


if __name__ == "__main__":
    main()
