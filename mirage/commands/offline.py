"""Shared by the targets that need no cluster: reading or generating the jobs, and the output file."""

from __future__ import annotations

from pathlib import Path

from mirage.experiment.prepare import LOAD_OF_A_LOG, generated, in_whole_nodes, whole_of
from mirage.knobs.parse import Value
from mirage.terminal.screen import Screen
from mirage.traces.trace import Trace, read_trace
from mirage.traces.unread import Unread
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.input_file import kind

Knobs = dict[str, Value]

# Knobs that select lines of a log.
SELECTS = ("JOBS", "OFFSET", "MIN_RUNTIME", "FROM", "TO", "QUEUES", "USERS")
# Sizes from which reading or generating takes some seconds, so that it is announced.
MANY_BYTES, MANY_JOBS = 50_000_000, 500_000


def output(values: Knobs) -> Path:
    """The path OUT. Raises WrongUse unless it is a file in an existing folder."""
    path = Path(str(values["OUT"]))
    if not values["OUT"]:
        raise WrongUse("the file to write is missing; it may be any path, as in OUT=w.swf", parameter="out")
    if found := kind(path):  # it would be replaced
        raise WrongUse(f"{path}: is {found}; it must be a regular file, or a new one", parameter="out")
    if not path.absolute().parent.is_dir():
        raise WrongUse(f"{path} cannot be written; it may be a file in a folder that is there", parameter="out")
    return path


def say_notes(notes: dict[str, int], unread: Unread, screen: Screen) -> None:
    """Print the irregularities of a log, one line each."""
    if words := unread.in_words():
        screen.say(words)
    for irregularity, count in notes.items():
        screen.say(f"in the log: {count}: {irregularity.replace('_', ' ')}")


def logged(values: Knobs, screen: Screen) -> Trace:
    """Read the log TRACE, or generate JOBS jobs with MODEL."""
    if values["TRACE"]:
        if values["LOAD"] is not None:
            raise WrongUse(LOAD_OF_A_LOG, parameter="load")
        path = Path(str(values["TRACE"]))
        if path.is_file() and path.stat().st_size >= MANY_BYTES:
            screen.say(f"reading {path}: {path.stat().st_size / 1e6:.0f} MB")
        trace = in_whole_nodes(read_trace(path), values)
        say_notes(trace.notes, trace.unread, screen)
        return trace
    if values["JOBS"] is not None and whole_of(values["JOBS"]) >= MANY_JOBS:
        screen.say(f"generating {values['JOBS']} jobs")
    return generated(values)
