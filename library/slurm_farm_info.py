#!/usr/bin/python
"""Ansible module: gathers the state of an instance from its farm and slurmctld."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_farm_info
short_description: Gather the state of an emulated cluster
description:
  - Returns the farm's state and, on the head, slurmctld's nodes, processors and jobs by state, the scheduler's statistics, and the
    progress of a running replay.
  - With O(wait) greater than 0, waits until every node has registered and none is down, drained or unknown. Fails if the farm does
    not run, or if no further node has registered for this time.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
  bin:
    description: Folder with sinfo and squeue. The default is that of the Slurm release that the farm runs.
    type: path
  controller:
    description: Whether to query slurmctld as well. On hosts other than the head, only the farm's state is of interest.
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
  description: Processors of all nodes, C(all), and processors allocated to jobs, C(busy). Null when slurmctld does not answer.
  returned: always
  type: dict
scheduler:
  description: Statistics of sdiag; empty when slurmctld does not answer.
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

import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.files import read_json
from ansible.module_utils.slurm_mirage.clock import instance_clock
from ansible.module_utils.slurm_mirage.farm.farm import read_state
from ansible.module_utils.slurm_mirage.farm.pacing import host_memory
from ansible.module_utils.slurm_mirage.instance.instance import active_run, commands_of
from ansible.module_utils.slurm_mirage.rm.slurm.commands import Slurm, SlurmError
from ansible.module_utils.slurm_mirage.rm.slurm.node_states import are_well, count_states, registered


def count(module: AnsibleModule, command: list[str]) -> dict[str, int]:
    """Run a command that prints `state` or `state number` lines; the numbers by state, empty when it fails."""
    directory = Path(module.params["directory"])
    environment = {"SLURM_CONF": f"{directory}/etc/slurm.conf", **instance_clock.environment(directory)}
    code, output, _errors = module.run_command(command, environ_update=environment)
    return count_states(output) if code == 0 else {}


def nodes_of(module: AnsibleModule) -> dict[str, int]:
    """Number of nodes by state."""
    return count(module, [f"{module.params['bin']}/sinfo", "-h", "-o", "%T %D"])


def wait_for_nodes(module: AnsibleModule) -> dict[str, int]:
    """Poll the nodes' states until all are well, or no further one has become so for the time that was given."""
    patience = module.params["wait"]
    best, deadline = -1, time.monotonic() + patience
    while True:
        began = time.monotonic()
        nodes = nodes_of(module)
        now = time.monotonic()
        if not patience or are_well(nodes):
            return nodes
        if registered(nodes) > best:
            best, deadline = registered(nodes), now + patience
        if now > deadline:
            told = nodes or "slurmctld does not answer"
            module.fail_json(msg=f"for {patience} s no further node has registered: {told}; see {module.params['directory']}/log")
        # To ask about many nodes takes slurmctld and this host some time, which they need to get on.
        time.sleep(max(0.5, 4 * (now - began)))


def load_of(directory: Path, programs: str) -> tuple[dict[str, int] | None, dict[str, int | None]]:
    """Processors, busy and all, and the scheduler's figures."""
    slurm = Slurm(f"{directory}/etc/slurm.conf", programs, str(directory))
    try:
        nodes = slurm.nodes()
        return {"busy": nodes.allocated, "all": nodes.processors}, slurm.diagnostics()
    except (SlurmError, WrongUse):
        return None, {}


def progress_of(directory: Path) -> dict[str, Any] | None:
    """How far the replay is that goes on."""
    run = active_run(directory)
    progress: dict[str, Any] | None = read_json(directory / "runs" / run / "progress.json") if run else None
    return progress


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
    module.params["bin"] = module.params["bin"] or str(commands_of(directory))
    farm: dict[str, Any] | None = read_state(directory) if (directory / "run").is_dir() else None
    if farm is None and module.params["wait"]:
        module.fail_json(msg=f"the farm does not run; see {directory}/log")
    is_asked = farm is not None and module.params["controller"]
    nodes = wait_for_nodes(module) if is_asked else {}
    jobs = count(module, [f"{module.params['bin']}/squeue", "-h", "-a", "-o", "%T"]) if is_asked else {}
    processors, scheduler = load_of(directory, module.params["bin"]) if nodes else (None, {})
    module.exit_json(
        changed=False,
        farm=farm or {"phase": "stopped"},
        nodes=nodes,
        jobs=jobs,
        processors=processors,
        scheduler=scheduler,
        progress=progress_of(directory),
        clock=instance_clock.both_times(directory),
        memory=int(host_memory().available),
    )


if __name__ == "__main__":
    main()
