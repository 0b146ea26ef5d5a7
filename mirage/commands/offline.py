"""Shared by the targets that need no cluster: reading or generating the jobs, and the output file."""

from __future__ import annotations

from pathlib import Path

from mirage.experiment.prepare import LOAD_OF_A_LOG, generated, in_whole_nodes
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen
from mirage.text.input_file import writable
from mirage.traces.trace import Trace, read_trace
from mirage.traces.unread import Unread
from slurm_mirage.base.errors import WrongUse

# Knobs that select lines of a log.
SELECTS = ("JOBS", "OFFSET", "MIN_RUNTIME", "FROM", "TO", "QUEUES", "USERS")
# Sizes from which reading or generating takes some seconds, so that it is announced.
MANY_BYTES, MANY_JOBS = 50_000_000, 500_000


def output(out: str) -> Path:
    """The path OUT. Raises WrongUse unless it is a file in an existing folder."""
    if not out:
        raise WrongUse("the file to write is missing; it may be any path, as in OUT=w.swf", parameter="out")
    return writable(Path(out), "out")


def say_notes(notes: dict[str, int], unread: Unread, screen: Screen) -> None:
    """Print the irregularities of a log, one line each."""
    if words := unread.in_words():
        screen.say(words)
    for irregularity, count in notes.items():
        screen.say(f"in the log: {count}: {irregularity.replace('_', ' ')}")


def logged(knobs: Knobs, screen: Screen) -> Trace:
    """Read the log TRACE, or generate JOBS jobs with MODEL."""
    workload, machine = knobs.workload, knobs.nodes.machine
    if workload.trace:
        if workload.load is not None:
            raise WrongUse(LOAD_OF_A_LOG, parameter="load")
        path = Path(workload.trace)
        if path.is_file() and path.stat().st_size >= MANY_BYTES:
            screen.say(f"reading {path}: {path.stat().st_size / 1e6:.0f} MB")
        trace = in_whole_nodes(read_trace(path), machine)
        say_notes(trace.notes, trace.unread, screen)
        return trace
    if workload.jobs is not None and workload.jobs >= MANY_JOBS:
        screen.say(f"generating {workload.jobs} jobs")
    return generated(workload, machine)
