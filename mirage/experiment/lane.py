"""The instance on which a run of an order goes on."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.experiment import preflight
from mirage.experiment.instance_use import InstanceUse
from mirage.knobs.knobs import ClusterKnobs
from mirage.terminal.screen import Screen
from slurm_mirage.base.files import read_json
from slurm_mirage.rm.managers import manager_of


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

    def clear_for(self, manager: str, slurm: Path | None, inventory: Path, log: Path) -> None:
        """Remove the instance if it has another resource manager, or another build of Slurm than that with the commands in `slurm`
        (None: any). Raises what `run_playbook` raises.

        On other machines the role `instance` refuses an instance of another one.
        """
        directory = preflight.instance_directory(self.cluster)
        if not preflight.is_here(self.cluster) or not (directory / "instance.json").exists():
            return
        if manager_of(directory) != manager:
            other = "resource manager"
        elif slurm is not None and (controller := _slurmctld(directory)) is not None and controller.parents[1] != slurm.parent:
            other = "build of Slurm"
        else:
            return
        self.screen.live(f"removing {self.name}, which has another {other}")
        self.use.play("teardown", {"mirage_cluster": self.name}, inventory, self.screen, log)

    def _own_variables(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """PORT is that of the first instance; the others take the first free block."""
        if self.host or self.name == self.first:
            return {}
        port = {"mirage_port": 0} if "mirage_port" in variables else {}
        return {"mirage_cluster": self.name, "instance_belongs_to": self.first, **port}


def _slurmctld(directory: Path) -> Path | None:
    """The program that the farm of an instance runs as slurmctld; None without one."""
    with suppress(OSError, ValueError, AttributeError, TypeError, IndexError):
        commands = (daemon.get("command", [""]) for daemon in read_json(directory / "etc/farm.json")["daemons"])
        return next((path for command in commands if (path := Path(command[0])).name == "slurmctld"), None)
    return None
