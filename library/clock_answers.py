#!/usr/bin/python
"""Ansible module: starts and stops a UDP server on the head that tells the other hosts its time."""

from __future__ import annotations

DOCUMENTATION = r"""
module: clock_answers
short_description: Serve this host's time to other hosts for a limited time
description:
  - Starts a UDP server at a port of the instance's block, as the instance's user. The server ends by itself.
  - The module M(clock_offset) is its client. Nothing persists on the host, so this module never reports a change.
extends_documentation_fragment: [shared, shared.directory]
options:
  user:
    description: Account of the instance. Required with O(state=started).
    type: str
  address:
    description: Address of this host on which the server listens. Required with O(state=started).
    type: str
  port:
    description: First port of the instance's block. The server uses the first free UDP port. Required with O(state=started).
    type: int
  ports:
    description: Number of ports in the block.
    type: int
    default: 1
  seconds:
    description: Seconds after which the server ends by itself.
    type: int
    default: 120
  python:
    description: Python interpreter that runs the server.
    type: path
    default: /usr/bin/python3
  state:
    description: Whether the server runs.
    type: str
    choices: [started, stopped]
    default: started
attributes:
  check_mode:
    details: In check mode the server is neither started nor stopped.
"""

EXAMPLES = r"""
- name: Serve the head's time to the other hosts
  clock_answers:
    directory: /var/lib/slurm-mirage/mirage
    user: slurm-mirage
    address: 192.0.2.10
    port: 17000
    ports: 361
"""

RETURN = r"""
port:
  description: UDP port of the server; 0 when it was not started.
  returned: always
  type: int
  sample: 17000
"""

from pathlib import Path

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance.clock_server import start, stop


@module_main(DOCUMENTATION, required_if=[("state", "started", ["user", "address", "port"])])
def main(module: AnsibleModule) -> Result:
    directory, port = Path(module.params["directory"]), 0
    try:
        if module.check_mode:
            pass
        elif module.params["state"] == "started":
            port = start(directory, module.params)
        else:
            stop(directory)
    except OSError as error:
        raise RuntimeError(str(error)) from error
    return {"port": port}


if __name__ == "__main__":
    main()
