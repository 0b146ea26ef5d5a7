"""Words that the reasons of a verdict have in common: counts, rounded numbers, and which knob would help."""

from __future__ import annotations

import math

from mirage.records.collect import Collected


def counted(count: int, noun: str) -> str:
    """The number with its noun, in the plural unless it is 1."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def two_digits(value: float) -> str:
    """A number rounded down to two significant digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{round(math.floor(value / unit + 1e-9) * unit, 9):.12g}"


def remedy(collected: Collected, too_large: float = 0.0) -> str:
    """Advice on how to reduce the emulation's share of the times by the factor `too_large` (0: unknown)."""
    clock = collected.time.clock
    if clock.speed <= 1:
        return "raise SHRINK"
    slower = f"lower SPEED to {two_digits(clock.speed / too_large)} or less" if 0 < too_large <= clock.speed else "lower SPEED"
    return slower if clock.shrink >= 100 else f"{slower}, or raise SHRINK"
