"""Settings of Slurm that have to grow with the speed of a virtual clock.

Under a clock of speed N Slurm's seconds pass N times as fast; its messages and its own computing do not get faster. Whatever guards
against slow machines, networks or computing is N times as long in Slurm's seconds then. Whatever is policy (KillWait, bf_interval,
sched_interval, bf_resolution, PriorityDecayHalfLife, time limits, ...) stays what it is.

Types and bounds are those of Slurm 22.05 (common/read_config.c, slurmctld/job_scheduler.c, plugins/sched/backfill/backfill.c).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from ...base.errors import WrongUse
from .conf import OMIT, value_of

_UINT16 = 65533
"""The largest number of a 16-bit setting: the two above stand for `no value` and `infinite`."""
_INT = 2**31 - 1
"""The largest number that Slurm computes with as int."""


@dataclass(frozen=True)
class Follower:
    """A number that is multiplied by the speed: a setting, or the word `word` of a setting that is a list of words.

    default: Slurm's own, which follows where the settings have none. It may be the name of another word of the list, whose value
    it is; None: nothing is added. largest: what Slurm takes. real: instead of being multiplied it becomes so many seconds of real
    time, if that is more; for settings that need not last N times as long, and would have side effects.
    """

    setting: str
    default: int | Decimal | str | None
    largest: int
    word: str = ""
    real: int | None = None


FOLLOWERS = (
    Follower("MessageTimeout", 10, _UINT16),
    Follower("TCPTimeout", 2, _UINT16),
    Follower("SlurmdTimeout", 300, _UINT16),
    Follower("SlurmctldTimeout", 120, _UINT16),
    Follower("BatchStartTimeout", 10, _UINT16),
    Follower("UnkillableStepTimeout", 60, _UINT16),
    Follower("EioTimeout", 60, _UINT16),
    # Only for salloc --get-user-env, and gone in Slurm 25.05.
    Follower("GetEnvTimeout", None, _UINT16),
    # Slurm waits for good by default; the latter two are of Slurm 25.05.
    Follower("PrologEpilogTimeout", None, _UINT16),
    Follower("PrologTimeout", None, _UINT16),
    Follower("EpilogTimeout", None, _UINT16),
    Follower("InactiveLimit", None, _UINT16),
    # The replay asks for an ended job within a minute of real time; slurmctld goes through all that it remembers over and over,
    # and writes them to disk every 5 s of its own time.
    Follower("MinJobAge", 300, _INT, real=100),
    # The launch of a step has to come while its credential is good; but a job that is put back in the queue waits as long
    # (job_mgr.c), which is policy.
    Follower("AuthInfo", 120, _INT, "cred_expire", real=2),
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
LAUNCH = Decimal("0.5")
"""Real seconds of launch and end that no job is killed for: they take 20 to 50 ms, on a busy host up to a quarter of a second."""
_LISTS = tuple(dict.fromkeys(one.setting for one in FOLLOWERS if one.word))


def follow(settings: Mapping[str, Any], speed: float) -> dict[str, Any]:
    """The settings of a cluster whose clock runs `speed` times as fast as real time, from those that it has in real time.

    Where `settings` have none, or OMIT, Slurm's default follows. At speeds up to 1 nothing changes. Settings that are lists of
    words are text in the result. Raises WrongUse if a value that is to be multiplied is not a number.
    """
    followed = dict(settings)
    if speed <= 1:
        return followed
    keys = {key.lower(): key for key in settings}

    def key_of(setting: str) -> str:
        return keys.get(setting.lower(), setting)

    for one in FOLLOWERS:
        key = key_of(one.setting)
        if not one.word and (value := _times(key, followed.get(key, OMIT), one, speed)) is not None:
            followed[key] = value
    # In minutes. Only slurmctld's check of time limits reads it, backfill does not (job_mgr.c).
    if minutes := over_time_minutes(speed):
        key = key_of("OverTimeLimit")
        given = followed.get(key, OMIT)
        followed[key] = min(minutes + math.ceil(_number(key, 0 if given == OMIT else given)), _UINT16)
    largest = {"max_sched_time": int(followed[key_of("MessageTimeout")]) // 2}
    # sched/builtin takes any word that ends in `interval=` for its own interval.
    backfill = str(followed.get(key_of("SchedulerType"), "sched/backfill")).lower() == "sched/backfill"
    for setting in _LISTS:
        followers = [
            one for one in FOLLOWERS if one.setting == setting and one.word and (backfill or not one.word.startswith("bf_"))
        ]
        if (value := followed.get(key_of(setting), OMIT)) is not None:
            followed[key_of(setting)] = _words(setting, value, followers, speed, largest)
    return followed


EVENT_CLOCK_LEAST = {"SlurmdTimeout": 60_000, "MinJobAge": 36_000}
"""The least values on the event clock, in seconds, which pass by the thousand in a second of real time: slurmctld pings all nodes
in each third of SlurmdTimeout, and the replay has to ask for an ended job within MinJobAge."""


def on_event_clock(settings: Mapping[str, Any], silent_nodes: bool = False) -> dict[str, Any]:
    """The settings of a cluster on the event clock, from those that it has in real time. Nothing else has to follow that clock,
    because it stops while the host works. 0 (off) stays. Raises WrongUse if a value is not a number.

    silent_nodes: whether slurmctld has to notice nodes that do not answer as soon as in real time
    """
    changed = dict(settings)
    keys = {key.lower(): key for key in settings}
    for setting, least in EVENT_CLOCK_LEAST.items():
        if silent_nodes and setting == "SlurmdTimeout":
            continue
        key = keys.get(setting.lower(), setting)
        given = changed.get(key, OMIT)
        if given == OMIT or 0 < _number(key, given) < least:
            changed[key] = least
    return changed


def over_time_minutes(speed: float) -> int:
    """What is added to OverTimeLimit for launches, in minutes."""
    return round(LAUNCH * Decimal(str(speed)) / 60)


def over_time_limit(configuration: str, speed: float) -> float:
    """Seconds beyond its time limit that a job may run, as a slurm.conf or `scontrol show config` has them (OverTimeLimit), without
    what `follow` adds for launches at `speed`."""
    values = re.findall(r"^OverTimeLimit\s*=\s*(\d+)", configuration, re.MULTILINE | re.IGNORECASE)
    return 60.0 * max(0, int(values[-1]) - over_time_minutes(speed)) if values else 0.0


def followed(setting: str, value: int, speed: float) -> int:
    """The number that a setting of `FOLLOWERS` becomes, for files beside slurm.conf that have settings of the same name."""
    one = next(one for one in FOLLOWERS if one.setting == setting and not one.word)
    return value if speed <= 1 else _times(setting, value, one, speed) or value


def _words(setting: str, value: Any, followers: Sequence[Follower], speed: float, largest: Mapping[str, int]) -> str:
    """A list of words in which those of `followers` are multiplied, or added where Slurm's default would hold."""
    text = "" if value == OMIT else value_of(value).strip('"')
    words = [word.strip() for word in text.split(",") if word.strip()]
    # The first one of a name counts.
    given = {word.partition("=")[0].lower(): word.partition("=")[2] for word in reversed(words)}
    numbers: dict[str, int] = {}
    for one in followers:
        exact = replace(one, largest=min(one.largest, largest.get(one.word, one.largest)))
        if isinstance(one.default, str):
            exact = replace(exact, default=_number(f"{setting}: {one.default}", given.get(one.default, _BF_INTERVAL)))
        number = _times(f"{setting}: {one.word}", given.get(one.word, OMIT), exact, speed)
        if number is not None:
            numbers[one.word] = number
    rest = [word for word in words if word.partition("=")[0].lower() not in numbers]
    return ",".join(rest + [f"{word}={number}" for word, number in numbers.items()])


def _times(name: str, value: Any, follower: Follower, speed: float) -> int | None:
    """What the value becomes at that speed, a whole number; None if there is neither a value nor a default.

    A value that was given is never made smaller, so that what Slurm refuses it still refuses, and 0 and -1 stay what they are.
    """
    given = value != OMIT
    if not given and follower.default is None:
        return None
    number = _number(name, value if given else follower.default)
    if follower.real is not None and number > 0:
        times = max(math.ceil(number), math.ceil(follower.real * Decimal(str(speed))))
    else:
        times = math.ceil(number * Decimal(str(speed)))
    times = min(times, follower.largest)
    if given:
        return max(math.ceil(number), times)
    return times if times > 0 else None


def _number(name: str, value: Any) -> Decimal:
    """A value as a number."""
    try:
        number = Decimal("nan" if isinstance(value, bool) else str(value))
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise WrongUse(f"slurm.conf: {name}={value_of(value)}: must be a number, for it is multiplied by the speed of the clock")
    return number
