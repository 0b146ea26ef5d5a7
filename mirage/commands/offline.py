"""What the targets that need no cluster have in common: the jobs they are about, and the file they write."""

from __future__ import annotations

from pathlib import Path

from mirage.experiment.prepare import LOAD_OF_A_LOG, generated, whole_of
from mirage.knobs.parse import Value
from mirage.terminal.screen import Screen
from mirage.traces.trace import Trace, read_trace
from slurm_mirage.base.errors import WrongUse

Knobs = dict[str, Value]

# What selects lines of a log.
SELECTS = ("JOBS", "OFFSET", "MIN_RUNTIME", "FROM", "TO", "QUEUES", "USERS")
# From these on it takes some seconds, and is said before.
MANY_BYTES, MANY_JOBS = 50_000_000, 500_000


def output(values: Knobs) -> Path:
    """OUT, which must name a file in a folder that is there."""
    path = Path(str(values["OUT"]))
    if not values["OUT"]:
        raise WrongUse("the file to write is missing; it may be any path, as in OUT=w.swf", parameter="out")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise WrongUse(f"{path} cannot be written; it may be a file in a folder that is there", parameter="out")
    return path


def say_notes(notes: dict[str, int], screen: Screen) -> None:
    """The oddities of a log, a line each."""
    for oddity, count in notes.items():
        screen.say(f"in the log: {count}: {oddity.replace('_', ' ')}")


def logged(values: Knobs, screen: Screen) -> Trace:
    """The log TRACE, or one that MODEL generates (of JOBS jobs)."""
    if values["TRACE"]:
        if values["LOAD"] is not None:
            raise WrongUse(LOAD_OF_A_LOG, parameter="load")
        path = Path(str(values["TRACE"]))
        if path.is_file() and path.stat().st_size >= MANY_BYTES:
            screen.say(f"reading {path}: {path.stat().st_size / 1e6:.0f} MB")
        trace = read_trace(path)
        say_notes(trace.notes, screen)
        return trace
    if values["JOBS"] is not None and whole_of(values["JOBS"]) >= MANY_JOBS:
        screen.say(f"generating {values['JOBS']} jobs")
    return generated(values)
