#!/usr/bin/python
"""Ansible module: starts, reloads and stops the farm of an instance on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_farm
short_description: Start or stop the daemons of an emulated cluster on a host
description:
  - Writes the farm's specification (C(etc/farm.json)), starts the farm or makes it read a changed specification, and waits until
    its daemons are ready. Nodes register with slurmctld afterwards; M(slurm_farm_info) can wait for that.
  - With systemd the farm is the unit C(slurm-farm@NAME.service), which is enabled at boot. Without systemd the module starts it
    directly.
  - O(state=stopped) ends the daemons, the jobs and all other processes of the instance.
extends_documentation_fragment: [shared, shared.directory]
options:
  user:
    description: Unprivileged account of the daemons. Required with O(state=started).
    type: str
  hostname:
    description: Host name that the daemons see.
    type: str
    default: localhost
  addresses:
    description:
      - Host names by address, in a cluster of several hosts; further names of an address follow after a space. The daemons see them
        in their C(/etc/hosts); the host does not.
      - Slurm looks up the name of each address from which it receives a message, and a name server may not know it.
    type: dict
    default: {}
  controller:
    description: Whether slurmctld runs on this host.
    type: bool
    default: true
  controller_hostname:
    description: Host name that slurmctld sees, as in C(SlurmctldHost). The default is O(hostname).
    type: str
  second_hostname:
    description:
      - Host name that a second slurmctld sees, as returned by M(slurm_config). It runs on this host and takes over when the first
        one does not answer. Empty means that there is none on this host.
    type: str
    default: ''
  shared_folder:
    description:
      - Folder with C(StateSaveLocation) and C(JobCompLoc) (C(state) and C(log/jobcomp.log) in it), if hosts share it. Empty means
        that they are in O(directory).
    type: str
    default: ''
  controller_digest:
    description: Digest of slurmctld's configuration, as returned by M(slurm_config). slurmctld is restarted when it changes.
    type: str
    default: ''
  fresh:
    description:
      - A name for which slurmctld begins with a clean state. When the name changes, slurmctld is restarted. Its saved state and the
        record of ended jobs are removed before. The nodes' daemons go on.
      - Empty means that slurmctld keeps its state. The name that was given before stays.
    type: str
    default: ''
  nodes:
    description: Nodes of this host, as returned by M(slurm_config). Their slurmd are restarted when their digest changes.
    type: list
    elements: dict
    default: []
    suboptions:
      prefix:
        description: Prefix of the nodes' names, before the number.
        type: str
        default: n
      first:
        description: Number of the first node.
        type: int
        default: 1
      count:
        description: Number of nodes.
        type: int
        required: true
      digest:
        description: Digest of the configuration that their slurmd read.
        type: str
        required: true
      hostname:
        description:
          - Host name that their slurmd see. They listen on the address that it resolves to; a numeric address resolves to itself.
          - The default is O(hostname).
        type: str
  wide_steps:
    description: Whether each slurmd reads C(etc/slurm.conf) instead of its own slim file, as in M(slurm_config).
    type: bool
    default: false
  extras:
    description: Settings of the extras (folders of C(mirage_extras)) that the cluster has, by name.
    type: dict
    default: {}
  database_port:
    description:
      - Port of slurmdbd, which then runs on this host with the instance's own MariaDB server. V(0) means no accounting.
      - M(slurmdbd_config) writes their configuration. They are restarted when it changes.
    type: int
    default: 0
  mariadbd:
    description: Path of the MariaDB server.
    type: path
    default: /usr/sbin/mariadbd
  rm:
    description:
      - Resource manager of the instance. With another one than Slurm, O(nodes) are its nodes, and Slurm's options mean nothing.
    type: str
    default: slurm
  daemons:
    description:
      - What the daemons of another resource manager need, as the class C(Layout) of its C(rm/NAME/daemons.py) describes it.
    type: dict
    default: {}
  sbin:
    description: Folder with slurmctld, slurmd and slurmdbd.
    type: path
    default: /usr/sbin
  munge_sbin:
    description: Folder with munged.
    type: path
    default: /usr/sbin
  python:
    description: Python interpreter that runs the farm. This module's own interpreter may be in a virtual environment.
    type: path
    default: /usr/bin/python3
  parallel:
    description: Number of daemons that may be starting at the same time.
    type: int
    default: 32
  environment:
    description: Environment variables of the daemons, in addition to PATH and TZ (UTC).
    type: dict
    default: {}
  speed:
    description:
      - Speed of the virtual clock of slurmctld, the slurmd and the jobs, relative to real time. When it changes, the daemons are
        restarted, and virtual time continues without a jump.
      - A speed other than 1 needs the library C(lib/virtual_clock.so) in O(directory).
    type: float
    default: 1.0
  event_clock:
    description:
      - Whether the clock is the event clock, which stops while the host works and jumps while nothing does. It is for one host.
      - It needs the library C(lib/virtual_clock.so) and the program C(lib/clock_coordinator) in O(directory).
    type: bool
    default: false
  charge:
    description: Whether slurmctld's own processor time counts in the time of the event clock.
    type: bool
    default: false
  clock:
    description:
      - On a host that is not the head, the content of the head's clock file (C(state/clock)), to be used on this host. Empty means
        real time.
      - If omitted, this host's farm sets the clock.
    type: str
  wait:
    description:
      - Seconds to wait for the next daemon to become ready. The time for all of them depends on their number.
      - While the host has no memory for another daemon, the module waits for ksmd to free some. It fails when the available memory
        has not grown for a minute.
    type: int
    default: 120
  state:
    description: Whether the farm runs.
    type: str
    choices: [started, stopped]
    default: started
"""

