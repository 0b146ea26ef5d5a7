"""How long a run takes in real time, as a range, and in words.

On the event clock the host works for each job (submission, launch, end), for slurmctld's timers, which pass with the cluster's
time, and for backfill cycles, which look at each waiting job and all processors. On a constant clock a run takes the cluster's time
divided by SPEED. Both take the time of the command around the replay: the cluster, the collection, the metrics and the page.

The constants are of runs on 2 processors at rest, with 40 to 2,000 jobs on 60 to 16,384 nodes (docs/event-clock-measurements.md).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

from mirage.experiment.expected_queue import Queue
from mirage.experiment.standing import Work
from mirage.knobs.parse import Speed
from mirage.records.run_clock import EVENT
from mirage.text.words import about
from slurm_mirage.replay.real_left import JOB, timers

EXAMINED_PROCESSOR = 2e-6
"""Real seconds for each waiting job that a backfill cycle looks at and each processor of the machine."""
STANDING, CONFIGURE, BUILD, BUILD_NODE = 10.0, 15.0, 30.0, 0.015
"""Real seconds of the command around the replay: on a cluster that stands, what another configuration adds, where one has to be
built, and that for each node."""
PROC_STAT = Path("/proc/stat")
LOOKS, LOOK = 10, 0.03
"""How often the number of threads that want a processor is read, and real seconds before each time."""
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
    """Between the estimate of the replay and both ends of its range."""

    def range(self) -> tuple[float, float]:
        """Least and most real seconds of the whole command on the host as it is now. The most is at most four times the least."""
        busy = busy_share()
        replay = self.replay * (1 + busy / 2 if self.factor == RANGE else 1)
        around = self.around * (1 + busy)
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
def busy_share() -> float:
    """Programs that want a processor, for each processor of this host; looked at once. Above 1 they wait for each other.

    The load average still counts the run before, which ended a moment ago.
    """
    numbers = []
    for _ in range(LOOKS):
        time.sleep(LOOK)
        numbers.append(_running())
    return max(0.0, sum(numbers) / LOOKS) / (os.cpu_count() or 1)


def _running() -> int:
    """Threads that run or wait for a processor, without the one that looks; 0 where the kernel does not say."""
    try:
        words = PROC_STAT.read_text().split("procs_running ", 1)[1].split(None, 1)
    except (OSError, IndexError):
        return 0
    return int(words[0]) - 1


def length_of(speed: Speed, queue: Queue, begin: float, jobs: int, nodes: int, processors: int, left: Work) -> Length | None:
    """The length of a run; None while SPEED is `auto`.

    queue: as simulated, with `begin`, the first submission, in virtual seconds. left: what has to be done to the cluster before.
    """
    around = {Work.NONE: STANDING, Work.CONFIGURE: STANDING + CONFIGURE, Work.BUILD: BUILD + BUILD_NODE * nodes}[left]
    virtual = queue.end - begin
    if speed == EVENT:
        return Length(JOB * jobs + timers(nodes) * virtual + EXAMINED_PROCESSOR * processors * queue.examined, around)
    return Length(virtual / float(speed), around, CONSTANT_RANGE) if isinstance(speed, Decimal) else None


def in_words(speed: Speed, virtual: float, length: Length | None) -> str:
    """The length of a run: `about 9 min` in real time, else `9 h of the cluster's time: 3.0 to 11 min`. virtual: virtual seconds"""
    if length is None:
        return f"{about(virtual)} of the cluster's time, at a speed to be picked"
    clock = f" at SPEED={float(speed):g}" if isinstance(speed, Decimal) else ""
    return f"{about(virtual)} of the cluster's time: {length.in_words()}{clock}"
