"""The events of a run as the control machine has them, in trace time, and what the replay gets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slurm_mirage.base import csv_text
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs.cluster_events import DOWN, DRAIN, RESERVE, RESUME, ClusterEvent

COLUMNS = ("number", "instant", "action", "target", "argument", "source")
"""Of results/RUN/events.csv."""
FAILURES, MAINTENANCE, SITE = GENERATED = ("FAILURES", "MAINTENANCE", "SITE")
"""Sources of events that are not of the user's own file: they were generated, or are those of a site's week."""
INSTANTS = ("StartTime", "Duration")
"""Words of a reservation that are trace seconds: StartTime counts from the start of the run."""
_ACTIONS_OF_STATES = {"DOWN": DOWN, "DRAIN": DRAIN, "RESUME": RESUME, "UNDRAIN": RESUME, "IDLE": RESUME}


@dataclass(frozen=True)
class PlannedEvent:
    """One event. `target` and `argument` are those of `ClusterEvent`, but times in them are trace seconds."""

    instant: float
    """Trace seconds after the start of the run, which is the first submission."""
    action: str
    target: str
    argument: str
    source: str
    """Where it is from: FILE:LINE, FAILURES, MAINTENANCE or SITE."""


def ordered(events: Iterable[PlannedEvent]) -> list[PlannedEvent]:
    """Events in the order of their instants; those of one instant stay in their order."""
    return sorted(events, key=lambda event: event.instant)


def number_word(value: float) -> str:
    """Seconds as text, without decimals that are 0."""
    return f"{round(value, 6):.15g}"


def words_of(argument: str) -> dict[str, str]:
    """The words NAME=VALUE of an argument."""
    return {name: value for name, _, value in (word.partition("=") for word in argument.split())}


def settings_of(argument: str) -> dict[str, str]:
    """The words NAME=VALUE of the argument of `set`, names in lower case."""
    return {name.lower(): value for name, value in words_of(argument).items()}


def action_of_state(settings: Mapping[str, str]) -> str | None:
    """The action that does the same as `set node LIST` with these settings (`settings_of`): down, drain or resume; None if their
    State does something else."""
    return _ACTIONS_OF_STATES.get(settings.get("state", "").upper())


def as_argument(words: Mapping[str, str]) -> str:
    """Words NAME=VALUE, separated by spaces. Raises WrongUse for a value with a blank, behind which another word would begin."""
    for name, value in words.items():
        if not value or re.search(r"\s", value):
            raise WrongUse(f"{name}: {value[:40]!r} is not one word")
    return " ".join(f"{name}={value}" for name, value in words.items())


def for_replay(events: Sequence[PlannedEvent], shrink_percent: float) -> list[ClusterEvent]:
    """The events with their times in virtual seconds."""
    factor = shrink_percent / 100

    def argument(event: PlannedEvent) -> str:
        if event.action != RESERVE:
            return event.argument
        words = words_of(event.argument)
        return as_argument({**words, **{name: number_word(float(words[name]) * factor) for name in INSTANTS}})

    return [
        ClusterEvent(number, event.instant * factor, event.action, event.target, argument(event))
        for number, event in enumerate(events)
    ]


def as_csv(events: Sequence[PlannedEvent]) -> str:
    """The content of events.csv, which EVENTS can be given again."""
    rows = (
        (number, number_word(event.instant), event.action, event.target, event.argument, event.source)
        for number, event in enumerate(events)
    )
    return csv_text.text([COLUMNS, *rows])
