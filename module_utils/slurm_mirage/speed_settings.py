"""Settings of Slurm that have to grow with the speed of a virtual clock.

Under a clock of speed N Slurm's seconds pass N times as fast; its messages and its own computing do not get faster. Whatever guards
against slow machines, networks or computing is N times as long in Slurm's seconds then. Whatever is policy (KillWait, bf_interval,
sched_interval, bf_resolution, PriorityDecayHalfLife, time limits, ...) stays what it is.

Types and bounds are those of Slurm 22.05 (common/read_config.c, slurmctld/job_scheduler.c, plugins/sched/backfill/backfill.c).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from .errors import WrongUse
from .slurm_conf import OMIT, value_of

_UINT16 = 65533
"""The largest number of a 16-bit setting: the two above stand for `no value` and `infinite`."""
_INT = 2**31 - 1
"""The largest number of what Slurm computes with as int."""


@dataclass(frozen=True)
class Follower:
    """A number that is multiplied by the speed: a setting, or the word `word` of a setting that is a list of words.

    default: Slurm's own, which follows where the settings have none. It may be the name of another word of the list, whose value
    it is; None: there is none. largest: what Slurm takes.
    """

    setting: str
    default: int | str | None
    largest: int
    word: str = ""


FOLLOWERS = (
    Follower("MessageTimeout", 10, _UINT16),
    Follower("TCPTimeout", 2, _UINT16),
    Follower("SlurmdTimeout", 300, _UINT16),
    Follower("SlurmctldTimeout", 120, _UINT16),
    Follower("BatchStartTimeout", 10, _UINT16),
    Follower("UnkillableStepTimeout", 60, _UINT16),
    Follower("EioTimeout", 60, _UINT16),
    Follower("GetEnvTimeout", 2, _UINT16),
    Follower("PrologEpilogTimeout", None, _UINT16),
    Follower("MinJobAge", 300, _INT),
    Follower("AuthInfo", 120, _INT, "cred_expire"),
    # At most half of MessageTimeout as well.
    Follower("SchedulerParameters", 2, _INT, "max_sched_time"),
    Follower("SchedulerParameters", 2_000_000, _INT, "build_queue_timeout"),
    Follower("SchedulerParameters", "bf_interval", 3600, "bf_max_time"),
    # The backfill scheduler computes for bf_yield_interval and then lets others in for bf_yield_sleep (us). The largest values have
    # the defaults' proportion: with longer sleeps a cycle would take longer in Slurm's time than it has to.
    Follower("SchedulerParameters", 2_000_000, 10_000_000, "bf_yield_interval"),
    Follower("SchedulerParameters", 500_000, 2_500_000, "bf_yield_sleep"),
)
_BF_INTERVAL = 30


def follow(settings: Mapping[str, Any], speed: float) -> dict[str, Any]:
    """The settings of a cluster whose clock runs `speed` times as fast as real time, from those that it has in real time.

    What `settings` do not have is Slurm's default, which follows too. At speeds up to 1 nothing changes. Settings that are lists of
    words are text in the result. Raises WrongUse if a value that would have to be multiplied is not a number.
    """
    followed = dict(settings)
    if speed <= 1:
        return followed
    keys = {key.lower(): key for key in settings}

    def key_of(setting: str) -> str:
        return keys.get(setting.lower(), setting)

    for follower in FOLLOWERS:
        key = key_of(follower.setting)
        if not follower.word and (value := _times(key, followed.get(key), follower.default, speed, follower.largest)) is not None:
            followed[key] = value
    largest = {"max_sched_time": int(followed[key_of("MessageTimeout")]) // 2}
    # sched/builtin takes any word that ends in `interval=` for its own interval.
    backfill = str(followed.get(key_of("SchedulerType"), "sched/backfill")).lower() == "sched/backfill"
    for setting in ("AuthInfo", "SchedulerParameters"):
        some = [one for one in FOLLOWERS if one.setting == setting and one.word and (backfill or not one.word.startswith("bf_"))]
        followed[key_of(setting)] = _words(setting, followed.get(key_of(setting)), some, speed, largest)
    return followed


def _words(setting: str, value: Any, followers: Sequence[Follower], speed: float, largest: Mapping[str, int]) -> str:
    """A list of words in which those of `followers` are multiplied, or added where Slurm's default would hold."""
    text = "" if value is None or value == OMIT else value_of(value).strip('"')
    words = [word.strip() for word in text.split(",") if word.strip()]
    # Slurm looks for a word from the left.
    given = {word.partition("=")[0].lower(): word.partition("=")[2] for word in reversed(words)}
    numbers: dict[str, int] = {}
    for one in followers:
        default = given.get(one.default, _BF_INTERVAL) if isinstance(one.default, str) else one.default
        most = min(one.largest, largest.get(one.word, one.largest))
        number = _times(f"{setting}: {one.word}", given.get(one.word), default, speed, most)
        if number is not None:
            numbers[one.word] = number
    rest = [word for word in words if word.partition("=")[0].lower() not in numbers]
    return ",".join(rest + [f"{word}={number}" for word, number in numbers.items()])


def _times(name: str, value: Any, default: Any, speed: float, largest: int) -> int | None:
    """The value times the speed, a whole number: at most `largest`, never less than it was. Without a value the default counts."""
    if given := value is not None and value != OMIT:
        number = _number(name, value)
    elif default is None:
        return None
    else:
        number = _number(name, default)
    times = min(math.ceil(number * Decimal(str(speed))), largest)
    return max(math.ceil(number), times) if given else times


def _number(name: str, value: Any) -> Decimal:
    """A value as a number."""
    try:
        number = Decimal("nan" if isinstance(value, bool) else str(value))
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise WrongUse(f"slurm.conf: {name}={value_of(value)}: must be a number, for it is multiplied by the speed of the clock")
    return number
