"""How long a run takes in real time, as a range, and in words.

On the event clock the host works for each job (submission, launch, end), for slurmctld's timers, which pass with the cluster's
time, and for backfill cycles, which look at each waiting job and all processors. On a constant clock a run takes the cluster's time
divided by SPEED. Both take the time of the command around the replay: the cluster, the collection, the metrics and the page.

Beside programs that compute, a program that computes takes `slowness` times longer, as the command around the replay does. The
daemons sleep and wake up in turns, and get a processor sooner: a replay takes about the square root of that longer.

The constants are of runs on 2 processors at rest, with 40 to 2,000 jobs on 60 to 16,384 nodes (docs/accuracy.md).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from mirage.experiment.expected_queue import Queue
from mirage.experiment.standing import Work
from mirage.knobs.parse import Speed
from mirage.records.run_clock import EVENT
from mirage.text.words import about
from slurm_mirage.replay.real_left import TIMERS, of_a_job

EXAMINED_PROCESSOR, BUILTIN_PROCESSOR = 2e-6, 2.7e-7
"""Real seconds for each waiting job that a backfill cycle, or one of sched/builtin, looks at and each processor of the machine."""
STANDING, CONFIGURE, BUILD, NODE_STARTED = 7.0, 14.0, 27.0, 0.016
"""Real seconds of the command around the replay: on a cluster that is up to date; in addition with another configuration; where a
cluster has to be built; and in addition for each node in the last two cases."""
NODE_REGISTERED = 0.008
"""Real seconds for each node on the event clock: before a run it registers with slurmctld, which is started again
(replay/phase.py), and after it its log is searched."""
COMPUTED = 0.2
"""Real seconds for which this program computes to measure which share of a processor it gets."""
RANGE = 2.0
"""Factor between the estimate and both ends of the range."""
CONSTANT_RANGE = 1.25
"""Factor between the estimate of a replay at a constant speed and both ends of its range: only its queue is unknown."""
UNITS = ((1, "s"), (60, "min"), (3600, "h"), (86_400, "d"))
LARGEST = 200
"""Number up to which a range is given in a unit."""


@dataclass(frozen=True)
class Length:
    """Real seconds that a run takes at rest: of the replay, and of the command around it."""

    replay: float
    around: float
    factor: float = RANGE
    """Factor between the estimate of the replay and both ends of its range."""

    def range(self) -> tuple[float, float]:
        """Least and most real seconds of the whole command on the host as it is now. The most is at most four times the least."""
        slow = slowness()
        replay = self.replay * (math.sqrt(slow) if self.factor == RANGE else 1)
        around = self.around * slow
        return replay / self.factor + around / RANGE, replay * self.factor + around * RANGE

    def times(self, runs: float) -> Length:
        """The length of so many runs, one after another: the cluster is built for the first one."""
        return Length(self.replay * runs, self.around + STANDING * (runs - 1), self.factor)

    def in_words(self) -> str:
        """`1.1 to 4.2 min`: rounded to two digits inwards, so that rounding makes the range no wider."""
        least, most = self.range()
        unit, name = next(((size, name) for size, name in UNITS if most < LARGEST * size), UNITS[-1])
        return f"{_two_digits(least / unit, math.ceil)} to {_two_digits(most / unit, math.floor)} {name}"


def _two_digits(number: float, to_whole: Callable[[float], int]) -> str:
    """A number with two significant digits."""
    digits = 1 - math.floor(math.log10(number))
    return f"{to_whole(round(number * 10.0**digits, 9)) / 10.0**digits:.{max(0, digits)}f}"


def total(lengths: Sequence[Length], at_once: int) -> Length:
    """The length of several runs of one clock, so many side by side."""
    replay, around = (sum(values) / at_once for values in zip(*((one.replay, one.around) for one in lengths), strict=True))
    return Length(replay, around, lengths[0].factor)


@cache
def slowness() -> float:
    """How many times longer a computation takes because of other programs on this host: 1 at rest. It is measured once.

    An idle cluster, and programs of low priority, use a processor only for short times, so the number of runnable threads would not
    show it. Other threads of this program, of which Python runs one at a time, do not count.
    """
    began, before = time.monotonic(), time.process_time()
    while (passed := time.monotonic() - began) < COMPUTED:
        pass
    return max(1.0, passed / max(time.process_time() - before, 1e-3))


def length_of(speed: Speed, queue: Queue, begin: float, jobs: int, nodes: int, processors: int, left: Work) -> Length | None:
    """The length of a run; None while SPEED is `auto`.

    queue: as simulated, with `begin`, the first submission, in virtual seconds. left: what has to be done to the cluster before.
    """
    around = {Work.NONE: STANDING, Work.CONFIGURE: STANDING + CONFIGURE, Work.BUILD: BUILD}[left]
    around += 0.0 if left is Work.NONE else NODE_STARTED * nodes
    virtual = queue.end - begin
    if speed == EVENT:
        around += NODE_REGISTERED * nodes
        examined = (EXAMINED_PROCESSOR if queue.backfills else BUILTIN_PROCESSOR) * processors * queue.examined
        return Length(of_a_job(nodes) * jobs + TIMERS * virtual + examined, around)
    return Length(virtual / float(speed), around, CONSTANT_RANGE) if isinstance(speed, Decimal) else None


def in_words(speed: Speed, virtual: float, length: Length | None) -> str:
    """The length of a run: `about 9 min` in real time, else `9 h of the cluster's time: 3.0 to 11 min`. virtual: virtual seconds"""
    if length is None:
        return f"{about(virtual)} of the cluster's time, at a speed to be picked"
    clock = f" at SPEED={float(speed):g}" if isinstance(speed, Decimal) else ""
    return f"{about(virtual)} of the cluster's time: {length.in_words()}{clock}"
