"""Words for a difference between two configurations: its size, its interval, and whether it is beyond the noise floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mirage.metrics.registry import METRICS

_ROUNDING = 1e-9  # equal sums in another order
_VERDICTS = {"none": "no difference", "undecided": "undecided", "unknown": "unknown"}


def judged(code: str, better: str) -> str:
    """Word for the code of a verdict in tables: better or worse, or higher or lower for a metric without a better direction."""
    if code in _VERDICTS:
        return _VERDICTS[code]
    return code if better == "neither" else "better" if code == better else "worse"


@dataclass(frozen=True)
class Finding:
    """What is known of the difference of a metric between a configuration and its baseline, in the metric's unit and in per cent.

    interval: None if there is none; floor: the largest difference between two replicas of one configuration, None for one
    replica; percent...: None where the baseline is 0; unknown: why there is no difference
    """

    difference: float = 0.0
    interval: tuple[float, float] | None = None
    floor: float | None = None
    percent: float | None = None
    percent_interval: tuple[float, float] | None = None
    percent_floor: float | None = None
    unknown: str | None = None


@dataclass(frozen=True)
class Verdict:
    """code: lower, higher (than the baseline, beyond chance and noise), none, undecided or unknown; words: part of a sentence."""

    code: str
    words: str

    def as_json(self) -> dict[str, Any]:
        return {"verdict": self.code, "words": self.words}


def verdict(name: str, found: Finding) -> Verdict:
    """The verdict on a metric, by the rules of docs/comparison.md."""
    if found.unknown is not None:
        return Verdict("unknown", f"not known: {found.unknown}")
    unit: str
    if found.percent is None:
        unit, value, between, floor = METRICS[name].unit, found.difference, found.interval, found.floor
    else:
        unit, value, between, floor = "%", found.percent, found.percent_interval, found.percent_floor

    def amount(number: float) -> str:
        return f"{figures(abs(number))} {unit}".rstrip()

    less, more = METRICS[name].comparative
    told = f"{amount(value)} {less if value < 0 else more} {METRICS[name].in_sentences}"
    if value == 0 and not floor and (between is None or max(map(abs, between)) < _ROUNDING):
        return Verdict("none", "no difference")
    if floor is not None and abs(value) <= floor:
        return Verdict("none", f"no difference beyond the noise floor ({amount(floor)})")
    if between is None:
        why = "one replica tells neither an interval nor a noise floor" if floor is None else "too few jobs for an interval"
        return Verdict("undecided", f"undecided: {told}, but {why}")
    low, high = between
    if low <= 0 <= high:
        ends = " to ".join(f"{amount(end)} {less if end < 0 else more}" for end in between)
        return Verdict("undecided", f"undecided: {told}, but the interval includes zero ({ends})")
    near, far = sorted((abs(low), abs(high)))
    noise = "by jobs alone: one replica tells no noise floor" if floor is None else f"the noise floor is {amount(floor)}"
    return Verdict("lower" if value < 0 else "higher", f"{told} ({figures(near)} to {amount(far)}); {noise}")


def figures(value: float) -> str:
    """Whole numbers from 10 on, two digits below: 0.34, 3.4, 34."""
    return f"{value:.0f}" if value >= 9.95 or value == 0 else f"{value:.1f}" if value >= 0.995 else f"{value:.2g}"
