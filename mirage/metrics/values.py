"""Values of metrics, why there is none, and what formulas depend on beside the jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_INSTANTS = "jobs were suspended, and it is not recorded when"
NO_LONG_JOB = "no job ran for more than 1 s"
NO_NODES = "the machine's number of nodes is not known"

Value = float | str
"""A metric's value, or as text the reason why there is none."""
Values = dict[str, Any]
"""Metrics by name, each a `Value`."""


@dataclass(frozen=True)
class Settings:
    """What formulas depend on beside the jobs.

    processors, nodes: of the machine; nodes None: unknown
    tau: seconds, lower bound of the run time in bounded slowdowns
    w2_reading: "magnitude" or "log"
    immediate_below: seconds; a job with a shorter wait started immediately
    """

    processors: int
    nodes: int | None
    tau: float
    w2_reading: str
    immediate_below: float

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Settings:
        """From member `settings` of metrics.json."""
        names = ("processors", "nodes", "w2_reading", "immediate_below")
        return cls(tau=float(settings["tau"]), **{name: settings[name] for name in names})