EXAMPLES = r"""
- name: Start the daemons
  slurm_farm:
    directory: /var/lib/slurm-mirage/mirage
    user: slurm-mirage
    controller_digest: "{{ config.slurmctld_digest }}"
    nodes:
      - count: 360
        digest: "{{ config.node_digests[0] }}"
"""

RETURN = r"""
farm:
  description: State of the farm, with pid, phase, daemons (wanted, up and ready, by kind), restarts and refused kernel features.
  returned: when O(state=started) and not in check mode
  type: dict
clock:
  description: Content of the clock file (C(state/clock)). Empty in real time.
  returned: when O(state=started)
  type: str
ended:
  description: Number of processes that were ended.
  returned: when O(state=stopped)
  type: int
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.base.disk import out_of_space
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.files import file_digest
from ansible.module_utils.slurm_mirage.clock import clock_rules, instance_clock
from ansible.module_utils.slurm_mirage.clock.clock import Clock
from ansible.module_utils.slurm_mirage.farm import control
from ansible.module_utils.slurm_mirage.farm.events import FOLDERS
from ansible.module_utils.slurm_mirage.instance.instance import refuse_during_run
from ansible.module_utils.slurm_mirage.rm.managers import DEFAULT, manager, traits_of


def clock_of(directory: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    """Settings of the daemons' clock (`Spec.clock`).

    Raises WrongUse if the cluster cannot have the clock, or if a program that the clock needs is missing.
    """
    line, is_event = parameters["clock"], parameters["event_clock"]
    asked = clock_rules.speed_of(is_event, parameters["speed"])
    seen_by_bpf = traits_of(parameters["rm"]).seen_by_bpf
    several = line is not None or bool(parameters["addresses"])
    clock_rules.check(asked, several_hosts=several, charges=is_event and parameters["charge"], seen_by_bpf=seen_by_bpf)
    speed = asked if is_event else Clock(speed=asked).speed
    programs = [instance_clock.library(directory)] if speed != 1 else []
    if is_event:
        programs.append(instance_clock.coordinator(directory))
    for program in programs:
        if not program.exists():
            raise WrongUse(
                f"{program} is not there; the role virtual_clock builds it, and has to run before",
                parameter="speed",
                value=speed if is_event else f"{speed:.12g}",
            )
    head_clock = {} if line is None else {"line": line}
    charge = {"charge": parameters["charge"]} if is_event else {}
    return {"speed": speed, "library": file_digest(instance_clock.library(directory)), **charge, **head_clock}


def specification(directory: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    """Content of etc/farm.json. Raises WrongUse."""
    content = manager(parameters["rm"]).farm_content(directory, parameters)
    own = [parameters["user"], parameters["hostname"], str(parameters["rm"] != DEFAULT), str(content.get("users"))]
    return {
        **{key: parameters[key] for key in ("user", "hostname", "parallel")},
        "environment": {name: str(value) for name, value in parameters["environment"].items()},
        "clock": clock_of(directory, parameters),
        "identity": control.identity(directory, own),
        "addresses": parameters["addresses"],
        **content,
    }


@module_main(DOCUMENTATION, required_if=[("state", "started", ["user"])])
def main(module: AnsibleModule) -> Result:
    params, directory = module.params, Path(module.params["directory"])
    try:
        if params["state"] == "stopped":
            return control.ensure_stopped(directory, module.check_mode)
        wanted, how = specification(directory, params), (params["fresh"], params["python"], params["wait"])
        return control.ensure_started(directory, wanted, *how, module.check_mode, refuse_during_run)
    except OSError as error:
        raise RuntimeError(out_of_space(error, [directory, *(directory / name for name in FOLDERS)]) or str(error)) from error


if __name__ == "__main__":
    main()
