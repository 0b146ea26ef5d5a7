"""What a replay on the event clock costs in real time, and the real time that is left of it.

The host works for jobs, for the timers of slurmctld, which pass with the cluster's time, and for the tests of the scheduler's
cycles (`expected_queue.Cycles`): `Costs` has the real seconds of each. While a replay goes on, what is left costs as much more
than that as the last RECENT seconds have cost. So neither a quiet night nor a burst of jobs nor a long queue, all of which change
the pace of the clock, misleads the estimate. PRIOR seconds that cost what they should count as seen before the replay begins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..base.errors import WrongUse
from ..base.strict_json import COUNT, IfThere, Number, Object
from .expected_queue import LARGEST, Cycles

PRIOR, RECENT = 0.3, 300.0
"""Real seconds."""
FIRST_RANGE, LAST_RANGE = math.sqrt(3.0), 1.5
"""Factor between the estimate and both ends of its range, at the beginning and at the end of the replay."""
_COST = Number(0, 1e9)
_POSITIVE = Number(1e-9, LARGEST)
_SHAPE = Object(
    {
        **dict.fromkeys(("job", "second", "tested"), IfThere(_COST)),
        "depth": IfThere(COUNT),
        **dict.fromkeys(("doubled", "until"), IfThere(_POSITIVE)),
    }
)


@dataclass(frozen=True)
class Costs:
    """Real seconds: for each job (half of them for its submission, half for its end), for each virtual second,
    and for each test of a cycle of the scheduler in one of them. depth, doubled, until: as in `Cycles`."""

    job: float = 0.045
    second: float = 9e-5
    tested: float = 0.0
    depth: int = 500
    doubled: float = LARGEST
    until: float = LARGEST

    @property
    def cycles(self) -> Cycles:
        """The scheduler's looks at the queue."""
        return Cycles(self.depth, self.doubled, self.until)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Costs:
        """The costs in run.json. Raises WrongUse."""
        if fault := _SHAPE.fault(given, "costs"):
            raise WrongUse(f"run.json: {fault}")
        return cls(**{name: given[name] for name in asdict(cls()) if name in given})

    def real(self, jobs: float, seconds: float, tested: float) -> float:
        """Real seconds. jobs: their number; seconds: virtual ones; tested: the integral of the tests over them."""
        return self.job * jobs + self.second * seconds + self.tested * tested


class RealLeft:
    """Estimates the real time that is left, from one look at the replay to the next."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._before: tuple[float, float, float] | None = None
        self._tests = 0.0
        self._real = self._cost = self._passed = 0.0

    def look(
        self, real: float, virtual: float, played: float, tests: float, left: tuple[float, float, float]
    ) -> tuple[float, float]:
        """Least and most real seconds that are left.

        real, virtual: seconds since the replay's beginning. played: jobs, those that were submitted and have not ended count half.
        tests: those of a cycle now. left: jobs, virtual seconds, and the integral of tests, as expected
        """
        if self._before is not None:
            of_real, of_virtual, of_played = (max(0.0, now - then) for now, then in zip((real, virtual, played), self._before))
            with_cycles = min(of_virtual, 2 * of_played * self._costs.until)  # a job changes the queue twice
            cost = self._costs.real(of_played, of_virtual, (self._tests + tests) / 2 * with_cycles)
            kept = math.exp(-of_real / RECENT)
            self._real, self._cost = self._real * kept + of_real, self._cost * kept + cost
            self._passed += cost
        self._before, self._tests = (real, virtual, played), tests
        to_come = self._costs.real(*left)
        slowness = (self._real + PRIOR) / (self._cost + PRIOR)
        share = self._passed / (self._passed + to_come) if self._passed else 0.0
        factor = FIRST_RANGE + (LAST_RANGE - FIRST_RANGE) * share
        return slowness * to_come / factor, slowness * to_come * factor


def real_left(progress: Mapping[str, Any]) -> tuple[float, float] | None:
    """Least and most real seconds until the end of the replay with this progress.json; None if it is not known.

    On a clock with a constant speed, which has no `pace`, they are those of the progress.
    """
    kind = "real" if progress.get("pace") else "time"
    least, most = progress.get(f"{kind}_left_least"), progress.get(f"{kind}_left_most")
    return None if least is None or most is None else (float(least), float(most))
