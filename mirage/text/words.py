"""Formats numbers, shares and durations as text for people."""

from __future__ import annotations

import math

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def number(value: float | None) -> str:
    """A number with thousands separators, two or three digits if it is not whole (1,234,567; 12.3; 0.45); - for None."""
    if value is None:
        return "-"
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def counted(amount: float | None, noun: str) -> str:
    """A number with a noun in the singular or plural: 1 job, 2,000 jobs."""
    return f"{number(amount)} {noun if amount == 1 else noun + 's'}"


def two_digits(value: float, *, down: bool = False) -> str:
    """A number with two significant digits, without an exponent. down: not the nearest, but the one below; for numbers above 0."""
    rounded = float(f"{value:.2g}")
    if down:
        unit = 10.0 ** (math.floor(math.log10(value)) - 1)
        rounded = round(math.floor(value / unit + 1e-9) * unit, 9)
    return _plain(rounded)


def three_digits(value: float) -> str:
    """A number with three significant digits, without an exponent."""
    return _plain(float(f"{value:.3g}"))


def _plain(value: float) -> str:
    return f"{value:.12f}".rstrip("0").rstrip(".")


def percent(share: float | None) -> str:
    """A share from 0 to 1 as per cent (12.3 %); < 0.1 % for a share above 0 that would be rounded to 0.0 %; - for None."""
    if share is None:
        return "-"
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %"


def duration(seconds: float | None) -> str:
    """Seconds as rounded text with at most two units: 40 s, 6 min, 2 h 10 min, 3 d 4 h, 340 d; - for None."""
    if seconds is None:
        return "-"
    if seconds < _MINUTE:
        return f"{seconds:.3g} s"
    if seconds < 1.5 * _MINUTE and seconds != _MINUTE:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / _MINUTE), 60)
    if hours < 24:
        return _joined((hours, "h"), (minutes, "min"))
    days, hours = divmod(round(seconds / _HOUR), 24)
    return _joined((days, "d"), (hours, "h")) if days < 30 else f"{seconds / _DAY:,.0f} d"


def about(seconds: float) -> str:
    """A duration rounded for reading: 40 s, 6 min, 2 h 10 min, 3 d 4 h."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def _joined(*parts: tuple[int, str]) -> str:
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def value(amount: float | None, unit: str) -> str:
    """A value formatted by its unit: "s" as a duration, "share" as per cent, "" as a number."""
    return {"s": duration, "share": percent, "": number}[unit](amount)
