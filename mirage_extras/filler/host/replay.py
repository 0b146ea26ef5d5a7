"""The feeder beside the replay of a run with filler jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...base.errors import WrongUse
from ...base.run_settings import RunSettings
from ...clock.clock import Clock
from .feeder.feeder import Feeder
from .feeder.settings import KEY, FeederSettings
from .fillers import Fillers
from .filling import Filling

MANAGERS: dict[str, Callable[[RunSettings, int], Fillers]] = {"slurm": Filling.of_run}
"""Makes the side of a resource manager that the feeder uses, by the manager's name, from a run.json and the lock that a running
submission shares."""


def beside(settings: RunSettings, folder: Path, lock: int, clock: Clock, may_submit: Callable[[], bool]) -> Feeder | None:
    """The feeder of the run in `folder`; None if the run has no filler jobs. Raises WrongUse and OSError."""
    wanted = FeederSettings.of_run(settings, folder)
    if wanted is None:
        return None
    manager = settings.text("rm", "slurm")
    if manager not in MANAGERS:
        raise WrongUse("this resource manager has no filler jobs; leave out FILLER", parameter=KEY)
    return Feeder(wanted, MANAGERS[manager](settings, lock), clock, may_submit)
