"""Parsers of knob values: each takes the text that was given and returns the value, or raises InvalidValue."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from mirage.cluster_events.generated import Failures, Maintenance
from mirage.knobs import machine, submission
from mirage.knobs.machine import Machine
from mirage.knobs.source_archive import Source
from mirage.knobs.submission import SubmissionGroups
from mirage.text import durations
from slurm_mirage.clock.clock_rules import EVENT
from slurm_mirage.rm.managers import DEFAULT
from slurm_mirage.rm.registry import IMPLEMENTATIONS

Value = str | int | Decimal | tuple[Decimal, ...] | Machine | Source | SubmissionGroups | None
Parser = Callable[[str], Value]
Speed = Decimal | str
"""A value of SPEED: a number, EVENT or AUTO."""

CONFIG_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}"
# Per cent. At the largest factor the replay of a year's log takes a century.
MAX_SHRINK = 10_000
# At the largest speed a second of Slurm's time is 10 microseconds, less than the time that any message takes.
MAX_SPEED = 100_000
# Per cent of the baseline's mean. Half of the mean or more is not equivalence.
MAX_MARGIN = 50
# Instances side by side: their names have at most two digits more than CLUSTER.
MAX_AT_ONCE = 64
# Value of SPEED and AT_ONCE: the program chooses the value.
AUTO = "auto"
# Runs of one sweep.
MAX_SWEEP = 1000


class InvalidValue(Exception):
    """The text is not a value of the knob. If the exception has a message, it replaces the row's list of allowed values."""


def number(text: str) -> Decimal:
    """Parse a decimal number without exponent. The result is exact: 0.2 stays 0.2."""
    if not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)", text, re.ASCII):
        raise InvalidValue
    try:
        return Decimal(text)
    except InvalidOperation:
        raise InvalidValue from None


def at_least(lowest: int, *, whole: bool = True, most: int | None = None) -> Parser:
    """Return a parser of numbers from `lowest` to `most`, by default of whole numbers."""

    def parse(text: str) -> int | Decimal:
        if whole and not re.fullmatch(r"\d{1,15}", text, re.ASCII):
            raise InvalidValue
        value = int(text) if whole else number(text)
        if value < lowest or (most is not None and value > most):
            raise InvalidValue
        return value

    return parse


def submission_groups(text: str) -> SubmissionGroups | None:
    """Parse groups in which jobs are submitted; None for an empty text."""
    try:
        return submission.read(text)
    except submission.NotGroups as error:
        raise InvalidValue(str(error)) from None


def optional(parse: Parser) -> Parser:
    """Return a parser that gives None for an empty text, and otherwise the result of `parse`."""
    return lambda text: None if text == "" else parse(text)


def one_of(*words: str) -> Parser:
    """Return a parser that accepts the given words."""

    def parse(text: str) -> str:
        if text not in words:
            raise InvalidValue
        return text

    return parse


