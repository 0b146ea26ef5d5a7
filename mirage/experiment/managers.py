"""Which resource managers a command has (RM), and checks that they support the other knobs."""

from __future__ import annotations

from mirage.experiment import aspects
from mirage.experiment.hosts import host_count
from mirage.experiment.preflight import is_here
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import MANAGERS, SLURM
from mirage.knobs.table import BY_NAME
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.managers import traits_of
from slurm_mirage.rm.registry import IMPLEMENTATIONS


def check(knobs: Knobs, *, several: bool = False) -> None:
    """Check that the resource managers support what the other knobs ask for. Raises WrongUse.

    several: whether the command compares resource managers
    """
    if len(knobs.scheduler.managers) > 1 and not several:
        raise WrongUse(f"only make compare takes several; it may be one of {' and '.join(MANAGERS)}", "rm", knobs.scheduler.rm)
    for manager in MANAGERS:
        if manager != SLURM:
            _check_other(knobs, manager)


def _check_other(knobs: Knobs, manager: str) -> None:
    """Check the knobs for a resource manager that is not Slurm; if RM does not name it, that its archive is not given."""
    scheduler, traits, name = knobs.scheduler, traits_of(manager), IMPLEMENTATIONS[manager].records.names.manager
    is_used = manager in scheduler.managers
    if (archive := BY_NAME.get(f"{manager.upper()}_SOURCE")) is not None:
        is_given = knobs.value(archive.name) is not None
        if is_given and not is_used:
            raise WrongUse(f"a cluster of Slurm does not use it; give RM={manager} too, or leave it out", archive.parameter)
        # Another inventory may name the archive (NAME_source_archive); the role checks it.
        if is_used and not is_given and is_here(knobs.cluster):
            what = f"nothing is given, and RM={manager} builds {name} from it; it may be {archive.may_be}"
            raise WrongUse(what, archive.parameter)
    if not is_used:
        return
    if scheduler.slurm_source is not None and SLURM not in scheduler.managers:
        raise WrongUse(f"a cluster of {name} has no Slurm; leave out SLURM_SOURCE, or RM={manager}", "slurm_source")
    for knob, is_asked_for, reason in _of_slurm_only(knobs):
        if is_asked_for:
            raise WrongUse(f"{reason}, and {name} has none of that; leave out {knob}, or RM={manager}", knob.lower())
    nodes, most = knobs.nodes.count, traits.most_nodes
    if most is not None and nodes > most:
        raise WrongUse(f"with RM={manager} it may be at most {most}: {traits.nodes_bound}", "nodes", nodes)
    if traits.is_on_one_host and (hosts := host_count(knobs.cluster)) > 1:
        what = f"a cluster of {name} has its own network on one host, and this inventory has {hosts}; take one of one host"
        raise WrongUse(what, "inventory")


def _of_slurm_only(knobs: Knobs) -> tuple[tuple[str, bool, str], ...]:
    """Knobs that only Slurm has, each with whether it asks for something, and what it is.

    ACCOUNTING=no and STEPS=no ask for what the others have in any case.
    """
    return (
        ("SLURM_CONF", knobs.scheduler.slurm_conf != "", "it is a configuration of Slurm"),
        ("GROW", knobs.scheduler.grow != "", "it copies nodes with their partitions of Slurm"),
        ("SETTINGS", knobs.scheduler.settings != "", "they are settings of slurm.conf"),
        ("FRONT_END", knobs.nodes.front_ends > 0, "front ends are Slurm's"),
        ("CONTROLLERS", knobs.nodes.controllers > 1, "a second slurmctld is Slurm's"),
        ("EVENTS", knobs.events.files != "", "events are carried out by Slurm's commands"),
        ("FAILURES", knobs.events.failures is not None, "events are carried out by Slurm's commands"),
        ("MAINTENANCE", knobs.events.maintenance is not None, "it needs reservations"),
        ("STEPS", knobs.nodes.steps == "yes", "steps of srun are Slurm's"),
        *aspects.of_slurm(knobs),
        ("ACCOUNTING", knobs.scheduler.accounting == "yes", "slurmdbd is Slurm's"),
    )
