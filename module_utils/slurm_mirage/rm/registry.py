"""The resource managers by name. A run names its own in run.json (key `rm`); without that key it is Slurm.

Implementations are imported by statements, because Ansible ships only what a module imports that way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import WrongUse
from ..base.files import read_json
from ..base.run_settings import RunSettings
from .api import Records, ResourceManager
from .fillers import Fillers
from .sizes import Sizes
from .slurm.commands import Slurm
from .slurm.filling import Filling
from .slurm.resizing import Resizing

KEY, DEFAULT = "rm", "slurm"


@dataclass(frozen=True)
class Implementation:
    """A resource manager: `connect` makes its live side from a run.json and the lock that a running submission shares."""

    connect: Callable[[RunSettings, int], ResourceManager]
    records: Records
    sizes: Callable[[Path, str], Sizes] | None = None
    """Makes the side that the broker uses, from an instance's directory and the folder of the manager's commands; None: its jobs
    cannot change their size."""
    fillers: Callable[[RunSettings, int], Fillers] | None = None
    """Makes the side that the feeder uses, as `connect`; None: it has no filler jobs."""


IMPLEMENTATIONS: dict[str, Implementation] = {
    DEFAULT: Implementation(Slurm.of_run, Slurm.records, Resizing.of_broker, Filling.of_run),
}


def connect(settings: RunSettings, lock: int) -> ResourceManager:
    """The resource manager of a run. Raises WrongUse."""
    return settings.one_of(KEY, IMPLEMENTATIONS, DEFAULT).connect(settings, lock)


def fillers(settings: RunSettings, lock: int) -> Fillers:
    """What the feeder of a run uses of its resource manager. Raises WrongUse."""
    make = settings.one_of(KEY, IMPLEMENTATIONS, DEFAULT).fillers
    if make is None:
        raise WrongUse("this resource manager has no filler jobs; leave out FILLER", parameter="filler")
    return make(settings, lock)


def records_of(folder: Path) -> Records:
    """What reads the records in the folder of a run; Slurm's without a run.json that names another one."""
    content = read_json(folder / "run.json")
    settings = RunSettings(folder / "run.json", content if isinstance(content, Mapping) else {})
    return settings.one_of(KEY, IMPLEMENTATIONS, DEFAULT).records
