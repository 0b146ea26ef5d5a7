"""Limits on how much worse a metric may become by a change of the configuration, and whether pairs of runs show that they hold.

The runs of a pair, one of each configuration, have the same phase of the scheduler's cycle. A limit is on the mean over all phases,
and the errors are bounded whatever the distribution over the phases (`paired_bounds`), for all looks together:

- A limit **holds** from `PASSES_FROM` pairs on, if the upper bound of the mean change is within it, where the worst tenth of the
  phases counts as the best of this tenth. One that does not hold passes with at most 0.9^40 = 1.5 %, the chance that no pair is in
  the tenth, and `_TAIL` at each look. A gate passes only if each limit holds, so that their number does not matter.
- A limit is **broken** by fewer pairs if the change is beyond it in more than half of all phases, with an error of `_MOST` at 10
  and at 20 pairs (3 cannot show it); by more, if the lower bound of the mean change is beyond it, with `_TAIL` at each look, where
  the best quarter of the phases counts as the worst of this quarter (0.75^40 is next to nothing). These errors are divided by the
  number of limits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mirage.metrics.registry import METRICS
from mirage.text import durations

if TYPE_CHECKING:  # they import numpy and polars, which the check of LIMITS does not need
    from mirage.statistics.claims import Claim
    from mirage.statistics.intervals import Floats

LOOKS = (3, 10, 20, 40, 60, 80)
"""Numbers of replicas of each configuration, and so of pairs of runs, at which a gate looks at its runs."""
PASSES_FROM = 40
"""Pairs from which on a limit may hold: 36 are the fewest that miss a group of a tenth of all phases with at most 2.5 %."""
_TAIL, _MOST = 0.0025, 0.008
DEFAULT = "wait_mean:+5% wait_p95:+5% response_mean:+5% bounded_slowdown_mean:+5% utilisation:-5%"
"""The limits without LIMITS: the main metrics but the median wait, which may be 0, the longest wait, which is that of one job, and
the share of immediate starts, which changes with short waits too."""
FORM = "NAME:+X%, NAME:-X% or an amount like NAME:+60s, separated by blanks: wait_p95:+10% utilisation:-1%"
HOLDS, BROKEN, UNDECIDED = "holds", "broken", "undecided"
Interval = tuple[float, float]

_LIMIT = re.compile(r"(\w+):([+-])(\S+)", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True)
class Limit:
    """The largest change of a metric that is allowed, or where higher is better the smallest.

    metric: name in `METRICS`
    change: of the mean, with its sign, in per cent of that before or in the metric's unit
    """

    metric: str
    change: float
    in_percent: bool

    @property
    def higher_is_better(self) -> bool:
        return METRICS[self.metric].better == "higher"

    @property
    def unit(self) -> str:
        """Unit of `change`, and of its interval."""
        return "%" if self.in_percent else METRICS[self.metric].unit

    def __str__(self) -> str:
        """As in LIMITS."""
        return f"{self.metric}:{self.change:+.12g}{self.unit}"

    def judge(self, interval: Interval) -> str:
        """HOLDS if all of the interval is allowed, BROKEN if nothing of it is, otherwise UNDECIDED."""
        low, high = interval
        if self.higher_is_better:
            low, high, limit = -high, -low, -self.change
        else:
            limit = self.change
        return HOLDS if high <= limit else BROKEN if low > limit else UNDECIDED


def parse(text: str) -> tuple[Limit, ...]:
    """Read limits, separated by blanks or commas, one for each metric. Raises ValueError with what is allowed instead."""
    words = [word for word in re.split(r"[\s,]+", text) if word]
    limits = [_limit(word) for word in words]
    if not limits:
        raise ValueError(FORM)
    given: dict[str, Limit] = {}
    for limit in limits:
        if (other := given.setdefault(limit.metric, limit)) != limit:
            raise ValueError(f"{FORM}; {other} and {limit} are two limits of one metric")
    return tuple(given.values())


def _limit(word: str) -> Limit:
    match = _LIMIT.fullmatch(word)
    if match is None:
        raise ValueError(FORM)
    name, sign, amount = match.groups()
    known = [one for one, metric in METRICS.items() if metric.better != "neither"]
    if name not in known:
        raise ValueError(f"{FORM}; NAME is one of {', '.join(known)}")
    in_percent, is_time = amount.endswith("%"), METRICS[name].unit == "s"
    try:
        size = durations.seconds(amount) if is_time and not in_percent else _number(amount.removesuffix("%"))
    except ValueError:
        what = f"a time in {durations.FORM}" if is_time else "a number"
        raise ValueError(f"{FORM}; an amount of {name} is {what}, and {amount!r} is none") from None
    if in_percent and sign == "-" and size > 100:
        raise ValueError(f"{FORM}; {word} is beyond -100 %, at which {name} is 0")
    if METRICS[name].is_share and not in_percent and size > 1:
        raise ValueError(f"{FORM}; {word} is beyond 1, as {name} is a share; per cent have a %")
    return Limit(name, (-size if sign == "-" else size) + 0.0, in_percent)


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError
    return float(text)


@dataclass(frozen=True)
class Pairs:
    """Values of a metric before and after in pairs of runs, and by how much the emulation may have changed their means."""

    before: Floats
    after: Floats
    errors: tuple[float, float] = (0.0, 0.0)

    def repeated(self, number: int) -> Pairs:
        """So many pairs, which vary as these do."""
        from numpy import resize

        return replace(self, before=resize(self.before, number), after=resize(self.after, number))

    def judge(self, limit: Limit, limits: int) -> tuple[str, Interval]:
        """The verdict on a limit, and the interval of the change in its unit. limits: how many are judged together"""
        from mirage.statistics.paired_bounds import is_in_most, mean_bounds

        share = limit.change / 100 if limit.in_percent else 0.0
        excess = self.after - self.before - (share * abs(self.before) if limit.in_percent else limit.change)
        excess = -excess if limit.higher_is_better else excess
        bias = self.errors[1] + abs(1 + share) * self.errors[0]
        low, high = mean_bounds(excess, _TAIL / limits, _TAIL)
        scale = 100 / abs(float(self.before.mean())) if limit.in_percent else 1.0
        change = [limit.change + (-scale if limit.higher_is_better else scale) * end for end in (low - bias, high + bias)]
        interval = (max(-100.0, min(change)) if limit.in_percent else min(change), max(change))
        if len(excess) >= PASSES_FROM:
            return limit.judge(interval), interval
        return BROKEN if is_in_most(int((excess > bias).sum()), len(excess), _MOST / limits) else UNDECIDED, interval


@dataclass(frozen=True)
class Answer:
    """What is known of a limit.

    verdict: HOLDS, BROKEN or UNDECIDED
    pairs: number of pairs of runs that it is known from
    before, after: means of the metric; None: not known
    interval: of the change, in the limit's unit; None: not known
    why: why it is undecided, and what would decide it
    by_replicas: whether more replicas may decide it
    """

    limit: Limit
    verdict: str
    pairs: int
    before: float | None
    after: float | None
    interval: Interval | None = None
    why: str = ""
    by_replicas: bool = False

    @property
    def change(self) -> float | None:
        """Of the mean, in the limit's unit. None where it is not known."""
        if self.before is None or self.after is None:
            return None
        change = self.after - self.before
        if not self.limit.in_percent:
            return change
        return 100 * change / abs(self.before) if self.before else None


