"""The resource managers by name. A run names its own in run.json (key `rm`); without that key it is Slurm.

Implementations are imported by statements, because Ansible ships only what a module imports that way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.errors import WrongUse
from ..base.files import undamaged_json
from ..base.run_settings import RunSettings
from .api import Commands, Records, ResourceManager
from .daemon_kinds import DaemonKind
from .evidence import Complaint, Names, Span
from .fillers import Fillers
from .openpbs import collection as openpbs_collection
from .openpbs import daemon_log as openpbs_log
from .openpbs import daemons as openpbs_daemons
from .openpbs import leftovers as openpbs_leftovers
from .openpbs.commands import OpenPbs
from .openpbs.traits import TRAITS as OPENPBS_TRAITS
from .sizes import Sizes
from .slurm import collected, daemon_log
from .slurm import daemons as slurm_daemons
from .slurm import records as slurm_records
from .slurm.commands import Slurm
from .slurm.filling import Filling
from .slurm.resizing import Resizing
from .slurm.traits import TRAITS as SLURM_TRAITS
from .traits import Traits

KEY, DEFAULT = "rm", "slurm"


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
    daemons: tuple[DaemonKind, ...]
    """Kinds of its daemons, in the order in which they are started."""
    files: tuple[str, ...]
    """Its records of a run, as paths in the instance's directory; {run} stands for the name of the run."""
    in_force_file: str
    """Name of the file in a run's folder with the configuration in force (`Commands.configuration`)."""
    run_settings: Callable[[Path], dict[str, str]]
    """Settings in run.json that only this manager has, from an instance's directory."""
    environment: Callable[[Path], dict[str, str]]
    """The environment variable with which its commands find an instance, from the instance's directory."""
    farm_content: Callable[[Path, Mapping[str, Any]], dict[str, Any]]
    """This manager's part of the farm's specification, from an instance's directory and the options of library/slurm_farm.py."""
    collected: Callable[[Path, str, Mapping[str, Any], str | None, bool], dict[str, str]] | None = None
    """Makes further records on the head, content by name: from an instance's directory, the name of a run, the start event of its
    journal, the folder of the commands (None: the host's), and whether there is accounting. None: there are none."""
    remove_leftovers: Callable[[int], None] | None = None
    """Removes what its commands leave outside of an instance's directory, from the number of the instance's account."""


@dataclass(frozen=True)
class Implementation:
    """A resource manager: `connect` makes its `ResourceManager` from a run.json and the lock that a running submission shares."""

    connect: Callable[[RunSettings, int], ResourceManager]
    records: Records
    sizes: Callable[[Path, str], Sizes] | None = None
    """Makes the side that the broker uses, from an instance's directory and the folder of the manager's commands; None: its jobs
    cannot change their size."""
    fillers: Callable[[RunSettings, int], Fillers] | None = None
    """Makes the side that the feeder uses, as `connect`; None: it has no filler jobs."""
    tools: HostTools | None = None
    """Its tools on hosts; None: it has no instances."""
    traits: Traits = field(default_factory=Traits)
    """How it differs from Slurm."""


IMPLEMENTATIONS: dict[str, Implementation] = {
    DEFAULT: Implementation(
        Slurm.of_run,
        Slurm.records,
        Resizing.of_broker,
        Filling.of_run,
        HostTools(
            Slurm.of_instance,
            daemon_log.of_instance,
            daemon_log.by_kind,
            slurm_daemons.KINDS,
            collected.FILES,
            slurm_records.CONFIGURATION_FILE,
            lambda instance: {"slurm_conf": f"{instance}/etc/slurm.conf"},
            lambda instance: {"SLURM_CONF": f"{instance}/etc/slurm.conf"},
            slurm_daemons.farm_content,
            collected.of_head,
        ),
        SLURM_TRAITS,
    ),
    "openpbs": Implementation(
        OpenPbs.of_run,
        OpenPbs.records,
        # It frees the processors of a job before it writes the job's end: there is nothing to collect besides.
        tools=HostTools(
            OpenPbs.of_instance,
            openpbs_log.of_instance,
            openpbs_log.by_kind,
            openpbs_daemons.KINDS,
            ("runs/{run}/pbs.csv", openpbs_daemons.ACCOUNTING, "etc/pbs.conf"),
            openpbs_collection.CONFIGURATION_FILE,
            lambda instance: {"pbs_conf": f"{instance}/etc/pbs.conf"},
            lambda instance: {"PBS_CONF_FILE": f"{instance}/etc/pbs.conf"},
            openpbs_daemons.farm_content,
            remove_leftovers=openpbs_leftovers.remove,
        ),
        traits=OPENPBS_TRAITS,
    ),
}


DAEMON_KINDS = {kind.name: kind for one in IMPLEMENTATIONS.values() if one.tools for kind in one.tools.daemons}
"""The kinds of all daemons by name; those of each manager in the order in which they are started."""
NODE_KINDS = [name for name, kind in DAEMON_KINDS.items() if kind.is_node]
"""Names of the kinds of which each node has one."""


def connect(settings: RunSettings, lock: int) -> ResourceManager:
    """The resource manager of a run. Raises WrongUse."""
    return settings.one_of(KEY, IMPLEMENTATIONS, DEFAULT).connect(settings, lock)


def fillers(settings: RunSettings, lock: int) -> Fillers:
    """What the feeder of a run uses of its resource manager. Raises WrongUse."""
    make = settings.one_of(KEY, IMPLEMENTATIONS, DEFAULT).fillers
    if make is None:
        raise WrongUse("this resource manager has no filler jobs; leave out FILLER", parameter="filler")
    return make(settings, lock)


def names_of(manager: str) -> Names:
    """The names that belong to the name of a manager; Slurm's if there is none."""
    matching = (one.records.names for one in IMPLEMENTATIONS.values() if one.records.names.manager == manager)
    return next(matching, IMPLEMENTATIONS[DEFAULT].records.names)


def manager_of(directory: Path) -> str:
    """Name of the resource manager of the instance in `directory`, as its instance.json says; DEFAULT without that."""
    content = undamaged_json(directory / "instance.json")
    name = content.get(KEY) if isinstance(content, Mapping) else None
    return name if isinstance(name, str) else DEFAULT


def traits_of(name: str) -> Traits:
    """The traits of the resource manager of that name; Slurm's for a name that is none."""
    return IMPLEMENTATIONS.get(name, IMPLEMENTATIONS[DEFAULT]).traits


def records_of_daemons(kinds: Iterable[str]) -> Records:
    """The records of the resource manager that has daemons of these kinds; of the default one if there is none."""
    known = frozenset(kinds)
    with_tools = ((one.records, one.tools) for one in IMPLEMENTATIONS.values() if one.tools)
    matching = (records for records, tools in with_tools if any(kind.name in known for kind in tools.daemons))
    return next(matching, IMPLEMENTATIONS[DEFAULT].records)


def tools(name: str) -> HostTools:
    """What tools on hosts use of the resource manager of that name. Raises WrongUse."""
    host_tools = IMPLEMENTATIONS[name].tools if name in IMPLEMENTATIONS else None
    if host_tools is None:
        known = ", ".join(sorted(one for one, implementation in IMPLEMENTATIONS.items() if implementation.tools))
        raise WrongUse(f"one of {known}", parameter=KEY, value=name)
    return host_tools
