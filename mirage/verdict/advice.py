"""Words that the reasons of a verdict have in common: counts, rounded numbers, and which knob would help."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mirage.records.record import RunRecord
from mirage.text.words import two_digits

_LOWER_SPEED = re.compile(r"(?:: |, or )(?:take (SPEED=event), or )?lower SPEED(?: to ([0-9.]+) or less)?(, or raise SHRINK)?")


def counted(count: int, noun: str) -> str:
    """The number with its noun, in the plural unless it is 1."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def remedy(record: RunRecord, too_large: float = 0.0) -> str:
    """Advice on how to reduce the emulation's share of the times by the factor `too_large` (0: unknown).

    The event clock has no speed to lower, and its error differs between runs. At a constant speed the
    event clock is named first, where the cluster may have it.
    """
    clock = record.time.clock
    if record.event_clock.is_used:
        return "repeat the run" if clock.shrink >= 100 else "repeat the run, or raise SHRINK"
    if clock.speed <= 1:
        return "raise SHRINK"
    event = "take SPEED=event, or " if record.event_clock.is_possible else ""
    slower = (
        f"lower SPEED to {two_digits(clock.speed / too_large, down=True)} or less"
        if 0 < too_large <= clock.speed
        else "lower SPEED"
    )
    return f"{event}{slower}" if clock.shrink >= 100 else f"{event}{slower}, or raise SHRINK"


def with_one_speed(reasons: Sequence[str]) -> list[str]:
    """The reasons; if several of them advise to lower SPEED (`remedy`), the smallest speed is named once, in a last line."""
    advised = [match for match in map(_LOWER_SPEED.search, reasons) if match]
    speeds = [match[2] for match in advised if match[2]]
    if len(advised) < 2 or not speeds:
        return list(reasons)
    event = "take SPEED=event, or " if any(match[1] for match in advised) else ""
    shrink = max(match[3] or "" for match in advised)
    last = f"{event}lower SPEED to {min(speeds, key=float)} or less{shrink}"
    return [*(_LOWER_SPEED.sub("", reason) for reason in reasons), last]
