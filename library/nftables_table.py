#!/usr/bin/python
"""Ansible module: a table of nftables that lets only some hosts reach an instance's ports."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nftables_table
short_description: Let only some hosts reach some ports of this one
description:
  - Keeps one table of nftables (family inet) of the given name. What comes to O(ports) from elsewhere than O(hosts) is refused
    there; everything else is left to the host's own rules.
  - The table is replaced in one step, and only when it is not there as it should be.
  - It is written to O(file), too, so that it can be loaded when the host starts. A file that is there says that the table was made.
options:
  name:
    description: Name of the table.
    type: str
    required: true
  file:
    description: File that C(nft -f) loads the table from.
    type: path
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
  needed:
    description: TCP ports that O(ports) may not have, because the control machine comes by them.
    type: list
    elements: int
    default: [22]
  nft:
    description: The program.
    type: path
    default: /usr/sbin/nft
  state:
    description: Whether the table and its file shall be there.
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
- name: Keep strangers from the cluster's ports
  nftables_table:
    name: slurm_mirage_mine
    file: /var/lib/slurm-mirage/mine/etc/firewall.nft
    hosts: [192.0.2.10, 192.0.2.11, 198.51.100.0/24]
    ports: [17000-17360/tcp, 17000-17360/udp, 111/tcp, 111/udp]
"""

RETURN = r"""
rules:
  description: The table, as nft reads it; empty with O(state=absent).
  returned: always
  type: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.files import differs, write_atomically
from ansible.module_utils.slurm_mirage.network import firewall


def loaded(module: AnsibleModule) -> str | None:
    """What the kernel has of the table; None if it has none, or there is no nft."""
    if not Path(module.params["nft"]).exists():
        return None
    code, listing, _ = module.run_command([module.params["nft"], "list", "table", "inet", module.params["name"]])
    return str(listing) if code == 0 else None


def ensure_present(module: AnsibleModule) -> tuple[bool, str]:
    """Whether anything changed or would, and the table."""
    asked = module.params
    firewall.check_reachable(map(firewall.ports_of, asked["ports"]), asked["needed"])
    rules = firewall.table(asked["name"], asked["hosts"], asked["ports"])
    content, path = firewall.replacing(asked["name"], rules), Path(asked["file"])
    is_written = not differs(path, content)
    is_loaded = firewall.mark_of(loaded(module) or "") == firewall.mark_of(rules)
    if not module.check_mode:
        if not is_written:
            write_atomically(path, content)
        if not is_loaded:
            module.run_command([asked["nft"], "-f", str(path)], check_rc=True)
    return not (is_written and is_loaded), rules


def ensure_absent(module: AnsibleModule) -> tuple[bool, str]:
    """Whether anything changed or would, and no table."""
    asked, path = module.params, Path(module.params["file"])
    is_written, is_loaded = path.exists(), loaded(module) is not None
    if not module.check_mode:
        if is_loaded:
            module.run_command([asked["nft"], "delete", "table", "inet", asked["name"]], check_rc=True)
        path.unlink(missing_ok=True)
    return is_written or is_loaded, ""


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "file": {"type": "path", "required": True},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "ports": {"type": "list", "elements": "str", "default": []},
            "needed": {"type": "list", "elements": "int", "default": [22]},
            "nft": {"type": "path", "default": "/usr/sbin/nft"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    try:
        changed, rules = (ensure_present if module.params["state"] == "present" else ensure_absent)(module)
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except OSError as error:
        module.fail_json(msg=f"{module.params['file']} cannot be written ({error.strerror})")
    module.exit_json(changed=changed, rules=rules)


if __name__ == "__main__":
    main()
