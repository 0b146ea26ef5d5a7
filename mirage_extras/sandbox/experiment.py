"""What a sandbox asks of its cluster."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from mirage.experiment.aspects import Needs
from mirage.experiment.hosts import host_count
from mirage.knobs.knobs import Knobs
from mirage_extras.sandbox.knobs import SandboxKnobs
from slurm_mirage.base.errors import WrongUse


def of_slurm(knobs: Knobs) -> tuple[str, bool, str]:
    """The row of `managers`: the knob, whether it asks for something, and why only Slurm has it."""
    return "PACE", knobs.part(SandboxKnobs).is_wanted, "a sandbox has Slurm's REST API"


def needs(knobs: Knobs) -> Needs:
    """The REST API has jobs that have ended in the database only."""
    return Needs(accounting=knobs.part(SandboxKnobs).is_wanted)


def check(knobs: Knobs) -> None:
    """Check that the cluster can be a sandbox. Raises WrongUse."""
    if not knobs.part(SandboxKnobs).is_wanted:
        return
    if knobs.scheduler.accounting == "no":
        raise WrongUse("a sandbox has slurmdbd, which the REST API asks for jobs that have ended; leave it out", "accounting")
    if knobs.nodes.front_ends:
        raise WrongUse("a sandbox has a slurmd for each node; leave it out", "front_end")
    if (hosts := host_count(knobs.cluster)) > 1:
        raise WrongUse(f"a sandbox is on one host, and the inventory has {hosts}", "inventory")


def cluster_settings(knobs: Knobs, shrink: Decimal) -> dict[str, Any]:
    """The entry of a sandbox; none for other clusters."""
    return {"sandbox": {}} if knobs.part(SandboxKnobs).is_wanted else {}
