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
extends_documentation_fragment: [shared, shared.firewall, shared.state]
options:
  name:
    description: Name of the table.
    type: str
    required: true
  file:
    description: File that C(nft -f) loads the table from.
    type: path
    required: true
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

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.base.files import differs, write_atomically
from ansible.module_utils.slurm_mirage.network import firewall


def loaded_table(module: AnsibleModule) -> str | None:
    """Return the table as `nft list table` prints it; None when the kernel has no such table or nft is not installed."""
    if not Path(module.params["nft"]).exists():
        return None
    code, listing, _ = module.run_command([module.params["nft"], "list", "table", "inet", module.params["name"]])
    return str(listing) if code == 0 else None


def ensure_present(module: AnsibleModule) -> Result:
    """Write and load the table, but not in check mode; returns the result."""
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
    return {"changed": not (is_written and is_loaded), "rules": rules}


def ensure_absent(module: AnsibleModule) -> Result:
    """Remove the table and its file, but not in check mode; returns the result."""
    params, path = module.params, Path(module.params["file"])
    is_written, is_loaded = path.exists(), loaded_table(module) is not None
    if not module.check_mode:
        if is_loaded:
            module.run_command([params["nft"], "delete", "table", "inet", params["name"]], check_rc=True)
        path.unlink(missing_ok=True)
    return {"changed": is_written or is_loaded, "rules": ""}


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    try:
        return (ensure_present if module.params["state"] == "present" else ensure_absent)(module)
    except OSError as error:
        raise RuntimeError(f"{module.params['file']} cannot be written ({error.strerror})") from error


if __name__ == "__main__":
    main()
