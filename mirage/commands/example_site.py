"""`make example-site`: writes an imaginary site's week, as mirage-capture takes a real one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mirage.experiment.endings import Ending
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen
from mirage.text import output_file
from mirage.text.input_file import writable
from mirage.workloads import example_site as example

DEFAULT_JOBS = 1000
DEFAULT_ARCHIVE = "results/example-site.tar"


def example_site(knobs: Knobs, screen: Screen) -> Ending:
    """Write ARCHIVE: NODES, JOBS and SEED decide about it."""
    path = Path(knobs.output.archive or DEFAULT_ARCHIVE)
    if not knobs.output.archive:
        output_file.make_folder(path.parent)
    writable(path, "archive")
    is_now = knobs.output.now == "yes"
    count = knobs.workload.jobs or DEFAULT_JOBS
    jobs = example.write(path, knobs.nodes.count, count, knobs.workload.seed, _easy if is_now else None)
    screen.say(f"{jobs} jobs of {example.USERS} users in {example.ACCOUNTS} accounts, on {knobs.nodes.count} nodes")
    use = f"make predict SITE={path} says when its jobs start" if is_now else f"make experiment SITE={path} replays it"
    return Ending("ok", f"{path}; {use}")


def _easy(
    submits: Sequence[float], sizes: Sequence[int], runs: Sequence[float], limits: Sequence[float], machine: int
) -> Sequence[float]:
    from mirage.simulation.simulation import schedule  # compiled: loading it takes a moment

    due, wide, run, limit = (np.asarray(values, np.float64) for values in (submits, sizes, runs, limits))
    starts: list[float] = schedule(due, wide, run, limit, machine, "easy").tolist()
    return starts
