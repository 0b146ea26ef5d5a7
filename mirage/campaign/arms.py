"""The arms of a comparison: configurations of one or several resource managers (RM), or machines of several sizes (GROW)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirage.campaign.parts import labels
from mirage.experiment import configuration
from mirage.knobs.knobs import Knobs
from mirage.knobs.machine import Machine
from mirage.knobs.parse import AUTO, Speed, Value
from mirage.knobs.table import BY_NAME
from mirage.site import growth
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.hostlist import NotHostList
from slurm_mirage.rm.managers import traits_of

Arms = Mapping[str, Mapping[str, Value]]
"""The configurations of a comparison: by label, the values of the knobs, by name, that differ from the campaign's."""


def names_of(knobs: Knobs) -> list[str]:
    """Names of the configurations: CONFIGS; without it the default one of each resource manager if RM names several, otherwise
    CONFIG."""
    managers, configs = knobs.scheduler.managers, knobs.campaign.configs
    if not configs and len(managers) > 1:
        return [traits_of(manager).default_config or BY_NAME["CONFIG"].default for manager in managers]
    return (configs or knobs.scheduler.config).split()


def of_configurations(knobs: Knobs) -> Arms:
    """The arms of the configurations. Those of several resource managers have its name in their labels, as in slurm-fifo.

    Raises WrongUse for a configuration that does not exist or is for none of them, and if one of them has none.
    """
    names, managers = names_of(knobs), knobs.scheduler.managers
    if len(managers) == 1:
        return {label: {"CONFIG": name} for label, name in zip(labels(names), names, strict=True)}
    paths = [configuration.path_of(replace(knobs.scheduler, config=name)) for name in names]
    managers_of_paths = [configuration.manager_in(path) for path in paths]
    for manager in managers:
        if manager not in managers_of_paths:
            others = ", ".join(configuration.names_for([manager]))
            raise WrongUse(f"{' '.join(names)}: none is of {manager}; it may also have one of: {others}", parameter="configs")
    pairs = list(zip(managers_of_paths, names, strict=True))
    called = labels([f"{owner}-{name.removeprefix(traits_of(owner).config_prefix)}" for owner, name in pairs])
    return {label: {"CONFIG": name, "RM": owner} for label, (owner, name) in zip(called, pairs, strict=True)}


def grown_machines(knobs: Knobs) -> tuple[Arms, list[str]]:
    """The machine as it is and one arm for each machine of GROW, and lines about the new nodes of each.

    Raises WrongUse for a class of nodes that the machine does not have, and for partitions that could not grow.
    """
    site = configuration.site_of(knobs.scheduler)
    if site is None and (name := growth.explicit(configuration.of(knobs.scheduler).partitions)) is not None:
        what = f"partition {name} of configs/{knobs.scheduler.config}.yml lists its nodes"
        raise WrongUse(f"{what}; it may be with partitions of all nodes, or with SLURM_CONF or SITE", growth.PARAMETER)
    machine, steps = knobs.nodes.machine, growth.arms(knobs.scheduler.grow)
    arms: dict[str, Mapping[str, Value]] = {growth.NOW: {"GROW": ""}}
    lines: list[str] = []
    for label, arm in zip(labels([growth.label_of(one) for one in steps]), steps, strict=True):
        try:
            more = growth.grown(machine.classes, arm, site.partitions if site is not None else (), site.topology if site else "")
        except NotHostList as error:
            raise WrongUse(f"the nodes of a partition: {error.reason}", growth.PARAMETER) from None
        nodes: dict[str, Value] = {"NODES": sum(one.count for one in more.classes)}
        if knobs.nodes.classes is not None:
            nodes["CLASSES"] = Machine(more.classes, knobs.nodes.classes.path)
        arms[label] = {"GROW": growth.text_of(arm), **nodes}
        lines += [f"{label}: {line}" for line in growth.in_short(more)]
    return arms, [*lines, *growth.caps_in_short(site)]


def check_speed(knobs: Knobs, speed: Speed) -> None:
    """Check that all runs can have one speed. speed: as chosen (clock_choice.py). Raises WrongUse."""
    if len(knobs.scheduler.managers) > 1 and speed == AUTO:
        raise WrongUse("picks the largest speed for one resource manager; give a number for both, such as SPEED=20", "speed", speed)
