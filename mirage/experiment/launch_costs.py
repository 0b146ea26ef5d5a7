"""The launch cost of a campaign: its first run measures it, and its other runs use the same value, so that it does not differ
between runs.

It is kept in experiment.json of the campaign as `launch_cost`, a record of `LaunchCost`. A campaign of several resource managers
has one for each: `launch_cost`, and `launch_cost_NAME` for other managers than Slurm. A campaign on `run_hosts` has one for each
host, measured by the first run there: `launch_cost_on_HOST`.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from mirage.records.file_names import EXPERIMENT_FILE, JOURNAL_FILE
from mirage.records.run_folder import RunFolder
from slurm_mirage.base import user_folders
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json
from slurm_mirage.replay.journal import replay_lines
from slurm_mirage.replay.launch_cost import LaunchCost
from slurm_mirage.rm.managers import DEFAULT

_LONGEST_START = 1 << 20  # bytes of the start event of a journal
_writing = threading.Lock()


def variables(campaign: Path, manager: str = DEFAULT, host: str = "") -> dict[str, Any]:
    """Variables for the next run of the campaign in a folder: none until a run has measured the launch cost.

    host: of `run_hosts`, on which the run goes on; "" without such hosts
    """
    known = RunFolder(campaign).experiment.get(_key(manager, host))
    return {} if known is None else {"experiment_launch_cost": known}


def is_known(campaign: Path, manager: str = DEFAULT) -> bool:
    """Whether a run has measured the launch cost."""
    return bool(variables(campaign, manager))


def _key(manager: str, host: str = "") -> str:
    of_manager = "launch_cost" if manager == DEFAULT else f"launch_cost_{manager}"
    return f"{of_manager}_on_{host}" if host else of_manager


def keep(campaign: Path, run: Path, manager: str = DEFAULT, host: str = "") -> None:
    """Keep what the run in folder `run` has measured, unless an earlier run has. What it could not measure in full is not kept."""
    _keep(campaign, RunFolder(run).start, _key(manager, host))


def keep_from_head(campaign: Path, instance: Path, run: str, manager: str = DEFAULT) -> None:
    """Keep what `run`, which goes on in the instance in the folder `instance` on this machine, has measured at its start."""
    with suppress(OSError, WrongUse):
        descriptor = user_folders.open_file(instance, f"runs/{run}/{JOURNAL_FILE}")
        try:
            lines = os.pread(descriptor, _LONGEST_START, 0)
        finally:
            os.close(descriptor)
        _keep(campaign, replay_lines(lines[: lines.find(b"\n") + 1])[0].start, _key(manager))


def _keep(campaign: Path, start: dict[str, Any] | None, key: str) -> None:
    if start is None:
        return
    cost = LaunchCost.of_record(start["launch_cost"])
    with _writing:
        folder = RunFolder(campaign)
        if cost.narrow is not None and not cost.reason and folder.has(EXPERIMENT_FILE) and key not in folder.experiment:
            write_json(campaign / EXPERIMENT_FILE, folder.experiment | {key: cost.record()})
