"""The instance on which a run of an order goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.experiment import preflight
from mirage.experiment.instance_use import InstanceUse
from mirage.knobs.knobs import ClusterKnobs
from mirage.terminal.screen import Screen
from slurm_mirage.rm.registry import manager_of


@dataclass(frozen=True)
class Lane:
    """An instance of an order, and the screen of the run on it.

    name: its name, or that of its host in `run_hosts`. cluster: that of the order, with the name of this instance. first: the
    CLUSTER of the order. host: its host in `run_hosts`; "" without such hosts.
    """

    name: str
    cluster: ClusterKnobs
    use: InstanceUse
    screen: Screen
    first: str
    host: str = ""

    @classmethod
    def only(cls, cluster: ClusterKnobs, use: InstanceUse, screen: Screen) -> Lane:
        """The instance of an order that uses no other."""
        return cls(cluster.name, cluster, use, screen, cluster.name)

    def place(self) -> dict[str, str]:
        """Where a run on this instance goes on, for its experiment.json."""
        return {"instance": self.cluster.name, **({"run_host": self.host} if self.host else {})}

    def play(self, playbook: str, variables: Mapping[str, Any], inventory: Path, log: Path) -> None:
        """Run the playbook of a run on this instance. Raises what `run_playbook` raises."""
        self.use.play(playbook, {**variables, **self._own_variables(variables)}, inventory, self.screen, log)

    def clear_for(self, manager: str, inventory: Path, log: Path) -> None:
        """Remove the instance if it has another resource manager. Raises what `run_playbook` raises.

        On other machines the role `instance` refuses an instance of another one.
        """
        directory = preflight.instance_directory(self.cluster)
        if not preflight.is_here(self.cluster) or not (directory / "instance.json").exists() or manager_of(directory) == manager:
            return
        self.screen.live(f"removing {self.name}, which has another resource manager")
        self.use.play("teardown", {"mirage_cluster": self.name}, inventory, self.screen, log)

    def _own_variables(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """PORT is that of the first instance; the others take the first free block."""
        if self.host or self.name == self.first:
            return {}
        port = {"mirage_port": 0} if "mirage_port" in variables else {}
        return {"mirage_cluster": self.name, "instance_belongs_to": self.first, **port}
