"""Compares settings as slurm.conf(5) has them with those that `scontrol show config` shows."""

from __future__ import annotations

import re
from collections.abc import Mapping


def not_in_force(settings: Mapping[str, str], shown: str) -> list[str]:
    """The taken-over settings that `scontrol show config` (its text) does not show with the same value, a line each.

    Values are compared as Slurm reads them: without regard to case, times in any of its forms, UNLIMITED as INFINITE, the number of
    what it prints with a unit (`30 sec`). Of a list (joined by commas) all parts have to be there, in any order; there may be more,
    as the speed of the clock or Slurm itself adds some.
    """
    in_force = {key.lower(): value.strip() for key, value in re.findall(r"^(\w+)\s*=(.*)$", shown, re.MULTILINE)}
    lines = []
    for key, value in settings.items():
        if key.lower() in in_force and not _same(key.lower(), value, in_force[key.lower()]):
            lines.append(f"{key}={value}: in force is {in_force[key.lower()]}")
    return lines


_SAME = {"yes": "1", "true": "1", "on": "1", "no": "0", "false": "0", "infinite": "unlimited", "-1": "unlimited", "(null)": ""}
_SAME_OF = {
    ("enforcepartlimits", "1"): "any",  # Slurm's words for YES
    ("preemptmode", "0"): "off",
    ("selecttype", "select/cons_res"): "select/cons_tres",  # since 23.11
}
_IN_MINUTES = ("overtimelimit", "prioritycalcperiod", "prioritydecayhalflife", "prioritymaxage", "resvoverrun")


def _same(key: str, written: str, shown: str) -> bool:
    written, shown = written.strip().strip('"').lower(), shown.strip().lower()
    if written == shown:
        return True
    if key == "priorityflags" and "no_normal_all" in shown:
        # Slurm prints this for each of its flags (priority_flags_string tests them together).
        written = re.sub(r"no_normal_\w+", "no_normal_all", written)
    parts, shown_parts = ({_plain(key, part.strip()) for part in text.split(",") if part.strip()} for text in (written, shown))
    return parts <= (shown_parts or {""})


def _plain(key: str, part: str) -> str:
    """A part of a value in one of the forms that Slurm treats as equal."""
    name, sign, value = part.rpartition("=")
    value = re.sub(r"(?<=\d) (sec|min|days?|hours?|usec)\Z", "", value)
    value = _SAME.get(value, value)
    value = _SAME_OF.get((key, value), value)
    seconds = _seconds(value, key in _IN_MINUTES)
    if seconds is not None:
        value = f"{seconds:g}"
    return f"{name}{sign}{value}"


def _seconds(value: str, minutes: bool) -> float | None:
    """A number, or a time in a form of slurm.conf(5) in seconds; a bare number is one of minutes where the setting says so."""
    if re.fullmatch(r"\d*\.?\d+|\d+\.", value):
        return float(value) * (60 if minutes else 1)
    match = re.fullmatch(r"(?:(?P<days>\d+)-)?(?P<clock>\d+(?::\d+){0,2})", value)
    if match is None:
        return None
    clock = [int(number) for number in match["clock"].split(":")]
    if match["days"] is not None:
        clock += [0] * (3 - len(clock))  # days-hours, days-hours:minutes, days-hours:minutes:seconds
    else:
        clock = [0] * (3 - len(clock)) + clock  # minutes:seconds, hours:minutes:seconds
    return int(match["days"] or 0) * 86400.0 + clock[0] * 3600 + clock[1] * 60 + clock[2]
