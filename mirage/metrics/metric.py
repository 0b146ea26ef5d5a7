"""The class of a metric: its names, meaning, formula and place on pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mirage.metrics.formulas import SUSPENSION_KNOWN, Formula, Mean, OfSchedule

SHORTER, SMALLER, FEWER = ("shorter", "longer"), ("smaller", "larger"), ("fewer", "more")
"""Words for a lower and a higher value."""


@dataclass(frozen=True)
class Metric:
    """A metric.

    unit: "s" or nothing
    meaning: short text for tables, where it stands below the metrics before it
    definition, source: for docs/metrics.md
    formula: how it is computed
    better: the direction that is an improvement
    noun: name in sentences; default: the metric's name
    comparative: words for a lower and a higher value
    explained: meaning for a reader who does not see the metrics before it; default: `meaning`
    setting: added to the meaning in tables, with settings in braces
    is_share: shown in per cent on pages
    is_main: in the first table of pages about runs and comparisons
    main_if: name of a metric: in that table only where it is above 0
    in_sweep: a column of sweep.csv
    same_as: name of another metric that has the same value; pages and comparisons show that one only
    """

    name: str
    unit: Literal["s", ""]
    meaning: str
    definition: str
    source: str
    formula: Formula
    better: Literal["lower", "higher", "neither"] = "lower"
    noun: str = ""
    comparative: tuple[str, str] = ("lower", "higher")
    explained: str = ""
    setting: str = ""
    is_share: bool = False
    is_main: bool = False
    main_if: str = ""
    in_sweep: bool = False
    same_as: str = ""

    @property
    def in_sentences(self) -> str:
        return self.noun or self.name

    @property
    def of_waits(self) -> bool:
        """Whether it depends on waits of jobs."""
        formula = self.formula
        if isinstance(formula, OfSchedule):
            return formula.of_waits
        return not (isinstance(formula, Mean) and formula.jobs is SUSPENSION_KNOWN)
