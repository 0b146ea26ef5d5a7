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
    short: name where there is little room; default: `in_sentences`
    setting: added to the meaning in tables, with settings in braces
    is_share: shown in per cent on pages
    is_main: in the first table of pages about runs and comparisons
    main_if: name of a metric: in that table only where it is above 0
    used_if: name of a metric: tables leave this one out where it is 0; default: `main_if`
    in_sweep: "column": a column of sweep.csv; "shown": also of the printed table, with a picture on the page
    same_as: name of another metric that has the same value; pages and comparisons show that one only
    least: the smallest possible value
    also_of_others: changed not only by waits, if it depends on them: differences may be claimed of runs that do not resolve waits
    for_other_jobs: has intervals for other jobs: docs/accuracy.md shows how often they hold
    error_like: name of another metric, made of the same waits or times, if its own error is not estimated: it is the same share of
        its value
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
    short: str = ""
    setting: str = ""
    is_share: bool = False
    is_main: bool = False
    main_if: str = ""
    used_if: str = ""
    in_sweep: Literal["", "column", "shown"] = ""
    same_as: str = ""
    least: float = 0.0
    also_of_others: bool = False
    for_other_jobs: bool = False
    error_like: str = ""

    @property
    def in_sentences(self) -> str:
        return self.noun or self.name

    @property
    def feature(self) -> str:
        """Name of the metric that is above 0 if the optional feature was used that this one is about."""
        return self.used_if or self.main_if

    @property
    def of_waits(self) -> bool:
        """Whether it depends on waits of jobs."""
        formula = self.formula
        if isinstance(formula, OfSchedule):
            return formula.of_waits
        return not (isinstance(formula, Mean) and formula.jobs is SUSPENSION_KNOWN)

    @property
    def of_only_waits(self) -> bool:
        """Whether only waits can change it, apart from suspensions and run times, which are the workload's, and absent nodes."""
        return self.of_waits and not self.also_of_others
