"""The implementations of the resource managers (managers.py) by name.

Implementations are imported by statements, because Ansible ships only what a module imports that way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import WrongUse
from ..base.run_settings import RunSettings
from .api import Commands, Records, ResourceManager
from .evidence import Complaint, Names, Span
from .managers import DEFAULT, KEY, MANAGERS
from .openpbs import collection as openpbs_collection
from .openpbs import daemon_log as openpbs_log
from .openpbs import daemons as openpbs_daemons
from .openpbs import leftovers as openpbs_leftovers
from .openpbs.commands import OpenPbs
from .slurm import collected, daemon_log
from .slurm import records as slurm_records
from .slurm.commands import Slurm


@dataclass(frozen=True)
class HostTools:
    """What tools on the hosts of an instance use of a resource manager."""

    of_instance: Callable[..., Commands]
    """Makes the interface to the running manager from an instance's directory, the folder of the manager's commands, and optionally
    real seconds after which a query ends (`query_timeout`), words before each command (`become`), and, for an instance with a
    network of its own, the way into it (`enter`)."""
    complaints: Callable[[Path, Span, int], Iterator[Complaint]]
    """The complaints in the logs of an instance's daemons on this host: from its directory, a time span, and the bytes that the
    controller's log had when it began."""
    by_kind: Callable[[Iterable[Complaint]], dict[str, int]]
    """Counts complaints."""
    files: Callable[[Path, str], list[tuple[Path, str]]]
    """Its records of a run, from an instance's directory and the name of the run: a folder of root's, and the path in it."""
    in_force_file: str
    """Name of the file in a run's folder with the configuration in force (`Commands.configuration`)."""
    collected: Callable[[Path, str, Mapping[str, Any], str | None, bool], dict[str, str]] | None = None
    """Makes further records on the head, content by name: from an instance's directory, the name of a run, the start event of its
    journal, the folder of the commands (None: the host's), and whether there is accounting. None: there are none."""
    remove_leftovers: Callable[[int], None] | None = None
    """Removes what its commands leave outside of an instance's directory, from the number of the instance's account."""
    collected_elsewhere: Callable[[Path, float], dict[str, str]] | None = None
    """Makes further records on other hosts, content by name: from an instance's directory, and the run's begin on the cluster's
    clock. None: there are none."""


@dataclass(frozen=True)
class Implementation:
    """A resource manager: `connect` makes its `ResourceManager` from a run.json and the lock that a running submission shares."""

    connect: Callable[[RunSettings, int], ResourceManager]
    records: Records
    tools: HostTools | None = None
    """Its tools on hosts; None: it has no instances."""


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
    "openpbs": Implementation(
        OpenPbs.of_run,
        OpenPbs.records,
        # It frees the processors of a job before it writes the job's end: there is nothing to collect besides.
        tools=HostTools(
            OpenPbs.of_instance,
            openpbs_log.of_instance,
            openpbs_log.by_kind,
            lambda instance, run: [
                (instance, path) for path in (f"runs/{run}/pbs.csv", openpbs_daemons.ACCOUNTING, "etc/pbs.conf")
            ],
            openpbs_collection.CONFIGURATION_FILE,
            remove_leftovers=openpbs_leftovers.remove,
        ),
    ),
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
    matching = (name for name, manager in MANAGERS.items() if any(kind.name in known for kind in manager.daemons))
    return IMPLEMENTATIONS[next(matching, DEFAULT)].records


def tools(name: str) -> HostTools:
    """What tools on hosts use of the resource manager of that name. Raises WrongUse."""
    host_tools = IMPLEMENTATIONS[name].tools if name in IMPLEMENTATIONS else None
    if host_tools is None:
        known = ", ".join(sorted(one for one, implementation in IMPLEMENTATIONS.items() if implementation.tools))
        raise WrongUse(f"one of {known}", parameter=KEY, value=name)
    return host_tools
