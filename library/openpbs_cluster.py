#!/usr/bin/python
"""Ansible module: gives a running OpenPBS server its nodes, queues and attributes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openpbs_cluster
short_description: Create the nodes and queues of a running OpenPBS server, and set its attributes
description:
  - Compares the server's nodes, queues and attributes with what is wanted, and changes what differs by one call of qmgr.
  - Nodes and queues that are not wanted are deleted. Attributes that are not wanted keep their values.
  - qmgr runs in the network of the instance's farm, which has to run. In check mode without a farm everything is a change.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
  user:
    description: Account that submits the jobs. It becomes operator, which may requeue jobs and stop queues.
    type: str
    required: true
  bin:
    description: Folder of qmgr.
    type: path
    required: true
  nodes:
    description: Classes of equal nodes, as for M(openpbs_config).
    type: list
    elements: dict
    required: true
    suboptions:
      prefix:
        description: Prefix of the nodes' names, before the number.
        type: str
        default: n
      first:
        description: Number of the first node. The default follows the last class, or is 1.
        type: int
      count:
        description: Number of nodes.
        type: int
        required: true
      cpus:
        description: Processors of each node.
        type: int
        required: true
      extra:
        description: Further options of the nodes. OpenPBS takes none.
        type: dict
        default: {}
  server:
    description: Attributes of the server by their names in pbs_server_attributes(7B).
    type: dict
    default: {}
  partitions:
    description:
      - Queues, each a mapping with C(name), C(Default) and further attributes by their names in pbs_queue_attributes(7B).
      - Without any there is one queue, V(batch).
    type: list
    elements: dict
    default: []
  speed:
    description: Speed of the virtual clock. Above 1, time-outs that guard against slow machines are multiplied by it.
    type: float
    default: 1.0
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Create 166 nodes and one queue
  openpbs_cluster:
    directory: /var/lib/slurm-mirage/mirage
    user: slurm-mirage
    bin: /opt/slurm-mirage/openpbs-23.06.06-0123abcd/bin
    nodes:
      - count: 166
        cpus: 8
    server:
      backfill_depth: 0
"""

RETURN = r"""
commands:
  description: The lines that qmgr was given, at most ten.
  returned: always
  type: list
  elements: str
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.farm.network import entrance
from ansible.module_utils.slurm_mirage.instance.instance import refuse_during_run
from ansible.module_utils.slurm_mirage.rm.api import Unavailable
from ansible.module_utils.slurm_mirage.rm.openpbs import qmgr
from ansible.module_utils.slurm_mirage.rm.openpbs.node_classes import NODE_OPTIONS, node_classes

QUESTIONS = "print server", "print sched", "print node @default"
NO_NODES = "Server has no node list"
TIMEOUT = 600.0
"""Seconds after which a qmgr without an answer is ended: a thousand nodes take some of them."""


def run(command: list[str], text: str, descriptors: Sequence[int]) -> str:
    """Give qmgr a text and return its answer; it inherits `descriptors`. Raises RuntimeError with its first complaint."""
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            cwd="/",
            timeout=TIMEOUT,
            pass_fds=descriptors,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"qmgr: the server has not answered within {TIMEOUT:.0f} s") from error
    complaints = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if complaints and not any(NO_NODES in line for line in complaints):
        raise RuntimeError(f"qmgr: {'; '.join(complaints[:3])}")
    if done.returncode and not complaints:
        raise RuntimeError(f"qmgr: ended with code {done.returncode}, without a word")
    return done.stdout


def ensure(parameters: dict[str, Any], write: bool) -> list[str]:
    """Return the lines that qmgr needs, and give them to it if `write` is true. Raises WrongUse, RuntimeError."""
    directory = Path(parameters["directory"])
    server = {"operators": f"{parameters['user']}@*", **parameters["server"]}
    want = qmgr.wanted(node_classes(parameters["nodes"]), server, parameters["partitions"], parameters["speed"])
    try:
        with entrance(directory, as_root=True) as inside:
            command = [*inside.words, "/usr/bin/env", f"PBS_CONF_FILE={directory}/etc/pbs.conf", f"{parameters['bin']}/qmgr"]
            printed = "".join(run(command, question + "\n", inside.descriptors) for question in QUESTIONS)
            lines = list(qmgr.commands(qmgr.printed(printed), want))
            if lines:
                refuse_during_run(directory)
            if lines and write:
                run(command, "".join(line + "\n" for line in lines), inside.descriptors)
            return lines
    except Unavailable as error:
        if write:
            raise RuntimeError(f"the server cannot be reached: {error}") from error
        return list(qmgr.commands(qmgr.State(), want))


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "user": {"type": "str", "required": True},
            "bin": {"type": "path", "required": True},
            "nodes": {"type": "list", "elements": "dict", "required": True, "options": NODE_OPTIONS},
            "server": {"type": "dict", "default": {}},
            "partitions": {"type": "list", "elements": "dict", "default": []},
            "speed": {"type": "float", "default": 1.0},
        },
        supports_check_mode=True,
    )
    try:
        lines = ensure(module.params, not module.check_mode)
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except RuntimeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(lines), commands=lines[:10])


if __name__ == "__main__":
    main()
