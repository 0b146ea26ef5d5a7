#!/usr/bin/python
"""Ansible module: manages the folder of a run in an instance's directory."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_folder
short_description: Manage the folder of a run in an instance's directory
description:
  - Creates C(runs/RUN) for the instance's user, with the plan and the settings of the replay, or removes it.
  - The folder C(runs) belongs to the instance's user, who can put anything there. The module follows no links, and fails with one
    line that names what it found. Modules that take a whole path, such as M(ansible.builtin.file), would follow them as root.
extends_documentation_fragment: [shared, shared.run, shared.state]
options:
  user:
    description: The instance's user, who gets the folder. Required with O(state=present).
    type: str
  plan:
    description: File with the plan, in a folder that belongs to root. If omitted, the folder gets no plan.
    type: path
  plan_sha256:
    description:
      - SHA-256 of the plan in hexadecimal digits. Required with O(plan).
      - The module fails if the folder has another plan, because the journal in the folder belongs to that plan.
    type: str
  settings:
    description: Content of C(run.json). If omitted, the file is not written.
    type: json
  rm:
    description: Resource manager of the run. With it, C(run.json) also has what this resource manager needs.
    type: str
  folders:
    description: Further folders of the instance's directory to remove with O(state=absent).
    type: list
    elements: str
    default: []
  state:
    description: Whether the folder exists.
"""

EXAMPLES = r"""
- name: Create the run's folder
  run_folder:
    instance: /var/lib/slurm-mirage/mirage
    run: first
    user: slurm-mirage
"""

RETURN = "{}"

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance import run_folder


@module_main(DOCUMENTATION, required_if=[("state", "present", ["user"])], required_by={"plan": ["plan_sha256"]})
def main(module: AnsibleModule) -> Result:
    ensure = run_folder.ensure_present if module.params["state"] == "present" else run_folder.ensure_absent
    return {"changed": ensure(module.params, module.check_mode)}


if __name__ == "__main__":
    main()
