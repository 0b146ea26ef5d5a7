#!/usr/bin/python
"""Ansible module: returns what has to be done to a cluster on one host before a run, and records a build."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_standing_cluster
short_description: Check whether a cluster is as its inputs say
description:
  - Compares the cluster with the record of its last build (its inputs, the files in C(etc), C(lib) and C(bin), Slurm's programs and
    the boot of the host), and looks at its daemons and nodes.
  - Nodes that were drained or set down are returned to service, and named.
  - If the cluster does not stand, the record is removed, so that an interrupted build is not taken for a complete one.
extends_documentation_fragment: [shared, shared.directory]
options:
  inputs:
    description:
      - Digest of all that the cluster is built from, except for the scheduler's configuration.
      - Empty means that it is not known; the cluster then never counts as up to date.
    type: str
    default: ''
  configuration:
    description: Digest of the scheduler's configuration.
    type: str
    default: ''
  run:
    description: Name of the run that follows.
    type: str
    default: ''
  fresh:
    description: Whether the run needs a slurmctld that begins with a clean state for it.
    type: bool
    default: false
  programs:
    description: Paths of the daemons' programs.
    type: list
    elements: path
    default: []
  bin:
    description: Folder of the resource manager's commands.
    type: path
    default: /usr/bin
  facts:
    description: With O(state=recorded), facts of the build that later tasks need.
    type: dict
    default: {}
  state:
    description: Whether to compare, or to record a build that is complete.
    type: str
    choices: [compared, recorded]
    default: compared
attributes:
  check_mode:
    details: Neither nodes nor the record are changed.
"""

EXAMPLES = r"""
- name: Compare the cluster with its inputs
  slurm_standing_cluster:
    directory: /var/lib/slurm-mirage/mirage
    inputs: "{{ mirage_inputs }}"
  register: standing
"""

RETURN = r"""
stands:
  description: Whether nothing has to be done.
  returned: when O(state=compared)
  type: bool
is_installed:
  description: Whether at most slurmctld has to be configured and restarted.
  returned: when O(state=compared)
  type: bool
fresh:
  description: Name for which slurmctld has to begin with a clean state, as of M(slurm_farm).
  returned: when O(state=compared)
  type: str
notes:
  description: Lines for the user about changes that were found.
  returned: when O(state=compared)
  type: list
  elements: str
facts:
  description: The facts of the build.
  returned: when O(state=compared)
  type: dict
"""

from pathlib import Path

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance.standing import Record, Wanted, forget, standing


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    directory, writes = Path(module.params["directory"]), not module.check_mode
    wanted = Wanted(*(module.params[name] for name in ("inputs", "configuration", "run", "fresh")))
    programs = [Path(path) for path in module.params["programs"]]
    if module.params["state"] == "recorded":
        if writes:
            Record.of_host(directory, wanted, programs, module.params["facts"]).write(directory)
        return {}
    result = standing(directory, wanted, programs, Path(module.params["bin"]), mends=writes)
    if writes and not result.stands:
        forget(directory)
    return result.as_result()


if __name__ == "__main__":
    main()
