#!/usr/bin/python
"""Ansible module: starts and stops a UDP server on the head that tells the other hosts its time."""

from __future__ import annotations

DOCUMENTATION = r"""
module: clock_answers
short_description: Serve this host's time to other hosts for a limited time
description:
  - Starts a UDP server at a port of the instance's block, as the instance's user. The server ends by itself.
  - The module M(clock_offset) is its client. Nothing persists on the host, so this module never reports a change.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
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
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
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

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base import processes

PROGRAM = "slurm_mirage.programs.clock_answers"
STOP_TIMEOUT = 5.0  # seconds between SIGTERM and SIGKILL


def stop(directory: Path) -> None:
    """Stop the instance's server, if it runs."""
    running = processes.of_instance(str(directory)) if (directory / "run").is_dir() else {}
    processes.end({pid: began for pid, began in running.items() if PROGRAM in processes.command_line(pid)}, STOP_TIMEOUT)


def start(directory: Path, parameters: dict[str, Any]) -> int:
    """Restart the server with the module's parameters; returns its port. Raises RuntimeError when it does not start."""
    stop(directory)
    account = pwd.getpwnam(parameters["user"])
    ids: dict[str, Any] = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    server = subprocess.Popen(
        [parameters["python"], "-m", PROGRAM, *(str(parameters[name]) for name in ("address", "port", "ports", "seconds"))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        cwd="/",
        env=processes.python_environment(directory),
        text=True,
        **ids,
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    if line.strip().isdecimal():
        return int(line)
    output = (line + server.stdout.read()).strip().splitlines() or [f"exit {server.wait()}"]
    raise RuntimeError(f"the clock server does not start: {output[-1]}")


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "user": {"type": "str"},
            "address": {"type": "str"},
            "port": {"type": "int"},
            "ports": {"type": "int", "default": 1},
            "seconds": {"type": "int", "default": 120},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
        },
        required_if=[("state", "started", ["user", "address", "port"])],
        supports_check_mode=True,
    )
    directory = Path(module.params["directory"])
    port = 0
    try:
        if module.check_mode:
            pass
        elif module.params["state"] == "started":
            port = start(directory, module.params)
        else:
            stop(directory)
    except (RuntimeError, OSError) as error:
        module.fail_json(msg=str(error))
    except KeyError:
        module.fail_json(msg=f"wrong use: user={module.params['user']}: there is no such account")
    module.exit_json(changed=False, port=port)


if __name__ == "__main__":
    main()
