"""The resource managers by name: what is known without their implementations (registry.py), which take longer to import.

A run names its own in run.json (key `rm`); without that key it is Slurm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import WrongUse
from ..base.files import undamaged_json
from .daemon_kinds import DaemonKind
from .openpbs import daemons as openpbs_daemons
from .openpbs.traits import TRAITS as OPENPBS_TRAITS
from .slurm import daemons as slurm_daemons
from .slurm.traits import TRAITS as SLURM_TRAITS
from .traits import Traits

KEY, DEFAULT = "rm", "slurm"


@dataclass(frozen=True)
class Manager:
    """A resource manager."""

    daemons: tuple[DaemonKind, ...]
    """Kinds of its daemons, in the order in which they are started."""
    traits: Traits
    """How it differs from Slurm."""
    farm_content: Callable[[Path, Mapping[str, Any]], dict[str, Any]]
    """Its part of the farm's specification, from an instance's directory and the options of library/slurm_farm.py."""
    variable: str
    """Environment variable with which its commands find an instance."""
    setting: str
    """Key of run.json with the same value."""
    file: str
    """The file that both name, in the instance's directory."""

    def environment(self, instance: Path) -> dict[str, str]:
        """The environment with which its commands find the instance in this directory."""
        return {self.variable: f"{instance}/{self.file}"}

    def run_settings(self, instance: Path) -> dict[str, str]:
        """The settings in run.json that only this manager has."""
        return {self.setting: f"{instance}/{self.file}"}


MANAGERS: dict[str, Manager] = {
    DEFAULT: Manager(slurm_daemons.KINDS, SLURM_TRAITS, slurm_daemons.farm_content, "SLURM_CONF", "slurm_conf", "etc/slurm.conf"),
    "openpbs": Manager(
        openpbs_daemons.KINDS, OPENPBS_TRAITS, openpbs_daemons.farm_content, "PBS_CONF_FILE", "pbs_conf", "etc/pbs.conf"
    ),
}


def manager(name: str) -> Manager:
    """The resource manager of that name. Raises WrongUse."""
    if name not in MANAGERS:
        raise WrongUse(f"one of {', '.join(sorted(MANAGERS))}", parameter=KEY, value=name)
    return MANAGERS[name]


DAEMON_KINDS = {kind.name: kind for manager in MANAGERS.values() for kind in manager.daemons}
"""The kinds of all daemons by name; those of each manager in the order in which they are started."""
NODE_KINDS = [name for name, kind in DAEMON_KINDS.items() if kind.is_node]
"""Names of the kinds of which each node has one."""


def manager_of(directory: Path) -> str:
    """Name of the resource manager of the instance in `directory`, as its instance.json says; DEFAULT without that."""
    content = undamaged_json(directory / "instance.json")
    name = content.get(KEY) if isinstance(content, Mapping) else None
    return name if isinstance(name, str) else DEFAULT


def traits_of(name: str) -> Traits:
    """The traits of the resource manager of that name; Slurm's for a name that is none."""
    return MANAGERS.get(name, MANAGERS[DEFAULT]).traits
