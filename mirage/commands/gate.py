"""`make gate`: whether one slurm.conf, or configuration, may take the place of another: runs both, and judges LIMITS."""

from __future__ import annotations

from dataclasses import replace

from mirage.campaign.arms import Arms
from mirage.campaign.campaign import Campaign
from mirage.campaign.gate import Gate
from mirage.experiment import aspects, clock_choice, managers, preflight, run_events
from mirage.experiment.configuration_changes import changes
from mirage.experiment.endings import Ending
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import SLURM, Value, is_config_name
from mirage.knobs.resolve import site_machine
from mirage.statistics.limits import DEFAULT, LOOKS, parse
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse

LABELS = ("before", "after")


def gate(knobs: Knobs, screen: Screen) -> Ending:
    """Check everything, run both configurations until the limits are decided, and write gate.md."""
    if knobs.scheduler.rm != SLURM:
        raise WrongUse("a gate is for Slurm only; it may be slurm", "rm", knobs.scheduler.rm)
    managers.check(knobs)
    run_events.check(knobs.events)
    knobs, arms = _arms(knobs)
    before, after = (knobs.with_values(arm) for arm in arms.values())
    for one in (before, after):
        aspects.check(one)
    differences = changes(before, after)
    limits = parse(knobs.campaign.limits or DEFAULT)
    return Gate(Campaign.of(knobs, clock_choice.chosen(knobs, screen), arms), limits, differences).run(screen)


def _arms(knobs: Knobs) -> tuple[Knobs, Arms]:
    """The knobs of the comparison, and what differs between its two arms. Raises WrongUse."""
    given = (knobs.campaign.before, knobs.campaign.after)
    for label, value in zip(LABELS, given, strict=True):
        if not value:
            raise WrongUse("nothing is given; it may be the path of a slurm.conf, or the name of a configuration", label)
    are_names = [is_config_name(value) for value in given]
    if are_names[0] != are_names[1]:
        raise WrongUse(
            "BEFORE and AFTER are a file and a name; they may be two files, or two names of configurations", "after", given[1]
        )
    knobs = knobs.with_values({"CONFIGS": " ".join(given) if are_names[0] else "", "REPLICAS": LOOKS[0]})
    if are_names[0]:
        for label, name in zip(LABELS, given, strict=True):
            try:
                preflight.config(replace(knobs.scheduler, config=name))
            except WrongUse as error:
                raise WrongUse(error.message, label) from None
        return knobs, {label: {"CONFIG": name} for label, name in zip(LABELS, given, strict=True)}
    machines = (knobs.nodes.machine, site_machine(given[1], "AFTER"))
    sizes = [(machine.nodes, machine.processors) for machine in machines]
    if sizes[0] != sizes[1]:
        has = [f"{nodes} nodes with {processors} processors" for nodes, processors in sizes]
        raise WrongUse(
            f"has {has[1]}, and BEFORE has {has[0]}; it may be a file with as many, because only equal machines can be compared",
            "after",
            given[1],
        )
    arms: dict[str, dict[str, Value]] = {
        label: {"SLURM_CONF": path, "NODES": machine.nodes, "CPUS": None, "CLASSES": machine}
        for label, path, machine in zip(LABELS, given, machines, strict=True)
    }
    return knobs, arms
