#!/usr/bin/python
"""Ansible module: writes the configuration files of an instance's MariaDB server and slurmdbd."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurmdbd_config
short_description: Write the configuration of an instance's accounting database
description:
  - Writes C(etc/mariadb.cnf) for the instance's own MariaDB server and C(etc/slurmdbd.conf), which only its user may read.
  - M(slurm_farm) runs the daemons, and restarts them when their files have changed.
extends_documentation_fragment: [shared, shared.directory]
options:
  user:
    description: Unprivileged account of the daemons.
    type: str
    required: true
  address:
    description: Address on which slurmdbd listens.
    type: str
    default: 127.0.0.1
  hostname:
    description: Host name that slurmdbd sees. It resolves to O(address).
    type: str
    default: localhost
  port:
    description: Port of slurmdbd.
    type: int
    required: true
  buffer:
    description: Size of InnoDB's buffer pool in MiB.
    type: int
    default: 64
  speed:
    description: Speed of the virtual clock. Above 1, slurmdbd's time-outs are multiplied by it.
    type: float
    default: 1.0
  version:
    description: Release of Slurm that reads the file; empty if it is not known.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Write the configuration of the database
  slurmdbd_config:
    directory: /var/lib/slurm-mirage/mirage
    user: slurm-mirage
    port: 16999
"""

RETURN = r"""
files:
  description: Files that were written.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance.slurm_database import ensure


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    touched = ensure(module.params, not module.check_mode)
    return {"changed": bool(touched), "files": [str(path) for path in touched]}


if __name__ == "__main__":
    main()
