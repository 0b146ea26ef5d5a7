"""What the core knows of a resource manager: `Manager` for the farm (managers.py), `Implementation` for the rest (registry.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .daemon_kinds import DaemonKind
from .traits import Traits

if TYPE_CHECKING:
    from ..base.run_settings import RunSettings
    from .api import Commands, Records, ResourceManager
    from .evidence import Complaint, Span


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


@dataclass(frozen=True)
class Other:
    """A resource manager besides Slurm. Its name is that of its extra's folder."""

    name: str
    manager: Manager
    implementation: Callable[[], Implementation]
    """A function, as the farm needs only the other part."""
