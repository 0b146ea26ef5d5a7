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
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
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
  malleable:
    description: Whether jobs may change their size. The broker, which they ask for that, then runs beside slurmctld.
    type: bool
    default: false
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
  openpbs:
    description:
      - The daemons of OpenPBS, instead of those of Slurm. O(nodes) are then its nodes, and the options of Slurm mean nothing.
      - They get a network of their own (docs/openpbs.md).
    type: dict
    suboptions:
      sbin:
        description: Folder of pbs_server.bin, pbs_comm, pbs_sched and pbs_mom.
        type: path
        required: true
      postgres:
        description: Path of the program postgres.
        type: path
        required: true
      server_digest:
        description: Digest of the configuration of server and communication daemon. They are restarted when it changes.
        type: str
        required: true
      scheduler_digest:
        description: Digest of the scheduler's configuration.
        type: str
        required: true
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
      - Whether the clock is the event clock, which stands while the host works and jumps while nothing does. It is for one host.
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
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
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

import hashlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base import processes, user_folders
from ansible.module_utils.slurm_mirage.base.disk import no_space, out_of_space
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.files import file_digest, undamaged_json, write_json
from ansible.module_utils.slurm_mirage.clock import clock_rules, instance_clock
from ansible.module_utils.slurm_mirage.clock.clock import Clock
from ansible.module_utils.slurm_mirage.farm.control import PROGRAM, is_complete, running_farm
from ansible.module_utils.slurm_mirage.farm.daemons import NODES
from ansible.module_utils.slurm_mirage.farm.events import FOLDERS, full_folders
from ansible.module_utils.slurm_mirage.farm.farm import STATE, failure_of, read_state
from ansible.module_utils.slurm_mirage.farm.hosts_file import HostsFile
from ansible.module_utils.slurm_mirage.farm.pacing import host_memory
from ansible.module_utils.slurm_mirage.instance.instance import refuse_during_run
from ansible.module_utils.slurm_mirage.rm.openpbs import addresses
from ansible.module_utils.slurm_mirage.rm.openpbs import daemon_commands as pbs_daemons
from ansible.module_utils.slurm_mirage.rm.slurm import daemon_commands

UNIT = "slurm-farm@{}.service"
MEMORY_TIMEOUT = 60  # seconds without growth of the available memory
FARM_TIMEOUT = 10  # seconds until the farm has written its state, or written it again after it ended
STOP_TIMEOUT = 40.0  # seconds; the farm ends processes in up to four steps of 8 s
STOPPED_PER_SECOND = 50  # processes, at least


def identity(directory: Path, parameters: dict[str, Any]) -> str:
    """Digest of the farm's code, user and host name, which a running farm cannot change: if it differs, the farm is restarted."""
    code = [file_digest(path) for path in sorted((directory / "lib/slurm_mirage").rglob("*.py"))]
    own = [parameters["user"], parameters["hostname"], str(bool(parameters["openpbs"]))]
    return hashlib.sha256("\0".join([*code, *own]).encode()).hexdigest()[:16]


def layout_of(parameters: dict[str, Any]) -> daemon_commands.Layout:
    """The daemons wanted on this host."""
    return daemon_commands.Layout(
        hostname=parameters["hostname"],
        sbin=parameters["sbin"],
        munge_sbin=parameters["munge_sbin"],
        controller_hostname=(parameters["controller_hostname"] or parameters["hostname"]) if parameters["controller"] else None,
        controller_digest=parameters["controller_digest"],
        nodes=parameters["nodes"],
        wide_steps=parameters["wide_steps"],
        database_port=parameters["database_port"],
        mariadbd=parameters["mariadbd"],
        python=parameters["python"],
        malleable=parameters["malleable"],
        event_clock=parameters["event_clock"],
    )


