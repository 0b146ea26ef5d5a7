"""Fractions of seconds for a run on the event clock, where time stands while the host works.

Logs have whole seconds. In real time submissions and ends of jobs fall on any fraction of a second, and by them it is decided which
of two events within a second comes first, and how long a free processor waits for slurmctld's next look at the queue. On the event
clock all of them would have one phase to slurmctld's timers. So SEED draws a fraction for each.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

DIGITS = 3
"""Fractions are in whole milliseconds."""
SHORTEST = 0.001
"""Seconds: no run time becomes shorter."""


def _draw(name: str, seed: int, replica: int, count: int) -> list[float]:
    """Fractions from 0 to 1, the same for the same arguments; those of more jobs begin with those of fewer."""
    generator = np.random.default_rng([seed, replica, zlib.crc32(name.encode())])
    return [float(fraction) for fraction in np.round(generator.random(count), DIGITS)]


def submissions(
    dues: Sequence[float], presets: int, seed: int, replica: int, arrays: Sequence[int | None] | None = None
) -> list[float]:
    """Instants of submissions with a fraction of a second added to each, in ascending order as before.

    dues: instants in seconds, ascending; the first `presets` of them stay as they are
    arrays: the array of each job, None for none: its tasks that follow each other at one instant still have one instant
    """
    drawn = _draw("submission", seed, replica, len(dues))
    firsts: list[float] = []
    places: list[int] = []
    for place in range(presets, len(dues)):
        is_next = bool(
            arrays is not None
            and place > presets
            and arrays[place] is not None
            and (arrays[place], dues[place]) == (arrays[place - 1], dues[place - 1])
        )
        if not is_next:
            firsts.append(round(dues[place] + drawn[place - presets], DIGITS))
        places.append(len(firsts) - 1)
    firsts.sort()
    return [*dues[:presets], *(firsts[place] for place in places)]


def run_times(seconds: Sequence[float], seed: int, replica: int) -> list[float]:
    """Run times that differ by up to half a second from those given, in the mean by nothing."""
    drawn = _draw("run time", seed, replica, len(seconds))
    return [max(SHORTEST, round(time + part - 0.5, DIGITS)) for time, part in zip(seconds, drawn, strict=True)]
