"""Which resource managers a command has (RM), and checks of the knobs that they cannot have."""

from __future__ import annotations

from mirage.experiment.hosts import host_count
from mirage.experiment.preflight import is_here
from mirage.knobs import openpbs_source
from mirage.knobs.managers import OPENPBS, SLURM, values_of
from mirage.knobs.parse import Value
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.openpbs.addresses import MOST_NODES

# Knobs that only Slurm has, each with the value that asks for nothing and what it is.
_ONLY_SLURM: tuple[tuple[str, Value, str], ...] = (
    ("SLURM_CONF", "", "it is a configuration of Slurm"),
    ("FRONT_END", 0, "front ends are Slurm's"),
    ("STEPS", "auto", "steps of srun are Slurm's"),
    ("MALLEABLE", 0, "the broker of malleable jobs changes jobs of Slurm"),
    ("FILLER", "no", "filler jobs are jobs of Slurm"),
    ("ACCOUNTING", "auto", "slurmdbd is Slurm's"),
)


def check(knobs: dict[str, Value], *, several: bool = False) -> None:
    """Check that the resource managers can have what the other knobs ask for. Raises WrongUse.

    several: whether the command compares resource managers
    """
    managers = values_of(knobs)
    if len(managers) > 1 and not several:
        raise WrongUse("only make compare takes several; it may be one of slurm and openpbs", "rm", knobs["RM"])
    if OPENPBS not in managers:
        if knobs["OPENPBS_SOURCE"] is not None:
            raise WrongUse("a cluster of Slurm does not use it; give RM=openpbs too, or leave it out", "openpbs_source")
        return
    # Another inventory may name the archive (openpbs_source_archive); the role checks it.
    if knobs["OPENPBS_SOURCE"] is None and is_here(knobs):
        raise WrongUse(
            f"nothing is given, and RM=openpbs builds OpenPBS from it; it may be {openpbs_source.FORM}", "openpbs_source"
        )
    if knobs["SLURM_SOURCE"] is not None and SLURM not in managers:
        raise WrongUse("a cluster of OpenPBS has no Slurm; leave out SLURM_SOURCE, or RM=openpbs", "slurm_source")
    for name, none, reason in _ONLY_SLURM:
        # ACCOUNTING=no and STEPS=no ask for what OpenPBS has in any case.
        if knobs[name] not in (none, "no"):
            raise WrongUse(f"{reason}, and OpenPBS has none of that; leave out {name}, or RM=openpbs", name.lower())
    nodes = knobs["NODES"]
    assert isinstance(nodes, int)
    if nodes > MOST_NODES:
        raise WrongUse(f"with RM=openpbs it may be at most {MOST_NODES}: each node needs a port below 1024", "nodes", nodes)
    if (hosts := host_count(knobs)) > 1:
        raise WrongUse(
            f"a cluster of OpenPBS has its own network on one host, and this inventory has {hosts}; take one of one host",
            "inventory",
        )
