"""Words for a difference between two configurations: its size, its interval, and what may be claimed of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirage.metrics.registry import METRICS

_ERROR = 0.05  # chance of a false claim among all claims of better or worse
_VERDICTS = ("equivalent", "undecided", "unknown")


def others(content: Mapping[str, Any]) -> list[str]:
    """Labels of the configurations of a comparison but the baseline. content: comparison.json"""
    return [one["label"] for one in content["configurations"] if one["label"] != content["baseline"]]


def pair_of(metric: Mapping[str, Any], base: str, other: str) -> Mapping[str, Any]:
    """The difference of a metric between two configurations. metric: one of comparison.json's, with its pairs"""
    pair: Mapping[str, Any] = next(pair for pair in metric["pairs"] if (pair["baseline"], pair["configuration"]) == (base, other))
    return pair


def judged(code: str, better: str) -> str:
    """Word for the code of a verdict in tables: better or worse, or higher or lower for a metric without a better direction."""
    if code == "none":
        return "no difference"  # of an earlier release
    if code in _VERDICTS:
        return code
    return code if better == "neither" else "better" if code == better else "worse"


@dataclass(frozen=True)
class Finding:
    """What is known of the difference of a metric between a configuration and its baseline, in the metric's unit and in per cent.

    interval: of 95 %, None if there is none
    percent, percent_interval: None where the baseline is 0
    equivalence_interval: of 90 %, in per cent
    margin: per cent within which two configurations are equivalent
    of_these_jobs: whether the chance is that of the replicas only, so that nothing is said of other jobs
    emulation: how much the emulation may have added to the difference
    p: corrected; None where nothing may be claimed
    hindrance: why nothing may be claimed
    unknown: why there is no difference
    """

    difference: float = 0.0
    interval: tuple[float, float] | None = None
    percent: float | None = None
    percent_interval: tuple[float, float] | None = None
    equivalence_interval: tuple[float, float] | None = None
    margin: float = 5.0
    of_these_jobs: bool = False
    emulation: float = 0.0
    p: float | None = None
    hindrance: str | None = None
    unknown: str | None = None


@dataclass(frozen=True)
class Verdict:
    """code: lower, higher (than the baseline), equivalent, undecided or unknown; words: part of a sentence."""

    code: str
    words: str

    def as_json(self) -> dict[str, Any]:
        return {"verdict": self.code, "words": self.words}


def verdict(name: str, found: Finding) -> Verdict:
    """The verdict on a metric, by the rules of docs/comparison.md."""
    if found.unknown is not None:
        return Verdict("unknown", f"not known: {found.unknown}")
    less, more = METRICS[name].comparative
    unit, value, between = (
        (METRICS[name].unit, found.difference, found.interval)
        if found.percent is None
        else ("%", found.percent, found.percent_interval)
    )

    def amount(number: float) -> str:
        return f"{figures(abs(number))} {unit}".rstrip()

    def ends(both: tuple[float, float]) -> str:
        """(3.0 to 7.0 %), and (12 % shorter to 3.0 % longer) where it includes zero."""
        if both[0] <= 0 <= both[1]:
            return " to ".join(f"{amount(end)} {less if end < 0 else more}" for end in both)
        near, far = sorted(map(abs, both))
        return f"{figures(near)} to {amount(far)}"

    size = f"{amount(value)} {less if value < 0 else more}"
    told = f"{size} {METRICS[name].in_sentences}" if value else f"the same {METRICS[name].in_sentences}"
    only = ", for these jobs" if found.of_these_jobs else ""
    if found.hindrance is not None:
        return Verdict("undecided", f"undecided: {told}, but {found.hindrance}")
    if between is None or found.p is None:
        return Verdict("undecided", f"undecided: {told}, but nothing tells its chance")
    if (within := found.equivalence_interval) is not None and max(map(abs, within)) < found.margin:
        low_to_high = " to ".join(f"{amount(end)} {less if end < 0 else more}" for end in within)
        return Verdict("equivalent", f"equivalent within {found.margin:g} %: {size if value else 'the same'} ({low_to_high}){only}")
    if found.p <= _ERROR:
        return Verdict("lower" if value < 0 else "higher", f"{told} ({ends(between)}){only}")
    if 0 < abs(found.difference) <= found.emulation:
        added = f"{figures(found.emulation)} {METRICS[name].unit}".rstrip()
        return Verdict("undecided", f"undecided: {told}, but the emulation may have added {added}")
    if between[0] <= 0 <= between[1]:
        return Verdict("undecided", f"undecided: {told}, but the interval includes zero ({ends(between)})")
    return Verdict("undecided", f"undecided: {told} ({ends(between)}), but p is {p_text(found.p)}, corrected for the whole table")


def p_text(value: float) -> str:
    """A p value: 0.034, 1, < 0.001."""
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def figures(value: float) -> str:
    """Whole numbers from 10 on, two digits below: 0.34, 3.4, 34."""
    return f"{value:.0f}" if value >= 9.95 or value == 0 else f"{value:.1f}" if value >= 0.995 else f"{value:.2g}"
