"""A difference in words: how large, how sure, and whether it is more than two runs of the same configuration differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mirage.metrics.metrics import MEANINGS

_SHORTER, _LOWER, _SMALLER, _FEWER = ("shorter", "longer"), ("lower", "higher"), ("smaller", "larger"), ("fewer", "more")
_NOUNS: dict[str, tuple[str, tuple[str, str]]] = {
    "wait_mean": ("mean wait", _SHORTER),
    "wait_median": ("median wait", _SHORTER),
    "wait_p90": ("90th percentile of the wait", _SHORTER),
    "wait_p95": ("95th percentile of the wait", _SHORTER),
    "wait_p99": ("99th percentile of the wait", _SHORTER),
    "wait_max": ("longest wait", _SHORTER),
    "response_mean": ("mean response", _SHORTER),
    "slowdown_mean": ("mean slowdown", _LOWER),
    "bounded_slowdown_mean": ("mean bounded slowdown", _LOWER),
    "pp_bounded_slowdown_mean": ("mean bounded slowdown per processor", _LOWER),
    "weighted_slowdown": ("weighted slowdown", _LOWER),
    "weighted_slowdown_processors": ("slowdown weighted by processors", _LOWER),
    "utilisation": ("utilisation", _LOWER),
    "loss_of_capacity": ("loss of capacity", _LOWER),
    "makespan": ("makespan", _SHORTER),
    "immediate_fraction": ("share of jobs that started at once", _SMALLER),
    "suspensions_mean": ("suspensions of a job", _FEWER),
    "suspended_mean": ("mean time suspended", _SHORTER),
    "suspended_fraction": ("share of jobs suspended", _SMALLER),
}
_ROUNDING = 1e-9  # equal sums in another order
_HIGHER_IS_BETTER = ("utilisation", "immediate_fraction")


def noun(name: str) -> str:
    """A metric's name for people: `mean wait`."""
    return _NOUNS.get(name, (name, _LOWER))[0]


def better(name: str) -> str:
    """Whether `lower` or `higher` values are better."""
    return "higher" if name in _HIGHER_IS_BETTER else "lower"


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
    """code: lower, higher (than the baseline, beyond chance and noise), none, undecided or unknown; words: a sentence's part."""

    code: str
    words: str

    def as_json(self) -> dict[str, Any]:
        return {"verdict": self.code, "words": self.words}


def verdict(name: str, found: Finding) -> Verdict:
    """The verdict on a metric; docs/comparison.md tells the rules."""
    if found.unknown is not None:
        return Verdict("unknown", f"not known: {found.unknown}")
    if found.percent is None:
        unit, value, between, floor = MEANINGS[name][0], found.difference, found.interval, found.floor
    else:
        unit, value, between, floor = "%", found.percent, found.percent_interval, found.percent_floor

    def amount(number: float) -> str:
        return f"{figures(abs(number))} {unit}".rstrip()

    less, more = _NOUNS.get(name, (name, _LOWER))[1]
    told = f"{amount(value)} {less if value < 0 else more} {noun(name)}"
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
