"""Reads durations as people write them: 90, 45s, 90min, 6h, 1d12h, 2-06:00:00."""

from __future__ import annotations

import re

FORM = "seconds, or such as 90min, 6h, 1d12h or 2-06:00:00"
_UNITS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
_PART = re.compile(rf"({_NUMBER})(s|min|m|h|d|w)", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,6})-)?(\d{1,6}):(\d{1,2})(?::(\d{1,2}))?", re.ASCII)


def seconds(text: str) -> float:
    """The length of a duration in seconds. Raises ValueError.

    D-HH:MM, D-HH:MM:SS and HH:MM:SS are as Slurm has them, but for numbers beyond 23, 59 and 59; HH:MM is hours and minutes, and
    there may be more than 23 hours without days.
    """
    text = text.strip().lower()
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return float(text)
    if clock := _CLOCK.fullmatch(text):
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        if minutes > 59 or rest > 59 or (clock[1] and hours > 23):
            raise ValueError(f"{text!r} is not a duration: hours go up to 23 after days, minutes and seconds up to 59")
        return 86400.0 * days + 3600.0 * hours + 60.0 * minutes + rest
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration; it may be {FORM}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
