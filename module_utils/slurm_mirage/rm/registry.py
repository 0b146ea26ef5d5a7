"""The implementations of the resource managers (managers.py) by name.

Implementations are imported by statements, because Ansible ships only what a module imports that way.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..base.errors import WrongUse
from ..base.run_settings import RunSettings
from .api import Records, ResourceManager
from .evidence import Names
from .managers import DEFAULT, KEY, MANAGERS
from .others import OTHERS
from .rows import HostTools, Implementation
from .slurm import collected, daemon_log
from .slurm import records as slurm_records
from .slurm.commands import Slurm

IMPLEMENTATIONS: dict[str, Implementation] = {
    DEFAULT: Implementation(
        Slurm.of_run,
        Slurm.records,
        HostTools(
            Slurm.of_instance,
            daemon_log.of_instance,
            daemon_log.by_kind,
            collected.files,
            slurm_records.CONFIGURATION_FILE,
            collected.of_head,
            collected_elsewhere=collected.of_other_host,
        ),
    ),
    **{other.name: other.implementation() for other in OTHERS},
}


def connect(settings: RunSettings, lock: int) -> ResourceManager:
    """The resource manager of a run. Raises WrongUse."""
    return settings.one_of(KEY, IMPLEMENTATIONS, DEFAULT).connect(settings, lock)


def names_of(manager: str) -> Names:
    """The names that belong to the name of a manager; Slurm's if there is none."""
    matching = (one.records.names for one in IMPLEMENTATIONS.values() if one.records.names.manager == manager)
    return next(matching, IMPLEMENTATIONS[DEFAULT].records.names)


def records_of_daemons(kinds: Iterable[str]) -> Records:
    """The records of the resource manager that has daemons of these kinds; of the default one if there is none."""
    known = frozenset(kinds)
    matching = (name for name, manager in MANAGERS.items() if any(kind.manager and kind.name in known for kind in manager.daemons))
    return IMPLEMENTATIONS[next(matching, DEFAULT)].records


def tools(name: str) -> HostTools:
    """What tools on hosts use of the resource manager of that name. Raises WrongUse."""
    host_tools = IMPLEMENTATIONS[name].tools if name in IMPLEMENTATIONS else None
    if host_tools is None:
        known = ", ".join(sorted(one for one, implementation in IMPLEMENTATIONS.items() if implementation.tools))
        raise WrongUse(f"one of {known}", parameter=KEY, value=name)
    return host_tools
