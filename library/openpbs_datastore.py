#!/usr/bin/python
"""Ansible module: creates the database of an OpenPBS instance, once."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openpbs_datastore
short_description: Create the database of an OpenPBS instance
description:
  - Creates the data of the instance's own PostgreSQL in C(pbs/datastore) below its directory, with the tables of OpenPBS and the
    objects of a new server. An existing database is left alone.
  - It needs the files of M(openpbs_config). The database server and pbs_server run for some seconds, in a network of their own.
  - It may be interrupted at any moment. The next call starts over.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
  prefix:
    description: Where OpenPBS is installed.
    type: path
    required: true
  postgresql:
    description: Folder of PostgreSQL's programs.
    type: path
    required: true
  user:
    description: Unprivileged account that the database server runs as.
    type: str
    required: true
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Create the database
  openpbs_datastore:
    directory: /var/lib/slurm-mirage/mirage
    prefix: /opt/slurm-mirage/openpbs-23.06.06-0123abcd
    postgresql: /usr/lib/postgresql/15/bin
    user: slurm-mirage
"""

RETURN = r"""
{}
"""

import subprocess
import sys
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base import processes
from ansible.module_utils.slurm_mirage.rm.openpbs import datastore

PROGRAM = "slurm_mirage.programs.openpbs_datastore"
NAMESPACES = ["/usr/bin/unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "prefix": {"type": "path", "required": True},
            "postgresql": {"type": "path", "required": True},
            "user": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    directory = Path(module.params["directory"])
    wanted = not datastore.is_created(directory)
    if wanted and not module.check_mode:
        program = [
            sys.executable,
            "-m",
            PROGRAM,
            str(directory),
            *(module.params[name] for name in ("user", "prefix", "postgresql")),
        ]
        environment = processes.python_environment(directory)
        done = subprocess.run(
            [*NAMESPACES, *program], env=environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode != 0:
            reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            module.fail_json(msg=f"the database of OpenPBS could not be created: {reason[0]}")
    module.exit_json(changed=wanted)


if __name__ == "__main__":
    main()
