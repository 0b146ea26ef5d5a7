"""Variables that the playbooks get for a run."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mirage.experiment import aspects
from mirage.experiment.cluster_variables import cluster_variables
from mirage.experiment.prepare import Prepared
from mirage.knobs.parse import Speed
from mirage.records.run_clock import EVENT


def replay_variables(prepared: Prepared, speed: Speed, run: str, results: Path) -> dict[str, Any]:
    """Variables of a run and of its cluster.

    speed: the clock's. At 1, which SPEED=auto may choose, slurmctld saves to the disk whatever SAVES says, because SAVES=memory
    needs the library of the virtual clock.
    run: name of the run on the head. results: folder that its records are written to.
    """
    knobs = prepared.knobs.at_speed(speed)
    if speed == 1:
        knobs = replace(knobs, clock=replace(knobs.clock, saves="disk"))
    return {
        **cluster_variables(knobs, prepared.shrink),
        "experiment_run": run,
        "experiment_results_dir": str(results),
        "experiment_shrink": float(prepared.shrink),
        "experiment_seed": knobs.workload.seed,
        "experiment_sample_interval": prepared.sample_interval(),
        "experiment_second_of_week": prepared.second_of_week,
        "experiment_costs": asdict(prepared.costs) if speed == EVENT else {},
        "experiment_warmup_cut": knobs.metrics.warmup_cut,
        "experiment_cooldown_cut": knobs.metrics.cooldown_cut,
        "experiment_events": prepared.events_of_replay(),
        "experiment_extras": aspects.run_settings(knobs, prepared.shrink),
    }
