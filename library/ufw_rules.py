#!/usr/bin/python
"""Ansible module: ufw rules that admit some hosts to an instance's ports."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ufw_rules
short_description: Manage the ufw rules of an instance
description:
  - Keeps one ufw rule for each combination of O(hosts) and O(ports), and no other rules of the instance.
  - The comment of a rule names the instances that need it. A rule is removed when no instance needs it any more.
  - A rule without such a comment belongs to the administrator. It is not changed, and the instance adds no equal rule.
  - Does not enable or disable ufw.
extends_documentation_fragment: [shared, shared.firewall, shared.state]
options:
  instance:
    description: Name of the instance.
    type: str
    required: true
  ufw:
    description: Path of ufw. If the program does not exist, no rule is removed.
    type: path
    default: /usr/sbin/ufw
  folder:
    description: Folder in which ufw keeps its rules.
    type: path
    default: /etc/ufw
  state:
    description: Whether the instance has rules.
"""

EXAMPLES = r"""
- name: Admit the cluster's hosts to the instance's ports
  ufw_rules:
    instance: mine
    hosts: [192.0.2.10, 192.0.2.11, 198.51.100.0/24]
    ports: [17000-17360/tcp, 17000-17360/udp]
"""

RETURN = r"""
commands:
  description: Arguments of the ufw commands that were run, or in check mode would be run.
  returned: always
  type: list
  elements: str
left:
  description: Number of the instance's rules that remain with O(state=absent), because ufw is not installed any more.
  returned: always
  type: int
"""

from pathlib import Path

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.base.files import locked_folder
from ansible.module_utils.slurm_mirage.network import ufw


def missing_changes(module: AnsibleModule) -> list[list[str]]:
    """Return the arguments of the ufw commands that bring the host to the requested state."""
    params = module.params
    files = [Path(params["folder"], name) for name in ("user.rules", "user6.rules")]
    existing = ufw.parse_rules("".join(path.read_text(errors="replace") for path in files if path.exists()))
    is_present = params["state"] == "present"
    return ufw.changes(existing, params["instance"], ufw.required_rules(params["hosts"], params["ports"]) if is_present else set())


def apply(module: AnsibleModule) -> list[list[str]]:
    """Run the ufw commands and return them. The lock is needed because a rule's comment is read and then written."""
    with locked_folder(Path(module.params["folder"])):
        commands = missing_changes(module)
        for command in commands:
            module.run_command([module.params["ufw"], *command], check_rc=True, environ_update={"LC_ALL": "C"})
    return commands


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    is_uninstalled = module.params["state"] == "absent" and not Path(module.params["ufw"]).exists()
    try:
        commands = (missing_changes if module.check_mode or is_uninstalled else apply)(module)
    except OSError as error:
        raise RuntimeError(f"{module.params['folder']} cannot be read ({error.strerror})") from error
    done, left = ([], commands) if is_uninstalled else (commands, [])
    return {"changed": bool(done), "commands": [" ".join(command) for command in done], "left": len(left)}


if __name__ == "__main__":
    main()
