"""Limits on how much worse a metric may become by a change of the configuration, and whether an interval lies within them.

The runs of a gate are looked at several times, with more replicas each time. `level_of` shares the 5 % among these looks, so that
over all of them an interval misses the true difference in at most 5 % of the gates, 2.5 % at either end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mirage.metrics.registry import METRICS
from mirage.text import durations

if TYPE_CHECKING:  # they import scipy, which the check of LIMITS does not need
    from mirage.statistics.claims import Claim
    from mirage.statistics.inference import Chance

LOOKS = (3, 5, 8, 12, 20, 32, 50)
"""Numbers of replicas of each configuration at which a gate looks at its runs."""
ERROR = 0.05
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


def level_of(look: int) -> float:
    """Level of the intervals at a look, which is counted from 0: half of what the looks before have left of ERROR is spent."""
    return 1 - ERROR * 0.5 ** (look + 1)


def interval_of(chance: Chance, *, in_percent: bool, level: float) -> Interval | None:
    """Interval of the change of a metric. None where its chance is not known; in per cent also where the mean before is 0.

    Where nothing varies, and it is known that runs do not differ, it is as wide as what the emulation may have added.
    """
    estimate = chance.relative() if in_percent else chance.difference()
    if estimate is not None:
        return estimate.percent(level) if in_percent else estimate.interval(level)
    if chance.drawn is not None or not chance.tells_equivalence:
        return None
    base, mean = (float(replicas.mean()) for replicas in chance.values)
    scale = 1.0 if not in_percent else 100 / abs(base) if base else None
    added = sum(chance.errors)
    return None if scale is None else ((mean - base - added) * scale, (mean - base + added) * scale)


@dataclass(frozen=True)
class Answer:
    """What is known of a limit.

    verdict: HOLDS, BROKEN or UNDECIDED
    before, after: means of the metric; None: not known
    interval: of the change, in the limit's unit; None: not known
    why: why it is undecided, and what would decide it
    by_replicas: whether more replicas may decide it
    """

    limit: Limit
    verdict: str
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


def answer(limit: Limit, claim: Claim, look: int) -> Answer:
    """What a look at the runs, counted from 0, tells of a limit. Per cent of a mean of 0 are 0 of the metric's unit.

    claim: on the limit's metric, for these jobs
    """
    before, after = claim.pair["baseline_mean"], claim.pair["mean"]
    chance, against = claim.chance, claim.finding.unknown or claim.finding.hindrance
    if against or chance is None:
        return Answer(limit, UNDECIDED, before, after, why=against or "nothing tells its chance")
    level = level_of(look)
    of_nothing = limit.in_percent and before == 0
    interval = interval_of(chance, in_percent=limit.in_percent and not of_nothing, level=level)
    if interval is None:
        why = "nothing varies, and it is not known how far runs may differ"
        return Answer(limit, UNDECIDED, before, after, why=why, by_replicas=True)
    judged = replace(limit, change=0.0, in_percent=False) if of_nothing else limit
    shown = None if of_nothing else interval
    verdict = judged.judge(interval)
    if verdict == HOLDS and not chance.tells_equivalence:
        why = "it is not known how far runs may differ; 12 replicas of each tell it"
        return Answer(limit, UNDECIDED, before, after, shown, why, by_replicas=True)
    if verdict != UNDECIDED:
        return Answer(limit, verdict, before, after, shown)
    replicas = _replicas_for(judged, chance, look)
    why = (
        f"{LOOKS[-1]} replicas of each would not decide it" if replicas is None else f"about {replicas} replicas of each decide it"
    )
    return Answer(limit, verdict, before, after, shown, why, by_replicas=True)


def without_change(found: Answer) -> Answer:
    """The answer where both have the same schedule: the metric does not change."""
    return Answer(found.limit, found.limit.judge((0.0, 0.0)), found.before, found.after, (0.0, 0.0))


def _replicas_for(limit: Limit, chance: Chance, look: int) -> int | None:
    """Number of replicas at which a later look would decide the limit, if more replicas varied as these do; None for no look."""
    number = max(map(len, chance.values))
    for later, replicas in enumerate(LOOKS[look + 1 :], look + 1):
        more = chance.repeated(-(-replicas // number))
        interval = interval_of(more, in_percent=limit.in_percent, level=level_of(later))
        if interval is not None and limit.judge(interval) != UNDECIDED:
            return replicas
    return None


def all_of(answers: Sequence[Answer]) -> str:
    """Verdict on all limits: BROKEN if one is, HOLDS if all hold, otherwise UNDECIDED, also without any."""
    verdicts = [one.verdict for one in answers]
    if BROKEN in verdicts:
        return BROKEN
    return HOLDS if verdicts and all(one == HOLDS for one in verdicts) else UNDECIDED
