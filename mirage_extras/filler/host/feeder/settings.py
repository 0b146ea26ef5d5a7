"""The settings of a run's filler jobs: the key `filler` of run.json, an object of variant, words and grace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ....base.errors import WrongUse
from ....base.run_settings import RunSettings
from ....jobs.kinds import Sigsleep
from ..words import PLANNED, SLOTS, Filler

KEY = "filler"
STATES, RECORD = "fillers", "fillers.bin"
"""The folder of the fillers' saves in the folder of the run, and the file to which they write their records."""


@dataclass(frozen=True)
class FeederSettings:
    """What fillers are, and how they are run. Lengths are virtual seconds."""

    folder: Path
    """Folder of the run."""
    planned: bool
    """Whether fillers run on until a job of the workload needs their node; otherwise each runs for a slot."""
    filler: Filler
    grace: int
    """Seconds that a preempted filler has for its save."""
    program: str
    clock: str | None

    @classmethod
    def of_run(cls, settings: RunSettings, folder: Path) -> FeederSettings | None:
        """The settings of the run in `folder`; None if it has no fillers. Raises WrongUse."""
        given = settings.mapping_or_none(KEY)
        if not given:
            return None
        variant, words, grace = given.get("variant"), given.get("words"), given.get("grace")
        if variant not in (SLOTS, PLANNED) or not isinstance(words, str) or not isinstance(grace, int) or grace < 0:
            raise WrongUse(f"{folder}/run.json: {KEY} may not be {dict(given)!r}")
        job = Sigsleep.of_run(settings)
        return cls(folder, variant == PLANNED, Filler.parse(words), grace, job.program, job.clock)

    @property
    def record(self) -> Path:
        """The file to which all fillers write their records."""
        return self.folder / RECORD

    def state(self, number: int) -> Path:
        """The file of a filler's save."""
        return self.folder / STATES / f"{number}.state"

    def command(self, number: int) -> str:
        """The line for /bin/sh that runs a filler from its last save on."""
        return self.filler.command_line(number, self.program, self.clock, self.record, self.state(number), not self.planned)
