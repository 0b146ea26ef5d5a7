"""Variables that the playbooks get for a cluster."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from mirage.experiment import configuration, fillers, malleability
from mirage.knobs.parse import Value
from mirage.knobs.resolve import role_variables


def cluster_variables(knobs: dict[str, Value], shrink: Decimal = Decimal(100)) -> dict[str, Any]:
    """Variables of the cluster.

    knobs: with the clock that was chosen as SPEED. shrink: of the run that follows, in per cent
    """
    variables = role_variables(knobs)
    if malleability.is_wanted(knobs):
        variables["slurm_mirage_malleable"] = True
    variables |= fillers.cluster_variables(knobs, shrink)
    if (site := configuration.site_of(knobs)) is not None:
        variables |= {"slurm_controller_site_settings": site.settings, "slurm_controller_partitions": site.partitions}
        variables["mirage_accounting"] = "yes" if configuration.of(knobs).has_accounting(knobs) else "no"
    return variables
