"""The knobs of filler jobs."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.knobs.knob import OF_BUILD, WORKLOAD, Knob
from mirage.knobs.parse import path_text, some_of
from slurm_mirage.extras.filler.words import NO, PLANNED, SLOTS


@dataclass(frozen=True)
class FillerKnobs:
    """Filler jobs."""

    variant: str
    """One value of FILLER; several words for make compare."""
    words: str

    @property
    def variants(self) -> list[str]:
        """The values of FILLER."""
        return self.variant.split()

    @property
    def is_wanted(self) -> bool:
        """Whether the cluster runs filler jobs on its idle nodes."""
        return self.variant != NO


Part = FillerKnobs
ROWS = (
    Knob(
        "FILLER",
        "filler.variant",
        "no",
        some_of(NO, SLOTS, PLANNED),
        "no, slots or planned; for make compare several of them: no slots planned",
        "idle nodes run filler jobs: slots saves them at the end of each slot, planned before Slurm's plan needs their nodes",
        (*OF_BUILD, "simulate"),
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "FILLER_JOBS",
        "filler.words",
        "",
        path_text,
        "work=SECONDS (or a FILE) save=S restore=S interval=S slot=S speed=C count=N, as mirage_extras/filler/README.md lists them",
        "filler jobs: work of each, what a save and a start cost, seconds between saves, slot, speed",
        (*OF_BUILD, "simulate"),
        shown="10 h of work each, saved every 10 min",
        is_input=True,
        group=WORKLOAD,
    ),
)
