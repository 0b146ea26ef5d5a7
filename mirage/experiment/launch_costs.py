"""The launch cost of a campaign: its first run measures it, and its other runs take it, so that all differ in nothing else.

It is kept in experiment.json of the campaign as `launch_cost`, a record of `LaunchCost`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mirage.experiment.runs import began
from slurm_mirage.base.files import read_json, write_json
from slurm_mirage.replay.launch_cost import LaunchCost


def variables(campaign: Path) -> dict[str, Any]:
    """Variables for the next run of the campaign in a folder: none until a run has measured the launch cost."""
    known = (read_json(campaign / "experiment.json") or {}).get("launch_cost")
    return {} if known is None else {"experiment_launch_cost": known}


def keep(campaign: Path, run: Path) -> None:
    """Keep what the run in folder `run` has measured, unless an earlier run has. What it could not measure in full is not kept."""
    start, experiment = began(run / "journal.jsonl"), read_json(campaign / "experiment.json")
    if start is None or experiment is None or "launch_cost" in experiment:
        return
    cost = LaunchCost.of_record(start.get("launch_cost", 0.0))
    if cost.narrow is not None and not cost.reason:
        write_json(campaign / "experiment.json", experiment | {"launch_cost": cost.record()})
