#!/usr/bin/python
"""Ansible module: creates the database of an OpenPBS instance, once."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openpbs_datastore
short_description: Create the database of an OpenPBS instance
description:
  - Creates the data of the instance's own PostgreSQL in C(pbs/datastore) below its directory, with the tables of OpenPBS and the
    objects of a new server. An existing database stays as it is.
  - It needs the files of M(openpbs_config). The database server and pbs_server run for some seconds, in a network of their own.
  - It may be interrupted at any moment. The next call starts over.
extends_documentation_fragment: [shared, shared.directory]
options:
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
"""

EXAMPLES = r"""
- name: Create the database
  openpbs_datastore:
    directory: /var/lib/slurm-mirage/mirage
    prefix: /opt/slurm-mirage/openpbs-23.06.06-0123abcd
    postgresql: /usr/lib/postgresql/15/bin
    user: slurm-mirage
"""

RETURN = "{}"

import subprocess
import sys
from pathlib import Path

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.base import processes
from ansible.module_utils.slurm_mirage.extras.openpbs import datastore

PROGRAM = "slurm_mirage.extras.openpbs.programs.datastore"
NAMESPACES = ["/usr/bin/unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    directory, prefix, postgresql, user = (module.params[name] for name in ("directory", "prefix", "postgresql", "user"))
    wanted = not datastore.is_created(Path(directory))
    if wanted and not module.check_mode:
        done = subprocess.run(
            [*NAMESPACES, sys.executable, "-m", PROGRAM, directory, user, prefix, postgresql],
            env=processes.python_environment(Path(directory)),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            raise RuntimeError(f"the database of OpenPBS could not be created: {reason[0]}")
    return {"changed": wanted}


if __name__ == "__main__":
    main()
