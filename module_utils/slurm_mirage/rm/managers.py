"""The resource managers by name: what is known without their implementations (registry.py), which take longer to import.

A run names its own in run.json (key `rm`); without that key it is Slurm.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..base.errors import WrongUse
from ..base.files import undamaged_json
from .others import OTHERS
from .rows import Manager
from .slurm import daemons as slurm_daemons
from .slurm.traits import TRAITS as SLURM_TRAITS
from .traits import Traits

KEY, DEFAULT = "rm", "slurm"


MANAGERS: dict[str, Manager] = {
    DEFAULT: Manager(slurm_daemons.KINDS, SLURM_TRAITS, slurm_daemons.farm_content, "SLURM_CONF", "slurm_conf", "etc/slurm.conf"),
    **{other.name: other.manager for other in OTHERS},
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
