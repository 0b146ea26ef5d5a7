#!/usr/bin/python
"""Ansible module: creates accounts, associations and QOS of an emulated cluster with accounting."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_accounts
short_description: Create the accounts and QOS of an emulated cluster
description:
  - Gives the instance's user, who submits all jobs, an association with the account C(default), which jobs without an account use,
    and with each account of a workload, so that fair share applies to the users of a log.
  - Calls C(sacctmgr) once for up to 500 names, and then waits until slurmctld knows them. Other accounts and QOS are not changed.
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
    description: A plan (plan.csv). The accounts of its jobs are created.
    type: path
  users:
    description: Numbers of further users of a log who get an account, in addition to those in O(plan). User 12 has account C(u12).
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
  wait:
    description: Seconds to wait for slurmdbd to answer, and then for slurmctld to know the changes.
    type: int
    default: 60
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Create the accounts of a workload
  slurm_accounts:
    directory: /var/lib/slurm-mirage/mirage
    cluster: mirage
    user: slurm-mirage
    plan: /var/lib/slurm-mirage/mirage/runs/kth/plan.csv
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

import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.files import read_json, write_json
from ansible.module_utils.slurm_mirage.clock import instance_clock
from ansible.module_utils.slurm_mirage.jobs.plan import read_plan
from ansible.module_utils.slurm_mirage.rm.slurm.accounting import (
    ASSOCIATION_FORMAT,
    DEFAULT_ACCOUNT,
    Present,
    Wanted,
    account_of,
    parse_associations,
    qos_of,
    shares_of,
)


class Accounts:
    """The commands that show and change what the database has."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self._directory = Path(module.params["directory"])
        self._memo = self._directory / "etc/qos.json"
        self._environment = {
            "SLURM_CONF": f"{self._directory}/etc/slurm.conf",
            "TZ": "UTC",
            **instance_clock.environment(self._directory),
        }

    def ask(self, program: str, *words: str) -> tuple[int, str, str]:
        """Exit code, output and errors of one of Slurm's commands."""
        command = [f"{self._module.params['bin']}/{program}", *words]
        code, output, errors = self._module.run_command(command, environ_update=self._environment)
        return code, output, errors

    def look(self) -> Present | str:
        """What the database has, or why it does not say."""
        cluster, user = (self._module.params[name] for name in ("cluster", "user"))
        show = ("sacctmgr", "--noheader", "--parsable2", "show")
        code, names, errors = self.ask(*show, "qos", "format=name")
        if code == 0:
            code, lines, errors = self.ask(*show, "associations", f"cluster={cluster}", f"format={ASSOCIATION_FORMAT}")
        if code != 0 or not lines:
            return errors.strip().rpartition("\n")[2] or f"cluster {cluster} is not registered yet"
        words = read_json(self._memo) or {}
        return parse_associations(lines, user, {name: words.get(name, {}) for name in names.split()})

    def look_patiently(self) -> Present:
        """The same, once slurmdbd answers and slurmctld has registered the cluster there."""
        deadline = time.monotonic() + self._module.params["wait"]
        while isinstance(present := self.look(), str):
            if time.monotonic() > deadline:
                self._module.fail_json(msg=f"slurmdbd does not answer: {present}; see {self._directory}/log/slurmdbd.log")
            time.sleep(0.5)
        return present

    def change(self, commands: list[list[str]], qos: dict[str, dict[str, str]]) -> None:
        """Tell sacctmgr."""
        for words in commands:
            code, output, errors = self.ask("sacctmgr", "--immediate", "--quiet", *words)
            if code != 0:
                said = " ".join(f"{output} {errors}".split())
                self._module.fail_json(msg=f"sacctmgr {' '.join(words)[:200]}: {said}")
        write_json(self._memo, {**(read_json(self._memo) or {}), **qos})

    def wait_for_slurmctld(self, wanted: Wanted) -> None:
        """Wait until slurmctld has heard of all of the user's accounts: it would refuse jobs of those that it has not."""
        deadline = time.monotonic() + self._module.params["wait"]
        accounts = {DEFAULT_ACCOUNT, *filter(None, wanted.accounts)}
        while missing := accounts - self._known(wanted.user):
            if time.monotonic() > deadline:
                self._module.fail_json(
                    msg=f"slurmctld does not know account {min(missing)}; see {self._directory}/log/slurmctld.log"
                )
            time.sleep(0.5)

    def _known(self, user: str) -> set[str]:
        lines = self.ask("scontrol", "show", "assoc_mgr", f"users={user}", "flags=assoc")[1].splitlines()
        fields = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines if "UserName=" in line]
        return {field["Account"] for field in fields if field["UserName"].partition("(")[0] == user}


def wanted_of(parameters: dict[str, Any]) -> Wanted:
    """What shall be there. Raises WrongUse."""
    plan = Path(parameters["plan"]) if parameters["plan"] else None
    accounts = sorted({row.account for row in read_plan(plan)} if plan else ())
    accounts += map(account_of, parameters["users"])
    where = "CONFIG"
    shares, qos = shares_of(parameters["shares"], where), qos_of(parameters["qos"], where)
    return Wanted(parameters["cluster"], parameters["user"], accounts, shares, qos)


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "bin": {"type": "path", "default": "/usr/bin"},
            "cluster": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "plan": {"type": "path"},
            "users": {"type": "list", "elements": "int", "default": []},
            "shares": {"type": "dict", "default": {}},
            "qos": {"type": "list", "elements": "dict", "default": []},
            "wait": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    try:
        wanted = wanted_of(module.params)
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    accounts = Accounts(module)
    if module.check_mode:
        seen = accounts.look()
        # Of a cluster that is not there yet it is not known.
        commands = list(wanted.commands(Present() if isinstance(seen, str) else seen))
    else:
        commands = list(wanted.commands(accounts.look_patiently()))
        if commands:
            accounts.change(commands, {name: dict(words) for name, words in wanted.qos.items()})
            accounts.wait_for_slurmctld(wanted)
    module.exit_json(changed=bool(commands), commands=[" ".join(words)[:200] for words in commands])


if __name__ == "__main__":
    main()
