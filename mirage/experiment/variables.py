"""Variables that the playbooks get for a cluster and for a run on it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from mirage.experiment import configuration, fillers, malleability
from mirage.experiment.prepare import Prepared
from mirage.knobs.parse import AUTO, Value
from mirage.knobs.resolve import role_variables
from slurm_mirage.base.errors import WrongUse


def cluster_variables(knobs: dict[str, Value], shrink: Decimal = Decimal(100)) -> dict[str, Any]:
    """Variables of the cluster. Raises WrongUse for SPEED=auto, which make cluster has no workload to choose for.

    shrink: of the run that follows, in per cent
    """
    if knobs["SPEED"] == AUTO:
        may_be = "a number or event; auto is for make experiment and compare, which have a workload to choose it for"
        raise WrongUse(f"{knobs['SPEED']!r} is not possible here; it may be {may_be}", parameter="speed")
    variables = role_variables(knobs)
    if malleability.is_wanted(knobs):
        variables["slurm_mirage_malleable"] = True
    variables |= fillers.cluster_variables(knobs, shrink)
    if (site := configuration.site_of(knobs)) is not None:
        variables |= {"slurm_controller_site_settings": site.settings, "slurm_controller_partitions": site.partitions}
        variables["mirage_accounting"] = "yes" if configuration.of(knobs).has_accounting(knobs) else "no"
    return variables


def replay_variables(prepared: Prepared, speed: Value, run: str, results: Path) -> dict[str, Any]:
    """Variables of a run and of its cluster.

    speed: the clock's. At 1, which SPEED=auto may pick, slurmctld saves to the disk whatever SAVES says: the library that could
    let it go on is that of virtual clocks.
    run: name of the run on the head. results: folder that its records are written to.
    """
    knobs = {**prepared.knobs, "SPEED": speed}
    if speed == 1:
        knobs["SAVES"] = "disk"
    return {
        **cluster_variables(knobs, prepared.shrink),
        "experiment_run": run,
        "experiment_results_dir": str(results),
        "experiment_shrink": float(prepared.shrink),
        "experiment_seed": prepared.knobs["SEED"],
        "experiment_sample_interval": prepared.sample_interval(),
        "experiment_warmup_cut": prepared.knobs["WARMUP_CUT"],
        "experiment_cooldown_cut": prepared.knobs["COOLDOWN_CUT"],
        "experiment_filler": fillers.run_settings(prepared.knobs, prepared.shrink),
    }
