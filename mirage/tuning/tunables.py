"""The settings of slurm.conf that SETTINGS may set and TUNE may try, and the texts of both knobs.

Both are data of the user: each name is one of `TUNABLES`, each value one word of a kind that slurm.conf can hold.

Defaults and bounds are Slurm's (sched/backfill/backfill.c, slurmctld/job_scheduler.c, common/read_config.c): it replaces a value
beyond them by its default, with a line in slurmctld.log.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm import conf

SCHEDULER_PARAMETERS = "SchedulerParameters"
YES, NO = "yes", "no"
LEVELS = 9
"""Values of a range `LOW..HIGH`, at most."""
MOST_VALUES, MOST_SETTINGS, LONGEST = 30, 8, 2000
"""Values of a setting, settings of a search, and characters of TUNE or SETTINGS, at most."""
FORM = "names of settings, separated by blanks, each with its values or a range: bf_window=1440,4320 bf_interval=5..120"
_TIME = re.compile(r"(?:(\d{1,4})-)?(\d{1,7})(?::(\d{1,2}))?(?::(\d{1,2}))?", re.ASCII)
_NUMBER = re.compile(r"\d{1,10}", re.ASCII)
_RANGE = re.compile(r"(\d{1,10})\.\.(\d{1,10})", re.ASCII)
_UINT32 = 4_294_967_294


@dataclass(frozen=True)
class Tunable:
    """A setting.

    values: those of a bare name in TUNE
    default: Slurm's own
    bounds: the least and the largest number; None: not a number
    words: all values, where it is not a number; empty: a time, as `7-0` (days-hours)
    parameter: whether it is a word of SchedulerParameters
    computes: whether it decides how much the scheduler computes
    """

    name: str
    values: tuple[str, ...]
    default: str
    bounds: tuple[int, int] | None = None
    words: tuple[str, ...] = ()
    parameter: bool = True
    computes: bool = False

    @property
    def is_ordered(self) -> bool:
        """Whether its values have an order: numbers and times."""
        return not self.words

    @property
    def is_time(self) -> bool:
        """Whether its values are times."""
        return not self.words and self.bounds is None

    @property
    def is_flag(self) -> bool:
        """Whether it is a word of SchedulerParameters without a value."""
        return self.parameter and self.words == (YES, NO)

    def may_be(self) -> str:
        """The allowed values in words."""
        if self.bounds is not None:
            return f"a whole number from {self.bounds[0]} to {self.bounds[1]}"
        times = "a time as slurm.conf has it, above 0, like 7-0 (days-hours) or 300 (minutes)"
        return " or ".join(self.words) if self.words else times

    def read(self, text: str) -> str:
        """The value as it is written into slurm.conf. Raises ValueError for another one."""
        if self.bounds is not None:
            if not _NUMBER.fullmatch(text) or not self.bounds[0] <= int(text) <= self.bounds[1]:
                raise ValueError
            return str(int(text))
        if self.words:
            return next((word for word in self.words if word == text.lower()), "") or _none()
        if not _TIME.fullmatch(text):
            raise ValueError
        return text

    def place(self, value: str) -> float:
        """Where a value stands in the order of values. Minutes of a time."""
        if self.bounds is not None:
            return float(value)
        if self.words:
            return float(self.words.index(value))
        days, *parts = (int(part or 0) for part in _TIME.fullmatch(value).groups())  # type: ignore[union-attr]
        if "-" not in value and value.count(":") < 2:
            return parts[0] + parts[1] / 60
        return 1440.0 * days + 60.0 * parts[0] + parts[1] + parts[2] / 60


def _none() -> str:
    raise ValueError


def _number(name: str, values: str, default: int, least: int, most: int, *, computes: bool = True) -> Tunable:
    return Tunable(name, tuple(values.split()), str(default), (least, most), computes=computes)


def _flag(name: str) -> Tunable:
    return Tunable(name, (YES, NO), NO, words=(YES, NO), computes=True)


def _weight(name: str) -> Tunable:
    return Tunable(f"PriorityWeight{name}", ("0", "100", "1000", "10000", "100000"), "0", (0, _UINT32), parameter=False)


TUNABLES = (
    _number("bf_interval", "5 15 30 60 120", 30, 1, 10_800),
    _number("bf_window", "720 1440 2880 4320 10080", 1440, 1, 43_200),
    _number("bf_resolution", "1 60 180 300 600", 60, 1, 3600),
    _number("bf_max_job_test", "50 100 500 1000 5000", 500, 1, 1_000_000),
    _number("bf_max_job_part", "0 10 50 100 500", 0, 0, 1_000_000),
    _number("bf_max_job_user", "0 5 10 20 50 100", 0, 0, 1_000_000),
    _number("bf_max_job_start", "0 10 50 100", 0, 0, 10_000),
    _number("bf_job_part_count_reserve", "0 1 5 20 100", 0, 0, 100_000),
    _number("bf_min_age_reserve", "0 60 600 3600", 0, 0, 2_592_000),
    _number("bf_window_linear", "0 60 300 600", 0, 0, 86_400),
    _number("bf_max_time", "10 30 60 120 300", 30, 1, 3600),
    _flag("bf_continue"),
    _flag("bf_busy_nodes"),
    _flag("bf_one_resv_per_job"),
    _flag("defer"),
    _number("default_queue_depth", "50 100 500 1000 5000", 100, 0, 1_000_000),
    _number("partition_job_depth", "0 10 50 100 500", 0, 0, 1_000_000),
    _number("sched_interval", "15 30 60 120", 60, 1, 86_400),
    _number("batch_sched_delay", "0 1 3 10", 3, 0, 3600),
    Tunable(
        "SchedulerType",
        ("sched/backfill", "sched/builtin"),
        "sched/backfill",
        words=("sched/backfill", "sched/builtin"),
        parameter=False,
        computes=True,
    ),
    *map(_weight, ("Age", "Assoc", "Fairshare", "JobSize", "Partition", "QOS")),
    Tunable("PriorityMaxAge", ("1-0", "3-0", "7-0", "14-0", "30-0"), "7-0", parameter=False),
    Tunable("PriorityDecayHalfLife", ("1-0", "3-0", "7-0", "14-0", "30-0"), "7-0", parameter=False),
    Tunable("PriorityCalcPeriod", ("1", "5", "15", "60"), "5", parameter=False),
    Tunable("PriorityFavorSmall", (YES, NO), NO, words=(YES, NO), parameter=False),
)
BY_NAME: Mapping[str, Tunable] = {one.name: one for one in TUNABLES}
_BY_SMALL_NAME = {one.name.lower(): one for one in TUNABLES}


@dataclass(frozen=True)
class Tuned:
    """A setting with the values that a search tries, in their order."""

    tunable: Tunable
    values: tuple[str, ...]

    def same(self, value: str) -> str:
        """The value among `values` that is this one, perhaps in other words, as 7-0 is 168:00:00; the value if none is."""
        return next((one for one in self.values if self.tunable.place(one) == self.tunable.place(value)), value)

    def __str__(self) -> str:
        return f"{self.tunable.name}={','.join(self.values)}"


def _words(text: str) -> list[tuple[Tunable, str, str]]:
    """The settings in a text of the user's, each with the rest of its word: sign and values. Raises ValueError."""
    if len(text) > LONGEST:
        raise ValueError(f"{FORM}; the text is longer than {LONGEST} characters")
    found: list[tuple[Tunable, str, str]] = []
    for word in text.split():
        name, sign, values = word.partition("=")
        tunable = _BY_SMALL_NAME.get(name.lower())
        if tunable is None:
            near = difflib.get_close_matches(name[:60], BY_NAME, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else f"; NAME is one of {', '.join(BY_NAME)}"
            raise ValueError(f"{FORM}; {name[:60]!r} is not a setting that can be tuned{hint}")
        if tunable in [one for one, _, _ in found]:
            raise ValueError(f"{FORM}; {tunable.name} is there twice")
        found.append((tunable, sign, values))
    return found


def _read(tunable: Tunable, text: str) -> str:
    """A value as slurm.conf has it. Raises ValueError with what is allowed instead, which is no time of 0: slurmctld does not start
    with it as a half-life."""
    try:
        value = tunable.read(text)
        if tunable.is_time and not tunable.place(value):
            raise ValueError
        conf.setting("slurm.conf", tunable.name, value)
    except (ValueError, WrongUse):
        raise ValueError(f"{FORM}; {tunable.name} may be {tunable.may_be()}, not {text[:60]!r}") from None
    return value


def parse_settings(text: str) -> dict[str, str]:
    """The settings of SETTINGS by name: each `NAME=VALUE`. Raises ValueError with what is allowed instead."""
    return {tunable.name: _read(tunable, value) for tunable, _, value in _words(text)}


def settings_text(settings: Mapping[str, str]) -> str:
    """SETTINGS with these values by name."""
    return " ".join(f"{name}={value}" for name, value in settings.items())


def parse_tune(text: str) -> tuple[Tuned, ...]:
    """The settings of TUNE with their values. Raises ValueError with what is allowed instead."""
    found = [Tuned(tunable, _values(tunable, sign, values)) for tunable, sign, values in _words(text)]
    if not found:
        raise ValueError(f"{FORM}; NAME is one of {', '.join(BY_NAME)}")
    if len(found) > MOST_SETTINGS:
        raise ValueError(f"{FORM}; {len(found)} settings are more than {MOST_SETTINGS}")
    return tuple(found)


def _values(tunable: Tunable, sign: str, text: str) -> tuple[str, ...]:
    if not sign:
        return tunable.values
    if tunable.bounds is not None and (match := _RANGE.fullmatch(text)) is not None:
        low, high = (int(_read(tunable, end)) for end in match.groups())
        if low >= high:
            raise ValueError(f"{FORM}; {tunable.name}={text}: the first number of a range is the smaller one")
        return tuple(map(str, levels(low, high)))
    given = [_read(tunable, value) for value in text.split(",")]
    if len(given) > MOST_VALUES:
        raise ValueError(f"{FORM}; {tunable.name} has more than {MOST_VALUES} values")
    once = list({tunable.place(value): value for value in reversed(given)}.values())[::-1]
    return tuple(sorted(once, key=tunable.place) if tunable.is_ordered else once)


def levels(low: int, high: int) -> list[int]:
    """Up to LEVELS numbers from `low` to `high`, both included, with two digits in between: in equal steps, or in equal ratios
    where the largest is ten times the smallest or more. From 0 on the ratios begin at a thousandth of the largest."""
    if high - low < LEVELS:
        return list(range(low, high + 1))
    first = low or max(1, high // 1000)
    if high >= 10 * first:
        count = LEVELS if low else LEVELS - 1
        inner = [first * (high / first) ** (k / (count - 1)) for k in range(1 if low else 0, count - 1)]
    else:
        inner = [low + (high - low) * k / (LEVELS - 1) for k in range(1, LEVELS - 1)]
    rounded = {int(round(value, 1 - math.floor(math.log10(value)))) for value in inner}
    return sorted({low, high, *(value for value in rounded if low < value < high)})


def value_in(tunable: Tunable, settings: Mapping[str, object]) -> str:
    """The value of a setting in a configuration: settings of slurm.conf by name. Slurm's default where it is not there, or where it
    is no value of this kind."""
    by_key = {key.lower(): value for key, value in settings.items()}
    if tunable.parameter:
        words = parameters(by_key.get(SCHEDULER_PARAMETERS.lower()))
        given = {name.lower(): value for name, value in words.items()}.get(tunable.name)
    else:
        given = by_key.get(tunable.name.lower())
    if given is None or given == conf.OMIT:
        return tunable.default
    text = (YES if given else NO) if isinstance(given, bool) else str(given)
    try:
        return tunable.read(text)
    except ValueError:
        return tunable.default


def parameters(value: object) -> dict[str, object]:
    """The words of SchedulerParameters by name, in their order; True for a word without a value."""
    if isinstance(value, Mapping):
        return {str(name): one for name, one in value.items()}
    words = (word.strip().partition("=") for word in str(value or "").split(",") if word.strip())
    return {name: number if sign else True for name, sign, number in words}


def merged(settings: Mapping[str, object], wanted: Mapping[str, str]) -> dict[str, object]:
    """What changes in a configuration by SETTINGS: settings of slurm.conf by name, spelt as the configuration spells them.

    settings: of the configuration. wanted: as `parse_settings` returns them
    """
    spelt = {key.lower(): key for key in settings}
    words: dict[str, object] = {name: value for name, value in wanted.items() if BY_NAME[name].parameter}
    changed: dict[str, object] = {spelt.get(name.lower(), name): value for name, value in wanted.items() if name not in words}
    if words:
        key = spelt.get(SCHEDULER_PARAMETERS.lower(), SCHEDULER_PARAMETERS)
        before = parameters(settings.get(key))
        words_before = {name.lower(): name for name in before}
        flags = {words_before.get(name, name): value == YES if BY_NAME[name].is_flag else value for name, value in words.items()}
        changed[key] = {**before, **flags}
    return changed


def as_markdown() -> str:
    """The table of docs/search.md."""
    rows = [
        (
            f"`{one.name}`",
            ", ".join(one.values),
            one.default,
            "" if one.bounds is None else f"{one.bounds[0]} to {one.bounds[1]}",
            "yes" if one.computes else "",
        )
        for one in TUNABLES
    ]
    heads = ("setting", "values of a bare name", "Slurm's default", "may be", "computing")
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