def clock_of(directory: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    """Settings of the daemons' clock (`Spec.clock`).

    Raises WrongUse if the cluster cannot have the clock, or if a program that the clock needs is missing.
    """
    line, is_event = parameters["clock"], parameters["event_clock"]
    asked = clock_rules.speed_of(is_event, parameters["speed"])
    clock_rules.check(asked, several_hosts=line is not None or bool(parameters["addresses"]), openpbs=bool(parameters["openpbs"]))
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


def of_openpbs(directory: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    """What is different in the content of etc/farm.json for OpenPBS."""
    nodes = [(f"{one['prefix']}{i}", i) for one in parameters["nodes"] for i in range(one["first"], one["first"] + one["count"])]
    return {
        "hostname": addresses.HEAD,
        "addresses": addresses.host_names(nodes),
        "network": pbs_daemons.NETWORK,
        "daemons": pbs_daemons.specifications(directory, pbs_daemons.Layout(**parameters["openpbs"], nodes=parameters["nodes"])),
    }


def specification(directory: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    """Content of etc/farm.json."""
    if parameters["openpbs"]:
        return {**common(directory, parameters), **of_openpbs(directory, parameters)}
    return {
        **common(directory, parameters),
        "daemons": daemon_commands.specifications(directory, layout_of(parameters)),
    }


def common(directory: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    """What every content of etc/farm.json has."""
    return {
        **{key: parameters[key] for key in ("user", "hostname", "parallel")},
        "environment": {name: str(value) for name, value in parameters["environment"].items()},
        "clock": clock_of(directory, parameters),
        "identity": identity(directory, parameters),
        "addresses": parameters["addresses"],
    }


def has_systemd() -> bool:
    """Whether PID 1 is systemd (sd_booted(3))."""
    return Path("/run/systemd/system").is_dir()


def is_enabled(module: AnsibleModule, unit: str) -> bool:
    """Whether systemd would start the unit at boot."""
    return has_systemd() and module.run_command(["systemctl", "is-enabled", "--quiet", unit])[0] == 0


def open_log(directory: Path) -> int:
    """Open the farm's log. Raises WrongUse if it is no regular file."""
    try:
        return user_folders.open_file(directory, "log/farm.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        raise RuntimeError(f"{directory}/log/farm.log cannot be written: {error.strerror}") from error


def launch(module: AnsibleModule, directory: Path) -> None:
    """Start the farm."""
    if has_systemd():
        module.run_command(["systemctl", "enable", "--now", UNIT.format(directory.name)], check_rc=True)
        return
    with os.fdopen(open_log(directory), "ab") as log:
        subprocess.Popen(
            [module.params["python"], "-m", PROGRAM, "run", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env=processes.python_environment(directory),
        )


def out_of_memory(state: dict[str, Any], directory: Path) -> str:
    """Error message for a host without memory for more daemons."""
    memory, waited = host_memory(), state["waiting_for_memory"]
    kind, nodes = next((kind, state["daemons"][kind]) for kind in NODES if kind in state["daemons"])
    return (
        f"the host has no memory for more {kind}: {nodes['up']} of {nodes['wanted']} run, {memory.available:.0f} of "
        f"{memory.total:.0f} MiB are available, of which {memory.reserve:.0f} stay free, and that did not grow in {waited} s; "
        f"take fewer NODES, or end what else takes memory (make teardown CLUSTER={directory.name} ends this)"
    )


def progress_of(state: dict[str, Any], specification: str) -> tuple[bool, int, int]:
    """Progress of the farm with its specification, as a tuple that grows.

    Whether the farm has read it, negative number of daemons that have yet to end, number of ready daemons.
    """
    if state.get("specification") != specification:
        return (False, 0, 0)
    return (True, -state["leaving"], sum(kind["ready"] for kind in state["daemons"].values()))


def end_of_farm(directory: Path) -> str:
    """Error message for a farm that has ended or does not start, with its own last words."""
    if (full := next(iter(full_folders(directory).values()), None)) is not None:
        return f"the farm does not run: {no_space(full)}"
    if has_systemd():
        return f"the farm does not run; see journalctl -u {UNIT.format(directory.name)}"
    try:
        with os.fdopen(user_folders.open_file(directory, "log/farm.log"), "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
            lines = log.read(2000).decode(errors="replace").splitlines()
    except (OSError, WrongUse):
        lines = []
    return f"the farm does not run: {lines[-1].strip() if lines else 'its log is empty'}; see {directory}/log/farm.log"


def wait_for(directory: Path, seconds: int) -> dict[str, Any]:
    """Wait until the farm has read its specification and its daemons are ready; returns its state.

    The duration of a start is not limited. It fails if there is no progress for `seconds`, if no farm runs for FARM_TIMEOUT, or if
    a daemon ends again and again.
    """
    specification = file_digest(directory / "etc/farm.json")
    best = (False, 0, 0)
    deadline, seen = time.monotonic() + seconds, time.monotonic()
    while True:
        state = read_state(directory)
        progress = progress_of(state, specification) if state else best
        if state and progress[0]:
            if is_complete(state):
                return state
            if cause := failure_of(state, directory):
                raise RuntimeError(cause)
            if (state["waiting_for_memory"] or 0) >= MEMORY_TIMEOUT:
                raise RuntimeError(out_of_memory(state, directory))
        if progress > best or (state and state.get("waiting_for_memory") is not None):
            best, deadline = max(best, progress), time.monotonic() + seconds
        if time.monotonic() > deadline:
            last_state = (
                json.dumps({key: state[key] for key in ("phase", "daemons", "leaving")}) if state else "the farm does not run"
            )
            raise RuntimeError(f"no further daemon is there after {seconds} s: {last_state}; see {directory}/log")
        if state is not None:
            seen = time.monotonic()
        elif time.monotonic() - seen > FARM_TIMEOUT:
            raise RuntimeError(end_of_farm(directory))
        time.sleep(0.1)


def clock_line(directory: Path) -> str:
    """Content of the clock file; empty if there is none, as in real time. Raises WrongUse if it is no clock's."""
    return clock.line() if (clock := instance_clock.current(directory)) else ""


def only_new_key(written: Any, wanted: dict[str, Any]) -> bool:
    """Return whether only the digest of munged's key changes. Such a change is allowed during a run, which waits for munged."""

    def without_key(content: dict[str, Any]) -> dict[str, Any]:
        daemons = content.get("daemons", [])
        return {**content, "daemons": [{**daemon, "digest": ""} if daemon["kind"] == "munged" else daemon for daemon in daemons]}

    return isinstance(written, dict) and written != wanted and without_key(written) == without_key(wanted)


def ensure_started(module: AnsibleModule, directory: Path) -> dict[str, Any]:
    """Write the specification, start or reload the farm, wait."""
    wanted = specification(directory, module.params)
    spec_file = directory / "etc/farm.json"
    written = undamaged_json(spec_file)
    if fresh := module.params["fresh"] or (written.get("fresh") if isinstance(written, dict) else ""):
        wanted["fresh"] = fresh
    state = running_farm(directory) if (directory / "run").is_dir() else None
    # An earlier call may have been killed after it wrote the file and before the farm read it.
    changed = written != wanted or state is None or state.get("specification") != file_digest(spec_file)
    if state is not None and changed and not only_new_key(written, wanted):
        refuse_during_run(directory)
    if module.check_mode:
        return {"changed": changed, "clock": clock_line(directory)}
    if wanted.get("network"):
        # The farm, which runs as the instance's user, cannot change this file.
        HostsFile(directory, is_roots=True).write(wanted["addresses"])
    if written != wanted:
        write_json(spec_file, wanted)
    if state is not None and state.get("identity") != wanted["identity"]:
        ensure_stopped(module, directory)
        state = None
    if state is None:
        launch(module, directory)
    elif changed:
        processes.send(state["pid"], state["start_time"], signal.SIGHUP)
    farm = wait_for(directory, module.params["wait"])
    line = clock_line(directory)
    if wanted["clock"]["speed"] != 1 and not line:
        raise RuntimeError(f"{directory}/{instance_clock.FILE} is gone, which the farm has written; run the same command again")
    return {"changed": changed, "farm": farm, "clock": line}


def ensure_stopped(module: AnsibleModule, directory: Path) -> dict[str, Any]:
    """End the farm and all processes of the instance."""
    unit = UNIT.format(directory.name)
    enabled = is_enabled(module, unit)
    exists = (directory / "run").is_dir()
    running = processes.of_instance(str(directory)) if exists else {}
    if module.check_mode or not (running or enabled):
        return {"changed": bool(running or enabled), "ended": len(running)}
    if enabled:
        module.run_command(["systemctl", "disable", "--now", unit], check_rc=True)
    if exists:
        state = running_farm(directory)
        if state is not None:
            processes.end([state["pid"]], STOP_TIMEOUT + len(running) / STOPPED_PER_SECOND)
        processes.end(processes.of_instance(str(directory)), 5.0)
        user_folders.remove(directory, STATE)
    return {"changed": True, "ended": len(running)}


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "user": {"type": "str"},
            "hostname": {"type": "str", "default": "localhost"},
            "addresses": {"type": "dict", "default": {}},
            "controller": {"type": "bool", "default": True},
            "controller_hostname": {"type": "str"},
            "controller_digest": {"type": "str", "default": ""},
            "fresh": {"type": "str", "default": ""},
            "nodes": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "prefix": {"type": "str", "default": "n"},
                    "first": {"type": "int", "default": 1},
                    "count": {"type": "int", "required": True},
                    "digest": {"type": "str", "required": True},
                    "hostname": {"type": "str"},
                },
            },
            "openpbs": {
                "type": "dict",
                "options": {
                    "sbin": {"type": "path", "required": True},
                    "postgres": {"type": "path", "required": True},
                    "server_digest": {"type": "str", "required": True},
                    "scheduler_digest": {"type": "str", "required": True},
                },
            },
            "wide_steps": {"type": "bool", "default": False},
            "malleable": {"type": "bool", "default": False},
            "database_port": {"type": "int", "default": 0},
            "mariadbd": {"type": "path", "default": "/usr/sbin/mariadbd"},
            "sbin": {"type": "path", "default": "/usr/sbin"},
            "munge_sbin": {"type": "path", "default": "/usr/sbin"},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "parallel": {"type": "int", "default": 32},
            "environment": {"type": "dict", "default": {}},
            "speed": {"type": "float", "default": 1.0},
            "event_clock": {"type": "bool", "default": False},
            "charge": {"type": "bool", "default": False},
            "clock": {"type": "str"},
            "wait": {"type": "int", "default": 120},
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
        },
        required_if=[("state", "started", ["user"])],
        supports_check_mode=True,
    )
    directory = Path(module.params["directory"])
    ensure = ensure_started if module.params["state"] == "started" else ensure_stopped
    try:
        module.exit_json(**ensure(module, directory))
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except RuntimeError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=out_of_space(error, [directory, *(directory / name for name in FOLDERS)]) or str(error))


if __name__ == "__main__":
    main()
