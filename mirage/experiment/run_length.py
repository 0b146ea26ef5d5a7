"""How long a run takes in real time, as a range, and in words.

On the event clock a replay takes what its jobs, its virtual seconds and the tests of the scheduler's cycles cost (replay_costs.py).
On a constant clock it takes the cluster's time divided by SPEED. Both take the time of the command around the replay: the cluster,
the collection, the metrics and the page. What earlier runs took on this host corrects the estimate, and makes its range narrower
(host_pace.py).

Beside programs that compute, a program that computes takes `slowness` times longer. So does most of the replay on the event clock,
but not slurmctld's computing, as its priority is higher; the command around the replay takes still longer.

The constants are of runs on 2 processors at rest, with 40 to 2,000 jobs on 20 to 16,384 nodes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

from mirage.experiment.host_pace import AROUND_BUSY, FIRST_RANGE
from mirage.experiment.standing import Work
from mirage.knobs.parse import Speed
from mirage.text.words import about

STANDING, CONFIGURE, BUILD, NODE_STARTED = 8.0, 14.0, 32.0, 0.016
"""Real seconds of the command around the replay: on a cluster that is up to date; in addition with another configuration; where a
cluster has to be built; and in addition for each node in the last two cases."""
NODE_REGISTERED = 0.008
"""Real seconds for each node on the event clock: before a run it registers with slurmctld, which is started again
(replay/phase.py), and after it its log is searched."""
COMPUTED = 0.8
"""Real seconds for which this program computes to measure which share of a processor it gets."""
CONSTANT_RANGE = 1.25
"""Factor between the estimate of a replay at a constant speed and both ends of its range: only its queue is unknown."""
UNITS = ((1, "s"), (60, "min"), (3600, "h"), (86_400, "d"))
LARGEST = 200
"""Number up to which a range is given in a unit."""


@dataclass(frozen=True)
class Length:
    """Real seconds that a run takes at rest: of the replay, in a part that takes as long on a busy host, and the rest, and of the
    command around it."""

    steady: float
    rest: float
    around: float
    factor: float = FIRST_RANGE
    """Factor between the estimate of the replay and both ends of its range."""
    around_factor: float = FIRST_RANGE

    @property
    def replay(self) -> float:
        """Seconds of the replay."""
        return self.steady + self.rest

    def range(self) -> tuple[float, float]:
        """Least and most real seconds of the whole command on the host as it is now. The most is at most three times the least."""
        replay, around = self.steady + self.rest * slowness(), self.around * slowness() ** AROUND_BUSY
        return replay / self.factor + around / self.around_factor, replay * self.factor + around * self.around_factor

    def times(self, runs: float) -> Length:
        """The length of so many runs, one after another: the cluster is built for the first one."""
        return replace(self, steady=self.steady * runs, rest=self.rest * runs, around=self.around + STANDING * (runs - 1))

    def in_words(self) -> str:
        """`1.1 to 3.2 min`: rounded to two digits inwards, so that rounding makes the range no wider."""
        least, most = self.range()
        unit, name = next(((size, name) for size, name in UNITS if most < LARGEST * size), UNITS[-1])
        return f"{_two_digits(least / unit, math.ceil)} to {_two_digits(most / unit, math.floor)} {name}"


def _two_digits(number: float, to_whole: Callable[[float], int]) -> str:
    """A number with two significant digits."""
    digits = 1 - math.floor(math.log10(number))
    return f"{to_whole(round(number * 10.0**digits, 9)) / 10.0**digits:.{max(0, digits)}f}"


def total(lengths: Sequence[Length], at_once: int) -> Length:
    """The length of several runs of one clock, so many side by side."""
    steady, rest, around = (
        sum(values) / at_once for values in zip(*((one.steady, one.rest, one.around) for one in lengths), strict=True)
    )
    return Length(steady, rest, around, max(one.factor for one in lengths), max(one.around_factor for one in lengths))


@cache
def slowness() -> float:
    """`measured_slowness`, once."""
    return measured_slowness()


def measured_slowness() -> float:
    """How many times longer a computation takes because of other programs on this host: 1 at rest.

    An idle cluster, and programs of low priority, use a processor only for short times, so the number of runnable threads would not
    show it. Other threads of this program, of which Python runs one at a time, do not count.
    """
    began, before = time.monotonic(), time.process_time()
    while (passed := time.monotonic() - began) < COMPUTED:
        pass
    return max(1.0, passed / max(time.process_time() - before, 1e-3))


def around_of(nodes: int, left: Work, *, is_event: bool) -> float:
    """Real seconds of the command around a replay. left: what has to be done to the cluster before."""
    around = {Work.NONE: STANDING, Work.CONFIGURE: STANDING + CONFIGURE, Work.BUILD: BUILD}[left]
    return around + (0.0 if left is Work.NONE else NODE_STARTED * nodes) + (NODE_REGISTERED * nodes if is_event else 0.0)


def in_words(speed: Speed, virtual: float, length: Length | None) -> str:
    """The length of a run: `about 9 min` in real time, else `9 h of the cluster's time: 3.0 to 11 min`. virtual: virtual seconds"""
    if length is None:
        return f"{about(virtual)} of the cluster's time, at a speed to be picked"
    clock = f" at SPEED={float(speed):g}" if isinstance(speed, Decimal) else ""
    return f"{about(virtual)} of the cluster's time: {length.in_words()}{clock}"
