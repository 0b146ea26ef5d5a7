#!/usr/bin/python
"""Ansible module: rules of ufw that let some hosts reach an instance's ports."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ufw_rules
short_description: Let some hosts through ufw to some ports of this one
description:
  - Keeps a rule of ufw for each of O(hosts) and O(ports), and no other rule of the instance.
  - The comment of a rule names the instances that need it. One that others need, too, stays when this one needs it no more.
  - A rule without such a comment is the administrator's. It stays as it is, and the instance makes none like it.
  - Whether ufw is on is left as it is.
options:
  instance:
    description: Name of the instance.
    type: str
    required: true
  hosts:
    description: Addresses and networks from which O(ports) can be reached.
    type: list
    elements: str
    default: []
  ports:
    description: Ports and ranges of them, like V(111/udp) and V(17000-17360/tcp).
    type: list
    elements: str
    default: []
  ufw:
    description: The program. Without it nothing is removed.
    type: path
    default: /usr/sbin/ufw
  folder:
    description: Where it keeps its rules.
    type: path
    default: /etc/ufw
  state:
    description: Whether the instance shall have rules.
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
- name: Let the cluster's hosts through
  ufw_rules:
    instance: mine
    hosts: [192.0.2.10, 192.0.2.11, 198.51.100.0/24]
    ports: [17000-17360/tcp, 17000-17360/udp]
"""

RETURN = r"""
commands:
  description: What ufw was asked to do, or would be.
  returned: always
  type: list
  elements: str
left:
  description: How many rules of the instance stay with O(state=absent), because there is no ufw any more to remove them.
  returned: always
  type: int
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.files import locked_folder
from ansible.module_utils.slurm_mirage.network import ufw


def missing_changes(module: AnsibleModule) -> list[list[str]]:
    """What ufw has to do."""
    asked = module.params
    files = [Path(asked["folder"], name) for name in ("user.rules", "user6.rules")]
    there = ufw.rules_in("".join(path.read_text(errors="replace") for path in files if path.exists()))
    is_wanted = asked["state"] == "present"
    return ufw.changes(there, asked["instance"], ufw.wanted(asked["hosts"], asked["ports"]) if is_wanted else set())


def apply(module: AnsibleModule) -> list[list[str]]:
    """Have ufw do it. A comment is read and written in two steps, so other instances wait meanwhile."""
    with locked_folder(Path(module.params["folder"])):
        commands = missing_changes(module)
        for command in commands:
            module.run_command([module.params["ufw"], *command], check_rc=True, environ_update={"LC_ALL": "C"})
    return commands


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "str", "required": True},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "ports": {"type": "list", "elements": "str", "default": []},
            "ufw": {"type": "path", "default": "/usr/sbin/ufw"},
            "folder": {"type": "path", "default": "/etc/ufw"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    is_gone = module.params["state"] == "absent" and not Path(module.params["ufw"]).exists()
    try:
        commands = (missing_changes if module.check_mode or is_gone else apply)(module)
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except OSError as error:
        module.fail_json(msg=f"{module.params['folder']} cannot be read ({error.strerror})")
    done, left = ([], commands) if is_gone else (commands, [])
    module.exit_json(changed=bool(done), commands=[" ".join(command) for command in done], left=len(left))


if __name__ == "__main__":
    main()
