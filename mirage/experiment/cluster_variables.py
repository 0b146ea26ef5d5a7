"""Variables that the playbooks get for a cluster."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from mirage.experiment import aspects, configuration, other_configurations, run_events
from mirage.knobs.knobs import Knobs


def cluster_variables(knobs: Knobs, shrink: Decimal = Decimal(100)) -> dict[str, Any]:
    """Variables of the cluster.

    knobs: with the clock that was chosen as SPEED. shrink: SHRINK of the run that follows, in per cent
    """
    variables = knobs.role_variables()
    if run_events.silences_nodes(knobs.events):
        variables["mirage_silent_nodes"] = True
    if others := run_events.configurations(knobs.events):
        variables["slurm_controller_other_configurations"] = other_configurations.variable(knobs, others)
    if of_aspects := aspects.cluster_settings(knobs, shrink):
        variables["slurm_mirage_extras"] = of_aspects
    if knobs.scheduler.accounting == "auto" and aspects.needs(knobs).accounting:
        variables["mirage_accounting"] = "yes"
    if changed := configuration.tuned(knobs.scheduler):
        variables["slurm_controller_tuned_settings"] = dict(changed)
    if (site := configuration.site_of(knobs.scheduler)) is not None:
        variables |= {"slurm_controller_site_settings": site.settings, "slurm_controller_partitions": site.partitions}
        if knobs.nodes.steps == "auto" and site.sets_aside:
            variables["mirage_steps"] = "no"  # slurmd would read slurmctld's own slurm.conf, and confine itself
        if site.topology:
            variables["slurm_controller_topology"] = site.topology
        config = configuration.of(knobs.scheduler)
        variables["mirage_accounting"] = "yes" if config.has_accounting(knobs) else "no"
        if site.accounts is not None:
            variables["slurm_controller_qos"] = list(config.qos)
            variables["slurm_controller_site_accounts"] = site.accounts.associations
    return variables