def answer(limit: Limit, claim: Claim, look: int, limits: int = 1) -> Answer:
    """What a look at the runs, counted from 0, tells of a limit. Per cent of a mean of 0 are 0 of the metric's unit.

    claim: on the limit's metric, for these jobs
    limits: how many are judged together
    """
    before, after, number = claim.pair["baseline_mean"], claim.pair["mean"], LOOKS[look]
    chance, against = claim.chance, claim.finding.unknown or claim.finding.hindrance
    if against or chance is None:
        return Answer(limit, UNDECIDED, number, before, after, why=against or "nothing tells its chance")
    pairs = Pairs(chance.values[0], chance.values[1], chance.errors)
    of_nothing = limit.in_percent and before == 0
    judged = replace(limit, change=0.0, in_percent=False) if of_nothing else limit
    verdict, interval = pairs.judge(judged, limits)
    shown = None if of_nothing else interval
    if verdict != UNDECIDED:
        return Answer(limit, verdict, number, before, after, shown)
    needed = _replicas_for(judged, pairs, look, limits)
    why = f"{LOOKS[-1]} replicas of each would not decide it" if needed is None else f"about {needed} replicas of each decide it"
    return Answer(limit, verdict, number, before, after, shown, why, by_replicas=True)


def _replicas_for(limit: Limit, pairs: Pairs, look: int, limits: int) -> int | None:
    """Number of replicas at which a later look would decide the limit, if more pairs varied as these do; None for no look."""
    later = (number for number in LOOKS[look + 1 :] if pairs.repeated(number).judge(limit, limits)[0] != UNDECIDED)
    return next(later, None)


def without_change(found: Answer) -> Answer:
    """The answer where the runs of each pair have the same schedule: the change is 0, and the emulation has no part in it."""
    if found.limit.judge((0.0, 0.0)) != HOLDS:
        return found
    if found.pairs < PASSES_FROM:
        why = f"{PASSES_FROM} pairs of runs tell whether it holds, {found.pairs} are alike"
        return replace(found, verdict=UNDECIDED, why=why, by_replicas=True)
    return replace(found, verdict=HOLDS, interval=(0.0, 0.0), why="", by_replicas=False)


def all_of(answers: Sequence[Answer]) -> str:
    """Verdict on all limits: BROKEN if one is, HOLDS if all hold, otherwise UNDECIDED, also without any."""
    verdicts = [one.verdict for one in answers]
    if BROKEN in verdicts:
        return BROKEN
    return HOLDS if verdicts and all(one == HOLDS for one in verdicts) else UNDECIDED
