"""SUBMISSION: jobs go in groups at fixed intervals (Algorithm 3.2 of the thesis) instead of at their own times."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

FORM = "words of period=SECONDS, size=JOBS, warmup=JOBS, drift=SECONDS: period=900 size=2 warmup=4 drift=-10"


@dataclass(frozen=True)
class SubmissionGroups:
    """Groups of jobs. Times are seconds of the cluster's clock; they are not shrunk."""

    period: Decimal
    """Seconds from one group to the next, above 0."""
    size: int = 1
    """Jobs of a group."""
    warmup: int = 0
    """Jobs that are submitted at once at the start."""
    drift: Decimal = Decimal(0)
    """Added to each period; not below -period."""

    def __str__(self) -> str:
        return f"period={self.period:f} size={self.size} warmup={self.warmup} drift={self.drift:f}"


class NotGroups(Exception):
    """The text describes no groups; the message, which may be empty, says what it may be."""


def read(text: str) -> SubmissionGroups | None:
    """The groups that a text describes; None for an empty text: jobs keep their own times. Raises NotGroups."""
    words = text.split()
    if not words:
        return None
    values = dict(_word(word) for word in words)
    if len(values) < len(words) or "period" not in values:
        raise NotGroups(f"each word once, with the period: {FORM}")
    groups = SubmissionGroups(
        period=values["period"],
        size=int(values.get("size", 1)),
        warmup=int(values.get("warmup", 0)),
        drift=values.get("drift", Decimal(0)),
    )
    if groups.period <= 0:
        raise NotGroups("a period above 0")
    if groups.drift < -groups.period:
        raise NotGroups(f"a drift from -{groups.period:f} on, so that no group is due before the one in front of it")
    return groups


_WORD = re.compile(r"(?:(period|drift)=(-?(?:\d+\.?\d*|\.\d+)))|(?:(size)=0*([1-9]\d{0,14}))|(?:(warmup)=(\d{1,15}))", re.ASCII)


def _word(word: str) -> tuple[str, Decimal]:
    match = _WORD.fullmatch(word)
    if match is None:
        raise NotGroups
    name, value = (group for group in match.groups() if group is not None)
    return name, Decimal(value)
