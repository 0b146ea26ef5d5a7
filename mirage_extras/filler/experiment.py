"""Filler jobs of an experiment (FILLER, FILLER_JOBS): checks that the cluster can have them, and the run's settings for them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from mirage.experiment import aspects, configuration
from mirage.experiment.aspects import Needs
from mirage.experiment.hosts import host_count
from mirage.experiment.replay_costs import of_a_job
from mirage.knobs.knobs import Knobs
from mirage_extras.filler.knobs import FillerKnobs
from mirage_extras.filler.words import identity_of, words_of
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.filler import filler_settings
from slurm_mirage.extras.filler.feeder.policy import SPARE
from slurm_mirage.extras.filler.feeder.settings import KEY
from slurm_mirage.extras.filler.words import PLANNED, Filler

if TYPE_CHECKING:
    from mirage.experiment.prepare import Prepared


TESTED = 1.5e-5
"""Real seconds for each node when backfilling tests a waiting filler on a machine full of fillers (docs/accuracy.md)."""
MARGIN = 5
"""Seconds of the cluster's time in which a filler may notice a signal, and Slurm its end, beyond what a save costs."""


def of_slurm(knobs: Knobs) -> tuple[str, bool, str]:
    """The row of `managers`: the knob, whether it asks for something, and why only Slurm has it."""
    return "FILLER", knobs.part(FillerKnobs).is_wanted, "filler jobs are jobs of Slurm"


def check_words(knobs: Knobs) -> None:
    """Check the words of the filler jobs, if there are to be some. Raises WrongUse."""
    fillers = knobs.part(FillerKnobs)
    if len(fillers.variants) > 1:
        raise WrongUse("only make compare takes several; it may be one of no, slots and planned", "filler", fillers.variant)
    if fillers.is_wanted:
        words_of(fillers)


def identities(knobs: Knobs) -> dict[str, str]:
    """The words of FILLER_JOBS with the content of a file that they name. Raises WrongUse."""
    words = knobs.part(FillerKnobs).words
    return {"FILLER_JOBS": identity_of(words)} if words else {}


def arms(knobs: Knobs) -> tuple[Knobs, dict[str, dict[str, str]]] | None:
    """The knobs of a comparison, and its arms if FILLER has several values: these values, with one configuration. Otherwise None.
    Raises WrongUse."""
    fillers = knobs.part(FillerKnobs)
    if len(values := fillers.variants) == 1:
        return None
    if knobs.campaign.configs:
        raise WrongUse(
            "CONFIGS is compared already; it may be one of no, slots and planned", "filler", knobs.part(FillerKnobs).variant
        )
    return knobs.with_values({"FILLER": values[0]}), {value: {"FILLER": value} for value in values}


def check(knobs: Knobs) -> None:
    """If FILLER asks for filler jobs, check their words, and that the cluster and its configuration can have them. Raises
    WrongUse."""
    check_words(knobs)
    if not (fillers := knobs.part(FillerKnobs)).is_wanted:
        return
    if aspects.needs(knobs).own_sizes:
        raise _refused("malleable jobs grow onto idle nodes, which filler jobs take; give one of FILLER and MALLEABLE")
    if knobs.nodes.front_ends:
        raise _refused("filler jobs need a slurmd for each of their nodes; leave out FRONT_END, or FILLER")
    if (hosts := host_count(knobs.cluster)) > 1:
        raise _refused(
            f"the saved states of filler jobs are on one host, and the cluster has {hosts}; take an inventory of one host, or "
            "leave out FILLER"
        )
    chosen = configuration.of(knobs.scheduler)
    site = configuration.site_of(knobs.scheduler)
    settings = {**(site.settings if site else {}), **chosen.settings}
    filler_settings.check(settings, chosen.partitions, grace_of(fillers, words_of(fillers)), version="")


def needs(knobs: Knobs) -> Needs:
    """Arrays are not submitted beside fillers."""
    return Needs(no_arrays=knobs.part(FillerKnobs).is_wanted)


def grace_of(knobs: FillerKnobs, words: Filler) -> int:
    """Seconds of the cluster's time that a preempted filler gets to save its work: none in variant slots, whose saves are those at
    the end of slots."""
    return math.ceil(words.save) + MARGIN if knobs.variant == PLANNED else 0


def cluster_settings(knobs: Knobs, shrink: Decimal) -> dict[str, Any]:
    """The entry of a cluster with filler jobs; none without."""
    if not (fillers := knobs.part(FillerKnobs)).is_wanted:
        return {}
    return {"filler": {"grace": grace_of(fillers, words_of(fillers, shrink))}}


def run_settings(knobs: Knobs, shrink: Decimal) -> dict[str, Any]:
    """The member "filler" of run.json; none without filler jobs."""
    if not (fillers := knobs.part(FillerKnobs)).is_wanted:
        return {}
    words = words_of(fillers, shrink)
    return {KEY: {"variant": fillers.variant, "words": words.text(), "grace": grace_of(fillers, words)}}


def real_seconds(run: Prepared) -> float:
    """Real seconds that filler jobs add to a replay on the event clock: for their executions, and for backfilling, which tests
    those that wait."""
    if not (fillers := run.knobs.part(FillerKnobs)).is_wanted:
        return 0.0
    words, machine = words_of(fillers, run.shrink), run.knobs.nodes.machine
    virtual = run.estimate() - min(run.dues)
    widths = run.workload.jobs["processors"].clip(upper_bound=machine.processors)
    work = sum(width * length for width, length in zip(widths, run.executions(), strict=True))
    idle = max(0.0, min(machine.processors, words.count or machine.processors) * virtual - work)
    planned = fillers.variant == PLANNED
    executions = widths.sum() + idle / min(words.work) if planned else idle / words.slot
    waiting = SPARE if planned else SPARE + idle / max(virtual, 1.0)
    interval, depth = configuration.of(run.knobs.scheduler).cycles
    tests = virtual / interval * min(waiting, depth) if interval else 0.0
    return float(executions * of_a_job(machine.nodes) + tests * machine.nodes * TESTED)


def remarks(run: Prepared) -> list[str]:
    """Remark on the filler jobs."""
    if not run.knobs.part(FillerKnobs).is_wanted:
        return []
    settings = run_settings(run.knobs, run.shrink)[KEY]
    words = f"{settings['words']} (seconds of the cluster's time)"
    return [f"filler jobs: {settings['variant']}, {words}; they do not belong to the workload, and are in none of its metrics"]


def _refused(reason: str) -> WrongUse:
    return WrongUse(reason, parameter="filler")
