"""Readers of the files in the folder of a run, which the instance's user may write or a disk may damage.

A small run is made once. Each mutated file takes the place of one of its files, and the run is collected and measured with it.
"""

from __future__ import annotations

import atexit
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from mirage.records.run_folder import RunFolder
from mirage.records.schedule import read_schedule
from mirage.records.shapes import EXPERIMENT_JSON, METRICS_JSON
from mirage.reports.measures import inputs
from mirage.terminal import summary, table
from mirage.terminal.screen import Screen
from mirage.verdict.features import unused_rows
from mirage.verdict.run_results import results
from slurm_mirage.base.files import read_json
from slurm_mirage.replay.launch_cost import LaunchCost, Width

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from run_folders import REAL_ZERO, VIRTUAL_ZERO, MadeFolder, with_contents

_PROCESSORS, _NODES = 64, 4
_SAMPLE = {"running": 1, "pending": 2, "nodes_drained": 0, "nodes_not_responding": 0, "cpu_busy": 0.25, "processors_busy": 8}
RESULT: dict[str, Any] = {
    "ended": REAL_ZERO + 200,
    "released": 0,
    "messages": {"munge": 1, "connection renewed": 2},
    "states": {"COMPLETED": 6},
    "event_clock": {"mode": 1, "jumps": 7, "false_quiet_seconds": 0.5, "virtual_seconds": 100.0},
    "outside": {"began": REAL_ZERO, "ended": REAL_ZERO + 200},
}
EXPERIMENT = {
    "run": "r",
    "inputs": {"NODES": "4", "CPUS": "16", "SHRINK": "100", "SPEED": "auto", "SUBMISSION": "", "SEED": "1"},
    "knobs": {"CONFIG": "fifo", "TRACE": "kth.swf"},
    "clock": {"asked": "auto", "speed": "event", "began": {"real": 1.5, "virtual": 2.5}},
    "trace": {"path": "kth.swf", "format": "swf"},
    "git": {"commit": "abc", "changed": False},
    "hosts": [{"name": "h", "cores": 2}],
}


@cache
def run_folder() -> Path:
    """The folder of a finished run, with its results, in this process's own copy."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-run-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = MadeFolder(folder, speed=10.0, launch_cost=LaunchCost(Width(1, 0.03, 0.001, 25)).record())
    for number in range(6):
        job = made.job(due=20.0 * number, runtime=15.0 + number, processors=4 * (number + 1))
        made.played(job, start=20.0 * number + 1)
        made.scontrol(job, "COMPLETED", 20.0 * number + 1, 20.0 * number + 17, None, 0)
    made.events += [
        {"event": "halted", "what": "slurmctld", "since": REAL_ZERO + 15, "real": REAL_ZERO + 16},
        {"event": "cancelled", "index": 5, "real": REAL_ZERO + 17},
    ]
    made.ended(200.0)
    made.result = RESULT
    made.write()
    rows = [{"real": f"{REAL_ZERO + n:.3f}", "virtual": f"{VIRTUAL_ZERO + 10 * n:.3f}", **_SAMPLE} for n in range(20)]
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    (folder / "samples.csv").write_text("\n".join(lines) + "\n")
    (folder / "experiment.json").write_text(json.dumps(EXPERIMENT))
    for name, content in results(RunFolder(folder), _PROCESSORS, _NODES, 10.0, {}).files.items():
        (folder / name).write_bytes(content)
    return folder


def seed(name: str) -> bytes:
    """The content of a file of the run."""
    return (run_folder() / name).read_bytes()


def measured_with(name: str) -> Callable[[Path], None]:
    """A function that collects and measures the run with the file at a path in the place of the file `name`."""

    def read(path: Path) -> None:
        whole = seed(name)
        try:
            (run_folder() / name).write_bytes(path.read_bytes())
            found = results(RunFolder(run_folder()), _PROCESSORS, _NODES, 10.0, {})
            json.dumps(found.metrics, allow_nan=False)
        finally:
            (run_folder() / name).write_bytes(whole)

    return read


def shown_metrics(path: Path) -> None:
    """As the end of a run, and `make metrics RUN=`."""
    metrics = read_json(path, METRICS_JSON)
    screen = Screen(io.StringIO())
    summary.show(with_contents("r", metrics=metrics, experiment=EXPERIMENT), screen)
    table.show(metrics, screen, EXPERIMENT)


def described_run(path: Path) -> None:
    """As what reads experiment.json beside jobs.csv, and the tables of inputs."""
    whole = seed("experiment.json")
    try:
        (run_folder() / "experiment.json").write_bytes(path.read_bytes())
        read_schedule(run_folder() / "jobs.csv")
        experiment = read_json(path, EXPERIMENT_JSON)
        unused = unused_rows(json.loads(seed("metrics.json")), experiment)
        inputs(experiment, unused)
    finally:
        (run_folder() / "experiment.json").write_bytes(whole)
