#!/usr/bin/python
"""Ansible module: lets the head of an instance tell the other hosts what time it is, for a short while."""

from __future__ import annotations

DOCUMENTATION = r"""
module: clock_answers
short_description: Answer the other hosts' questions about the time, for a short while
description:
  - Starts a program of the instance, as its user, that answers over UDP at a port of the instance's block, and ends by itself.
  - The module M(clock_offset) asks it. Nothing stays, so the module never reports a change.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
  user:
    description: The instance's user. Needed to start.
    type: str
  port:
    description: First port of the instance's block. The first one that no other program has for UDP is taken. Needed to start.
    type: int
  ports:
    description: How many ports the block has.
    type: int
    default: 1
  seconds:
    description: For how long it answers, if it is not ended before.
    type: int
    default: 120
  python:
    description: Python that runs it.
    type: path
    default: /usr/bin/python3
  state:
    description: Whether it shall answer.
    type: str
    choices: [started, stopped]
    default: started
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
    details: In check mode nothing is started.
"""

EXAMPLES = r"""
- name: Tell the others what time it is here
  clock_answers:
    directory: /var/lib/slurm-mirage/mirage
    user: slurm-mirage
    port: 17000
    ports: 361
"""

RETURN = r"""
port:
  description: Where it answers. 0 when it does not.
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
PATIENCE = 5.0  # seconds between SIGTERM and SIGKILL


def stop(directory: Path) -> None:
    """End what answers, if anything does."""
    mine = processes.of_instance(str(directory)) if (directory / "run").is_dir() else set()
    processes.end((pid for pid in mine if PROGRAM in processes.command_line(pid)), PATIENCE)


def start(directory: Path, parameters: dict[str, Any]) -> int:
    """Have it answer anew; returns the port. RuntimeError if it does not start."""
    stop(directory)
    account = pwd.getpwnam(parameters["user"])
    other: dict[str, Any] = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    answering = subprocess.Popen(
        [parameters["python"], "-m", PROGRAM, *(str(parameters[name]) for name in ("port", "ports", "seconds"))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        cwd="/",
        env=processes.python_environment(directory),
        text=True,
        **other,
    )
    assert answering.stdout is not None
    line = answering.stdout.readline()
    if line.strip().isdecimal():
        return int(line)
    words = (line + answering.stdout.read()).strip().splitlines() or [f"exit {answering.wait()}"]
    raise RuntimeError(f"nothing can answer questions about the time here: {words[-1]}")


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "user": {"type": "str"},
            "port": {"type": "int"},
            "ports": {"type": "int", "default": 1},
            "seconds": {"type": "int", "default": 120},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
        },
        required_if=[("state", "started", ["user", "port"])],
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
