"""Filler jobs of an experiment (FILLER, FILLER_JOBS): checks that the cluster can have them, and the run's settings for them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from mirage.experiment import configuration
from mirage.experiment.hosts import host_count
from mirage.knobs.parse import Value
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs.filler import NO, PLANNED, SLOTS, Filler
from slurm_mirage.rm.slurm import filler_settings

MARGIN = 5
"""Seconds of the cluster's time in which a filler may notice a signal, and Slurm its end, beyond what a save costs."""


def values_of(knobs: dict[str, Value]) -> list[str]:
    """The values of FILLER: one, or for make compare several."""
    return str(knobs["FILLER"]).split()


def is_wanted(knobs: dict[str, Value]) -> bool:
    """Whether the cluster runs filler jobs on its idle nodes."""
    return knobs["FILLER"] != NO


def check_words(knobs: dict[str, Value]) -> None:
    """Check the words of the filler jobs, if there are to be some. Raises WrongUse."""
    if len(values_of(knobs)) > 1:
        raise WrongUse("only make compare takes several; it may be one of no, slots and planned", "filler", knobs["FILLER"])
    if is_wanted(knobs):
        words_of(knobs)


def check(knobs: dict[str, Value]) -> None:
    """Check the words of the filler jobs, and that the cluster of the knobs, and its configuration, can have them, if it is to.
    Raises WrongUse."""
    check_words(knobs)
    if not is_wanted(knobs):
        return
    if knobs["MALLEABLE"]:
        raise _refused("malleable jobs grow onto idle nodes, which filler jobs take; give one of FILLER and MALLEABLE")
    if knobs["FRONT_END"]:
        raise _refused("filler jobs need a slurmd for each of their nodes; leave out FRONT_END, or FILLER")
    if (hosts := host_count(knobs)) > 1:
        raise _refused(
            f"the saved states of filler jobs are on one host, and the cluster has {hosts}; take an inventory of one host, or "
            "leave out FILLER"
        )
    chosen = configuration.of(knobs)
    site = configuration.site_of(knobs)
    settings = {**(site.settings if site else {}), **chosen.settings}
    filler_settings.check(settings, chosen.partitions, grace_of(knobs, words_of(knobs)), version="")


def words_of(knobs: dict[str, Value], shrink: Decimal = Decimal(100)) -> Filler:
    """The filler jobs of FILLER_JOBS, in seconds of the cluster's time: those of the trace are shrunk as run times are. Raises
    WrongUse."""
    try:
        words = Filler.parse(str(knobs["FILLER_JOBS"]))
        if knobs["FILLER"] == SLOTS:
            words.check_slots()
    except WrongUse as error:
        raise WrongUse(error.message, "filler_jobs", error.value) from None
    return words if shrink == 100 else words.scaled(float(shrink) / 100)


def grace_of(knobs: dict[str, Value], words: Filler) -> int:
    """Seconds of the cluster's time that a preempted filler gets to save its work: none in variant slots, whose saves are those at
    the end of slots."""
    return math.ceil(words.save) + MARGIN if knobs["FILLER"] == PLANNED else 0


def cluster_variables(knobs: dict[str, Value], shrink: Decimal = Decimal(100)) -> dict[str, Any]:
    """Variables of a cluster with filler jobs; none without."""
    if not is_wanted(knobs):
        return {}
    return {"slurm_mirage_filler": True, "slurm_mirage_filler_grace": grace_of(knobs, words_of(knobs, shrink))}


def run_settings(knobs: dict[str, Value], shrink: Decimal) -> dict[str, Any]:
    """The member "filler" of run.json; empty without filler jobs."""
    if not is_wanted(knobs):
        return {}
    words = words_of(knobs, shrink)
    return {"variant": knobs["FILLER"], "words": words.text(), "grace": grace_of(knobs, words)}


def _refused(reason: str) -> WrongUse:
    return WrongUse(reason, parameter="filler")