def matching(pattern: str) -> Parser:
    """Return a parser that accepts texts that match the whole regular expression."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise InvalidValue
        return text

    return parse


def path_text(text: str) -> str:
    """Accept a path as it is. Null bytes and line breaks are refused."""
    if "\n" in text or "\0" in text:
        raise InvalidValue
    return text


def classes(text: str) -> Machine:
    """Read the file with classes of nodes at the given path."""
    return machine.read(path_text(text))


def archive(read: Callable[[str], Source]) -> Parser:
    """Return a parser that reads the archive at the given path."""
    return lambda text: read(path_text(text))


def shrink(text: str) -> tuple[Decimal, ...]:
    """Parse shrink factors in per cent: one factor, or a sweep FROM:TO:STEP, which includes both ends.

    The thesis's `runworkload FILE 100 50 10` is 100:50:10. The thesis counts five runs; with both ends there are six.
    """
    parts = [number(part) for part in text.split(":")]
    if any(not 0 < part <= MAX_SHRINK for part in parts) or len(parts) not in (1, 3):
        raise InvalidValue
    if len(parts) == 1:
        return (parts[0],)
    first, last, step = parts
    count = abs(last - first) / step
    if count != count.to_integral_value():
        raise InvalidValue(f"a sweep whose steps reach its end: steps of {step} from {first} do not meet {last}")
    if count > MAX_SWEEP:
        raise InvalidValue(f"a sweep of at most {MAX_SWEEP} runs, not {count + 1}")
    sign = 1 if last >= first else -1
    return tuple(first + sign * step * k for k in range(int(count) + 1))


def instant(text: str) -> str:
    """Accept an instant of a log: seconds of the trace, or a date with or without a time of day (ISO 8601, no zone)."""
    if not re.fullmatch(r"\d+(\.\d+)?|\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?)?", text, re.ASCII):
        raise InvalidValue
    return text


def names(text: str) -> str:
    """Accept names or numbers separated by commas, or an empty text."""
    if text and not all(part.strip() for part in text.split(",")):
        raise InvalidValue
    return path_text(text)


def calendars(text: str) -> str:
    """Accept paths of files with events, and NO_EVENTS, separated by blanks. The result separates them by single blanks."""
    return " ".join(path_text(text).split())


def failures(text: str) -> str:
    """Accept the words of FAILURES."""
    return _read_by(Failures.parse, text)


def maintenance(text: str) -> str:
    """Accept the words of MAINTENANCE."""
    return _read_by(Maintenance.parse, text)


def _read_by(parse: Callable[[str], object], text: str) -> str:
    words = " ".join(path_text(text).split())
    try:
        parse(words)
    except ValueError as error:
        raise InvalidValue from error
    return words


def is_config_name(text: str) -> bool:
    """Whether a value of BEFORE or AFTER is the name of a configuration, not the path of a slurm.conf."""
    return re.fullmatch(CONFIG_NAME, text, re.ASCII) is not None


def configs(text: str) -> str:
    """Parse names of scheduler configurations, separated by blanks or commas. The result separates them by single blanks."""
    words = [word for word in re.split(r"[\s,]+", text) if word]
    if len(words) == 1 or not all(re.fullmatch(CONFIG_NAME, word, re.ASCII) for word in words):
        raise InvalidValue
    return " ".join(words)


MANAGERS, SLURM = tuple(IMPLEMENTATIONS), DEFAULT
"""Values of RM: the resource managers."""


def some_of(*allowed: str) -> Parser:
    """Return a parser of the given words, each at most once, separated by blanks or commas. Its result separates them by single
    blanks."""

    def parse(text: str) -> str:
        words = [word for word in re.split(r"[\s,]+", text) if word]
        if not words or len(set(words)) < len(words) or not set(words) <= set(allowed):
            raise InvalidValue
        return " ".join(words)

    return parse


def cut(text: str) -> str:
    """Accept a part of a schedule: seconds, or per cent of its length."""
    if not re.fullmatch(r"\d+(\.\d+)?|\d{1,2}(\.\d+)?%", text, re.ASCII):
        raise InvalidValue
    return text


def margin(text: str) -> Decimal:
    """Parse per cent, with or without the sign, above 0 and at most 50."""
    value = number(text.removesuffix("%"))
    if not 0 < value <= MAX_MARGIN:
        raise InvalidValue
    return value


def limits(text: str) -> str:
    """Accept limits on the changes of metrics. The result separates them by single blanks."""
    from mirage.statistics.limits import parse  # it loads polars, which calls without LIMITS save

    try:
        return " ".join(map(str, parse(path_text(text))))
    except ValueError as error:
        raise InvalidValue(str(error)) from None


def grow(text: str) -> str:
    """Accept nodes that are added to the machine."""
    from mirage.site.growth import canonical  # it loads readers of a site's files, which calls without GROW save

    try:
        return canonical(path_text(text)) if text else ""
    except ValueError as error:
        raise InvalidValue(str(error)) from None


def settings(text: str) -> str:
    """Accept settings of slurm.conf with a value each. The result separates them by single blanks."""
    return _tuning(text, lambda read, given: read.settings_text(read.parse_settings(given)))


def tune(text: str) -> str:
    """Accept settings of slurm.conf with the values to try. The result has all values, and single blanks."""
    return _tuning(text, lambda read, given: " ".join(map(str, read.parse_tune(given))))


def _tuning(text: str, read: Callable[[Any, str], str]) -> str:
    from mirage.tuning import tunables  # most calls do without

    try:
        return read(tunables, path_text(text)) if text.strip() else ""
    except ValueError as error:
        raise InvalidValue(str(error)) from None


def goal(text: str) -> str:
    """Accept the name of a metric of which more or less is better."""
    from mirage.metrics.registry import METRICS  # as for `limits`

    known = [name for name, metric in METRICS.items() if metric.better != "neither"]
    if text not in known:
        raise InvalidValue(f"one of {', '.join(known)}")
    return text


def real_time(text: str) -> int:
    """Parse a duration in real time, at least a second. The result is in whole seconds."""
    try:
        length = round(durations.seconds(text))
    except ValueError:
        raise InvalidValue from None
    if length < 1:
        raise InvalidValue
    return length


def share(text: str) -> Decimal:
    """Parse a share of a whole: from 0 to 1, or per cent, with the sign or above 1. The result is from 0 to 1."""
    value = number(text.removesuffix("%"))
    if not 0 <= value <= 100:
        raise InvalidValue
    return value / 100 if text.endswith("%") or value > 1 else value


def speed(text: str) -> Speed:
    """Parse the factor of the virtual clock, or EVENT or AUTO. A factor has at most nine decimals, as in the clock's file."""
    if text in (EVENT, AUTO):
        return text
    factor = number(text)
    if not 0 < factor <= MAX_SPEED or factor != round(factor, 9):
        raise InvalidValue
    return factor


def at_once(text: str) -> Value:
    """Parse a number of instances from 1 to MAX_AT_ONCE, or `auto`."""
    return text if text == AUTO else at_least(1, most=MAX_AT_ONCE)(text)


def format_number(value: Decimal) -> str:
    """Format a decimal number without trailing zeros and without exponent: 100, 0.2."""
    return f"{value.normalize():f}"
