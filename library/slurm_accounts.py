#!/usr/bin/python
"""Ansible module: creates accounts, associations and QOS of an emulated cluster with accounting."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_accounts
short_description: Create the accounts and QOS of an emulated cluster
description:
  - Gives each user of a workload an account of its own, so that fair share and limits apply to the users of a log. The instance's
    user gets the account C(default), which jobs without an account use, and the accounts of its own jobs.
  - Calls C(sacctmgr) once for up to 250 accounts and once for all users, and then waits until slurmctld knows them. Other accounts
    and QOS are not changed.
extends_documentation_fragment: [shared]
options:
  directory:
    description: Directory of the instance. Its slurmctld and slurmdbd must be running.
    type: path
    required: true
  bin:
    description: Folder with sacctmgr and scontrol.
    type: path
    default: /usr/bin
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  user:
    description: Account of the instance on the host.
    type: str
    required: true
  plan:
    description: A plan (plan.csv), in a folder that belongs to root. The accounts and users of its jobs are created.
    type: path
  users:
    description: Numbers of further users of a log, in addition to those in O(plan). User 12 is C(u12), with account C(u12).
    type: list
    elements: int
    default: []
  shares:
    description: Shares of the log's users, by their numbers. The default is 1.
    type: dict
    default: {}
  qos:
    description: QOS besides C(normal), each a mapping with C(name) and options of sacctmgr. All accounts may use them.
    type: list
    elements: dict
    default: []
  site:
    description:
      - Associations of a site, mappings with C(account), C(parent), C(user), C(partition) and C(words), options of sacctmgr.
        Accounts come after their parents, and users last.
    type: list
    elements: dict
    default: []
  wait:
    description: Seconds to wait for slurmdbd to answer, and then for slurmctld to know the changes.
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Create the accounts of a workload
  slurm_accounts:
    directory: /var/lib/slurm-mirage/mirage
    cluster: mirage
    user: slurm-mirage
    plan: /var/lib/slurm-mirage/mirage/transfer/kth/plan.csv
    shares: {12: 5}
    qos:
      - name: urgent
        Priority: 100
"""

RETURN = r"""
commands:
  description: Arguments of the sacctmgr commands that were run, or in check mode would be run (each cut to 200 characters).
  returned: always
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.rm.slurm.account_commands import AccountCommands
from ansible.module_utils.slurm_mirage.rm.slurm.accounting import wanted_of


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    wanted = wanted_of(module.params)
    accounts = AccountCommands(Path(module.params["directory"]), module.params["bin"], module.params["wait"])
    commands = accounts.missing(wanted) if module.check_mode else accounts.ensure(wanted)
    return {"changed": bool(commands), "commands": [" ".join(words)[:200] for words in commands]}


if __name__ == "__main__":
    main()
