"""What the targets that need no cluster have in common: the file they write, and what they say of a log."""

from __future__ import annotations

from pathlib import Path

from slurm_mirage.errors import WrongUse

from .knobs import Value
from .screen import Screen

Knobs = dict[str, Value]


def output(values: Knobs) -> Path:
    """OUT, which must name a file in a folder that is there."""
    path = Path(str(values["OUT"]))
    if not values["OUT"]:
        raise WrongUse("OUT: the file to write is missing; it may be any path, as in OUT=w.swf")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise WrongUse(f"OUT: {path} cannot be written; it may be a file in a folder that is there")
    return path


def say_notes(notes: dict[str, int], screen: Screen) -> None:
    """The oddities of a log, a line each."""
    for oddity, count in notes.items():
        screen.say(f"in the log: {count}: {oddity.replace('_', ' ')}")
