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
options:
  instance:
    description: Directory of the instance.
    type: path
    required: true
  run:
    description: Name of the run.
    type: str
    required: true
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
    type: str
    choices: [present, absent]
    default: present
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Create the run's folder
  run_folder:
    instance: /var/lib/slurm-mirage/mirage
    run: first
    user: slurm-mirage
"""

RETURN = r"""
{}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.instance import run_folder


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "path", "required": True},
            "run": {"type": "str", "required": True},
            "user": {"type": "str"},
            "plan": {"type": "path"},
            "plan_sha256": {"type": "str"},
            "settings": {"type": "json"},
            "rm": {"type": "str"},
            "folders": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ["user"])],
        required_by={"plan": ["plan_sha256"]},
        supports_check_mode=True,
    )
    ensure = run_folder.ensure_present if module.params["state"] == "present" else run_folder.ensure_absent
    try:
        module.exit_json(changed=ensure(module.params, module.check_mode))
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except OSError as error:
        module.fail_json(msg=f"failed: {error}")


if __name__ == "__main__":
    main()
