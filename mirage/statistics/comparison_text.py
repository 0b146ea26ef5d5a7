"""Words for a difference between two configurations: its size, its interval, and the claim.

There are two questions: whether the metric differs for these jobs, and whether it would for other jobs like them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirage.metrics.registry import METRICS
from mirage.statistics.other_jobs import ONLY_THESE

THESE_JOBS, OTHER_JOBS = "these_jobs", "other_jobs"
"""The questions: names of the members of a pair in comparison.json."""
QUESTIONS = {THESE_JOBS: "these jobs", OTHER_JOBS: "others like them"}
ERROR = 0.05
"""Chance of a false claim among all claims of better or worse that answer one question."""
DIFFERENT = ("lower", "higher")
"""Verdicts that claim a difference."""
_VERDICTS = ("equivalent", "undecided", "unknown")
_UNKNOWN = "not known: "
_REMEDY = ": "  # text between an answer about other jobs and the advice on what would decide it


def others(content: Mapping[str, Any]) -> list[str]:
    """Labels of the configurations of a comparison but the baseline. content: comparison.json"""
    return [one["label"] for one in content["configurations"] if one["label"] != content["baseline"]]


def pair_of(metric: Mapping[str, Any], base: str, other: str) -> Mapping[str, Any]:
    """The difference of a metric between two configurations. metric: one of comparison.json's, with its pairs"""
    pair: Mapping[str, Any] = next(pair for pair in metric["pairs"] if (pair["baseline"], pair["configuration"]) == (base, other))
    return pair


def judged(code: str, better: str) -> str:
    """Word for a verdict in tables: better or worse; higher or lower if neither direction of the metric is better."""
    if code in _VERDICTS:
        return code
    return code if better == "neither" else "better" if code == better else "worse"


@dataclass(frozen=True)
class Finding:
    """What is known of the difference of a metric between a configuration and its baseline, in the metric's unit and in per cent.

    interval: of 95 %, None if there is none
    percent, percent_interval: None where the baseline is 0
    equivalence_interval: of 90 %, in per cent; None where equivalence cannot be decided
    margin: per cent within which two configurations are equivalent
    p: corrected; None where nothing may be claimed
    hindrance: why nothing may be claimed
    unknown: why there is no difference, or no answer to this question
    remedy: what would decide it, where it is undecided
    """

    difference: float = 0.0
    interval: tuple[float, float] | None = None
    percent: float | None = None
    percent_interval: tuple[float, float] | None = None
    equivalence_interval: tuple[float, float] | None = None
    margin: float = 5.0
    p: float | None = None
    hindrance: str | None = None
    unknown: str | None = None
    remedy: str = ""

    @property
    def code(self) -> str:
        """The verdict by the rules of docs/comparison.md: lower, higher (than the baseline), equivalent, undecided or unknown."""
        if self.unknown is not None:
            return "unknown"
        if self.hindrance is not None or self.p is None or self.interval is None:
            return "undecided"
        if self.equivalence_interval is not None and max(map(abs, self.equivalence_interval)) < self.margin:
            return "equivalent"
        if self.p <= ERROR:
            return "lower" if self.difference < 0 else "higher"
        return "undecided"


def words(name: str, found: Finding) -> str:
    """What is known of the metric for these jobs, as a sentence."""
    if found.unknown is not None:
        return f"{_UNKNOWN}{found.unknown}"
    amounts = _Amounts(name, found)
    difference = f"{amounts.size} {METRICS[name].in_sentences}"
    if found.hindrance is not None:
        return f"undecided: {difference}, but {found.hindrance}"
    if found.p is None or amounts.interval is None:
        return f"undecided: {difference}, but nothing tells its chance"
    if found.code == "equivalent":
        return f"equivalent within {found.margin:g} % for these jobs: {amounts.size} ({amounts.margins})"
    if found.code in DIFFERENT:
        return f"{difference} for these jobs ({amounts.interval})"
    why = "" if found.p == 1 or amounts.has_zero else f", p is {p_text(found.p)}"
    return f"undecided for these jobs: {difference} ({amounts.interval}){why}{'; ' if found.remedy else ''}{found.remedy}"


def words_of_others(name: str, found: Finding) -> str:
    """What is known of the metric for other jobs, as a sentence after that of `words`."""
    amounts = _Amounts(name, found)
    if found.unknown is not None or found.p is None or amounts.interval is None:
        return f"{_UNKNOWN}{found.unknown or found.hindrance or 'nothing tells its chance'}"
    if found.code == "equivalent":
        return f"equivalent ({amounts.margins})"
    if found.code in DIFFERENT:
        return amounts.interval
    return f"{amounts.interval}, not certain{_REMEDY if found.remedy else ''}{found.remedy}"


def sentence(pair: Mapping[str, Any], *, is_answer: bool = False) -> str:
    """Both answers. pair: of comparison.json, with the words for each; is_answer: why there is none for other jobs is said, too"""
    these, others = (str(pair[question]["words"]) for question in QUESTIONS)
    if pair[OTHER_JOBS]["p"] is None:
        is_told = is_answer and pair[THESE_JOBS]["p"] is not None and ONLY_THESE in others
        return f"{these}; {others.removeprefix(_UNKNOWN)}" if is_told else these
    answer, _, remedy = others.partition(_REMEDY)
    # What would decide both is said once.
    return f"{these}; for {QUESTIONS[OTHER_JOBS]} {answer if remedy and these.endswith(remedy) else others}"


class _Amounts:
    """Numbers of a finding as text, in per cent, or in the metric's unit where the baseline is 0."""

    def __init__(self, name: str, found: Finding) -> None:
        in_percent = found.percent is not None
        self._unit = "%" if in_percent else METRICS[name].unit
        self._less, self._more = METRICS[name].comparative
        value, between = (found.percent, found.percent_interval) if in_percent else (found.difference, found.interval)
        self.size = f"{self._amount(value)} {self._direction(value)}" if value else "the same"
        self.has_zero = between is not None and between[0] <= 0 <= between[1]
        self.interval = None if between is None else self._both(between) if self.has_zero else self._near_to_far(between)
        self.margins = "" if found.equivalence_interval is None else self._both(found.equivalence_interval)

    def _amount(self, number: float) -> str:
        return f"{figures(abs(number))} {self._unit}".rstrip()

    def _direction(self, number: float) -> str:
        return self._less if number < 0 else self._more

    def _near_to_far(self, ends: tuple[float, float]) -> str:
        """3.0 to 7.0 %"""
        near, far = sorted(map(abs, ends))
        return f"{figures(near)} to {self._amount(far)}"

    def _both(self, ends: tuple[float, float]) -> str:
        """12 % shorter to 3.0 % longer"""
        return " to ".join(f"{self._amount(end)} {self._direction(end)}" for end in ends)


def p_text(value: float) -> str:
    """A p value: 0.034, 1, < 0.001."""
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def figures(value: float) -> str:
    """Whole numbers from 10 on, two digits below: 0.34, 3.4, 34."""
    return f"{value:.0f}" if value >= 9.95 or value == 0 else f"{value:.1f}" if value >= 0.995 else f"{value:.2g}"
