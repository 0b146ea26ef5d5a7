"""Which resource managers a command has (RM), and checks that they support the other knobs."""

from __future__ import annotations

from mirage.experiment.hosts import host_count
from mirage.experiment.preflight import is_here
from mirage.kinds.experiment import KINDS
from mirage.knobs import openpbs_source
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import OPENPBS, SLURM
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.openpbs.addresses import MOST_NODES


def check(knobs: Knobs, *, several: bool = False) -> None:
    """Check that the resource managers support what the other knobs ask for. Raises WrongUse.

    several: whether the command compares resource managers
    """
    scheduler = knobs.scheduler
    managers = scheduler.managers
    if len(managers) > 1 and not several:
        raise WrongUse("only make compare takes several; it may be one of slurm and openpbs", "rm", scheduler.rm)
    if OPENPBS not in managers:
        if scheduler.openpbs_source is not None:
            raise WrongUse("a cluster of Slurm does not use it; give RM=openpbs too, or leave it out", "openpbs_source")
        return
    # Another inventory may name the archive (openpbs_source_archive); the role checks it.
    if scheduler.openpbs_source is None and is_here(knobs.cluster):
        raise WrongUse(
            f"nothing is given, and RM=openpbs builds OpenPBS from it; it may be {openpbs_source.FORM}", "openpbs_source"
        )
    if scheduler.slurm_source is not None and SLURM not in managers:
        raise WrongUse("a cluster of OpenPBS has no Slurm; leave out SLURM_SOURCE, or RM=openpbs", "slurm_source")
    for name, is_asked_for, reason in _of_slurm_only(knobs):
        if is_asked_for:
            raise WrongUse(f"{reason}, and OpenPBS has none of that; leave out {name}, or RM=openpbs", name.lower())
    nodes = knobs.nodes.count
    if nodes > MOST_NODES:
        raise WrongUse(f"with RM=openpbs it may be at most {MOST_NODES}: each node needs a port below 1024", "nodes", nodes)
    if (hosts := host_count(knobs.cluster)) > 1:
        raise WrongUse(
            f"a cluster of OpenPBS has its own network on one host, and this inventory has {hosts}; take one of one host",
            "inventory",
        )


def _of_slurm_only(knobs: Knobs) -> tuple[tuple[str, bool, str], ...]:
    """Knobs that only Slurm has, each with whether it asks for something, and what it is.

    ACCOUNTING=no and STEPS=no ask for what OpenPBS has in any case.
    """
    return (
        ("SLURM_CONF", knobs.scheduler.slurm_conf != "", "it is a configuration of Slurm"),
        ("FRONT_END", knobs.nodes.front_ends > 0, "front ends are Slurm's"),
        ("CONTROLLERS", knobs.nodes.controllers > 1, "a second slurmctld is Slurm's"),
        ("EVENTS", knobs.events.files != "", "events are carried out by Slurm's commands"),
        ("FAILURES", knobs.events.failures is not None, "events are carried out by Slurm's commands"),
        ("MAINTENANCE", knobs.events.maintenance is not None, "it needs reservations"),
        ("STEPS", knobs.nodes.steps == "yes", "steps of srun are Slurm's"),
        *(kind.of_slurm(knobs) for kind in KINDS),
        ("ACCOUNTING", knobs.scheduler.accounting == "yes", "slurmdbd is Slurm's"),
    )
