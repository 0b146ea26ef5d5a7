#!/usr/bin/python
"""Ansible module: an nftables table that admits only some hosts to an instance's ports."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nftables_table
short_description: Manage the nftables table of an instance
description:
  - Manages one nftables table (family inet). It rejects packets to O(ports) that do not come from O(hosts), and leaves all other
    packets to the host's own rules.
  - The table is replaced atomically, and only when it differs.
  - The table is also written to O(file), from which it can be loaded when the host boots.
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
    description: Addresses and networks that may reach O(ports).
    type: list
    elements: str
    default: []
  ports:
    description: Ports and port ranges, such as V(111/udp) and V(17000-17360/tcp).
    type: list
    elements: str
    default: []
  needed:
    description: TCP ports that O(ports) may not contain, because Ansible connects to them.
    type: list
    elements: int
    default: [22]
  nft:
    description: Path of nft.
    type: path
    default: /usr/sbin/nft
  state:
    description: Whether the table and its file exist.
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
- name: Reject other hosts at the cluster's ports
  nftables_table:
    name: slurm_mirage_mine
    file: /var/lib/slurm-mirage/mine/etc/firewall.nft
    hosts: [192.0.2.10, 192.0.2.11, 198.51.100.0/24]
    ports: [17000-17360/tcp, 17000-17360/udp, 111/tcp, 111/udp]
"""

RETURN = r"""
rules:
  description: Text of the table in nft's syntax; empty with O(state=absent).
  returned: always
  type: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.files import differs, write_atomically
from ansible.module_utils.slurm_mirage.network import firewall


def loaded_table(module: AnsibleModule) -> str | None:
    """Return the table as `nft list table` prints it; None when the kernel has no such table or nft is not installed."""
    if not Path(module.params["nft"]).exists():
        return None
    code, listing, _ = module.run_command([module.params["nft"], "list", "table", "inet", module.params["name"]])
    return str(listing) if code == 0 else None


def ensure_present(module: AnsibleModule) -> tuple[bool, str]:
    """Write and load the table, but not in check mode; returns whether anything changes, and the table's text."""
    params = module.params
    firewall.check_reachable(map(firewall.parse_ports, params["ports"]), params["needed"])
    rules = firewall.table(params["name"], params["hosts"], params["ports"])
    content, path = firewall.replacement_script(params["name"], rules), Path(params["file"])
    is_written = not differs(path, content)
    is_loaded = firewall.table_digest(loaded_table(module) or "") == firewall.table_digest(rules)
    if not module.check_mode:
        if not is_written:
            write_atomically(path, content)
        if not is_loaded:
            module.run_command([params["nft"], "-f", str(path)], check_rc=True)
    return not (is_written and is_loaded), rules


def ensure_absent(module: AnsibleModule) -> tuple[bool, str]:
    """Remove the table and its file, but not in check mode; returns whether anything changes, and an empty text."""
    params, path = module.params, Path(module.params["file"])
    is_written, is_loaded = path.exists(), loaded_table(module) is not None
    if not module.check_mode:
        if is_loaded:
            module.run_command([params["nft"], "delete", "table", "inet", params["name"]], check_rc=True)
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
        module.fail_json(msg=f"wrong use: {error}")
    except OSError as error:
        module.fail_json(msg=f"{module.params['file']} cannot be written ({error.strerror})")
    module.exit_json(changed=changed, rules=rules)


if __name__ == "__main__":
    main()
