"""`make example-site`: writes an imaginary site's week, as mirage-capture takes a real one."""

from __future__ import annotations

from pathlib import Path

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
    jobs = example.write(path, knobs.nodes.count, knobs.workload.jobs or DEFAULT_JOBS, knobs.workload.seed)
    screen.say(f"{jobs} jobs of {example.USERS} users in {example.ACCOUNTS} accounts, on {knobs.nodes.count} nodes")
    return Ending("ok", f"{path}; make experiment SITE={path} replays it")
