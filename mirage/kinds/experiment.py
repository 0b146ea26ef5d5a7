"""The kinds of jobs in experiments and clusters: checks, variables and remarks."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from mirage.kinds.filler import experiment as filler
from mirage.kinds.malleable import experiment as malleable
from mirage.knobs.knobs import Knobs

if TYPE_CHECKING:
    from mirage.experiment.prepare import Prepared


class KindExperiment(Protocol):
    """What a kind has in an experiment."""

    def of_slurm(self, knobs: Knobs) -> tuple[str, bool, str]:
        """Its knob, whether it asks for such jobs, and why only a cluster of Slurm can have them."""

    def check(self, knobs: Knobs) -> None:
        """If the knobs ask for such jobs, check that the cluster can have them. Raises WrongUse with the reason."""

    def cluster_variables(self, knobs: Knobs, shrink: Decimal) -> dict[str, Any]:
        """Variables of the playbooks for a cluster with such jobs; none without. shrink: SHRINK of the run that follows, in per
        cent"""

    def real_seconds(self, run: Prepared) -> float:
        """Real seconds that such jobs add to a replay on the event clock."""

    def remarks(self, run: Prepared) -> list[str]:
        """Remarks that are printed before a run, one line each."""


KINDS: tuple[KindExperiment, ...] = (malleable, filler)
RUN_SETTINGS = (filler.run_settings,)
"""Functions for the kinds' members of run.json: from the knobs and SHRINK in per cent; none without such jobs."""


def real_seconds(run: Prepared) -> float:
    """Real seconds that the kinds add to a replay on the event clock, beyond a submission, a launch and an end of each job."""
    return sum(kind.real_seconds(run) for kind in KINDS)


def check(knobs: Knobs) -> None:
    """Check that the cluster can have the jobs that the knobs ask for. Raises WrongUse with the reason."""
    for kind in KINDS:
        kind.check(knobs)
