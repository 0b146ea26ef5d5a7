#!/usr/bin/python
"""Ansible module: checks that a host's Slurm release can run the cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_release_info
short_description: Check that the installed or planned Slurm release can run the cluster
description:
  - Fails if the instance was built with a release whose saved jobs this release cannot read.
  - Fails if front ends are requested and the installed or planned release has no front-end mode, or one that does not work.
  - Fails if the instance was built with another number of front ends, or if its nodes need their own slurmd.
  - Changes nothing.
extends_documentation_fragment: [shared, shared.directory, shared.nodes]
options:
  front_ends:
    description: Number of slurmd that stand for all nodes. V(0) means one slurmd per node, which every release supports.
    type: int
    required: true
  accounting:
    description: Whether slurmdbd will run. The module fails if the release's slurmdbd is not supported.
    type: bool
    default: false
  extras:
    description: Settings of the extras (folders of C(mirage_extras)) that the cluster has, by name. The module fails if the release
      cannot have one of them in such a cluster.
    type: dict
    default: {}
  nodes:
    default: []
  bin:
    description: Folder with scontrol.
    type: path
    default: /usr/bin
  version:
    description:
      - Release that has been built, or will be built if there is no scontrol; with front ends it is built with
        C(--enable-front-end).
      - If empty, the distribution's packages are used, and scontrol returns their release.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Check that one slurmd can stand for all nodes
  slurm_release_info:
    directory: /var/lib/slurm-mirage/mirage
    front_ends: 1
    bin: /opt/slurm-mirage/slurm-24.11.5/bin
"""

RETURN = r"""
release:
  description: The release that was checked; empty if the packages are not installed yet.
  returned: always
  type: str
"""

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.rm.slurm.release_checks import check


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    return {"release": check(module.params)}


if __name__ == "__main__":
    main()
