"""Access to a running cluster on several hosts: each host by SSH, Slurm's commands on the head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import testinfra
from running import Cluster
from testinfra.utils.ansible_runner import AnsibleRunner


def names_of(inventory: str) -> list[str]:
    """Return the names of an inventory's hosts without duplicates, the head first."""
    runner = AnsibleRunner.get_runner(inventory)
    return list(dict.fromkeys([*runner.get_hosts("head"), *runner.get_hosts("compute")]))


@dataclass
class Hosts:
    """The hosts of an inventory with their addresses, by name, and the cluster on them."""

    on: dict[str, Any]
    addresses: dict[str, str]
    head: str
    compute: list[str]
    cluster: Cluster

    @classmethod
    def of(cls, inventory: str, name: str, nodes: int, cpus: int) -> Hosts:
        runner = AnsibleRunner.get_runner(inventory)
        names = names_of(inventory)
        on = {host: testinfra.get_host(f"ansible://{host}?ansible_inventory={inventory}") for host in names}
        addresses = {host: runner.get_variables(host)["ansible_host"] for host in names}
        return cls(on, addresses, names[0], runner.get_hosts("compute"), Cluster(on[names[0]], name, nodes, cpus))

    @property
    def unit(self) -> str:
        return f"slurm-farm@{self.cluster.name}.service"

    def blocks(self) -> dict[str, list[int]]:
        """Return the sorted numbers of the nodes that slurmctld has at each address."""
        numbers: dict[str, list[int]] = {}
        for line in self.cluster.run("scontrol --oneliner show nodes").splitlines():
            words = dict(word.split("=", 1) for word in line.split() if "=" in word)
            numbers.setdefault(words["NodeAddr"], []).append(int(words["NodeName"].removeprefix("n")))
        return {address: sorted(at_address) for address, at_address in numbers.items()}

    def nodes(self, host: str) -> list[int]:
        """Return the sorted numbers of a host's nodes."""
        return self.blocks()[self.addresses[host]]

    def daemons(self, host: str) -> dict[str, dict[str, int]]:
        """Return how many daemons of a host's farm are wanted, up and ready, by kind."""
        at = Cluster(self.on[host], self.cluster.name, self.cluster.nodes, self.cluster.cpus)
        return dict(at.state()["daemons"])

    def slurmd(self, host: str) -> int:
        """Return the number of slurmd on a host, without slurmstepd."""
        return int(self.on[host].run(f"pgrep --count --exact --uid {self.cluster.user} slurmd").stdout)

    def states(self) -> dict[str, str]:
        """Return the state of each node by name, as sinfo prints it (idle, down*, ...)."""
        lines = self.cluster.run("sinfo --Node --noheader --format '%N %T'").splitlines()
        return dict(line.split() for line in lines)

    def answers(self) -> bool:
        """Return whether slurmctld answers."""
        environment = f"SLURM_CONF={self.cluster.directory}/etc/slurm.conf"
        return bool(self.on[self.head].run(f"{environment} scontrol ping").rc == 0)

    def write(self, host: str, path: str, text: str) -> None:
        """Write an executable file on a host."""
        result = self.on[host].run("printf %%s %s > %s && chmod 0755 %s", text, path, path)
        assert result.rc == 0, result.stderr

    def all_idle(self) -> bool:
        states = self.states()
        return len(states) == self.cluster.nodes and set(states.values()) == {"idle"}

    def submit(self, *options: str, command: str) -> str:
        """Submit a job; returns its id."""
        return self.cluster.run(f"sbatch --parsable {' '.join(options)} --wrap '{command}'")
