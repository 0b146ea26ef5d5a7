"""When and to what size a job changes: the three modes of DMR (Iserte et al., Parallel Computing 78, 2018, section 4).

1. *Request an action*: the minimum is above the present size, or the maximum below it. The job grows to the smallest size that is
   large enough, if there are idle nodes for it, or shrinks to the largest that is small enough.
2. *Preferred number of nodes*: if no job waits, the job may grow up to its maximum, also from its preferred size. Otherwise it goes
   towards its preferred size, and stays there.
3. *Wide optimisation*: the job shrinks if that lets a waiting job start, by as little as that needs, and that job is to be the next
one. It grows as far as it can if no job waits, or no waiting job can start.

Where the paper leaves a choice: the waiting jobs are considered before the preferred size, because section 7.5 has a job that
grows beyond that, and the utilisation of table 4 is not reached otherwise. A shrink is considered before an expansion, because both
conditions can hold at once; an expansion takes the largest size for which there are idle nodes. A waiting job that can start on
idle nodes needs no shrink; its nodes are no longer idle for others. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .protocol import Check

NONE, EXPAND, SHRINK = "none", "expand", "shrink"


@dataclass(frozen=True)
class Waiting:
    """A job that waits for nodes."""

    job: int
    nodes: int


@dataclass(frozen=True)
class Situation:
    """What a decision about a job depends on."""

    idle: int
    """Idle nodes that are not reserved for a job."""
    waiting: Sequence[Waiting] = ()
    """The first of the queue first."""
    most_growth: int | None = None
    """Of the idle nodes, those by which the job can grow; None: all."""

    @property
    def growable(self) -> int:
        """Nodes by which the job can grow."""
        return self.idle if self.most_growth is None else min(self.idle, self.most_growth)


@dataclass(frozen=True)
class Decision:
    """What to do with a job: `kind` is NONE, EXPAND or SHRINK, `to` its size then."""

    kind: str
    to: int
    beneficiary: int | None = None
    """The waiting job for which a job shrinks."""
    reason: str = ""
    """Why a job that asked for another size keeps its own."""


def sizes(present: int, minimum: int, maximum: int, factor: int) -> list[int]:
    """The sizes from `minimum` to `maximum` that a job of `present` nodes reaches by powers of `factor`, ascending."""
    reached, size = {present}, present
    while size % factor == 0:
        size //= factor
        reached.add(size)
    size = present
    while size * factor <= maximum:
        size *= factor
        reached.add(size)
    return sorted(size for size in reached if minimum <= size <= maximum)


def decide(check: Check, situation: Situation) -> Decision:
    """What to do with the job of `check`."""
    reachable = sizes(check.present, check.minimum, check.maximum, check.factor)
    larger = [size for size in reachable if size > check.present]
    smaller = [size for size in reachable if size < check.present]
    if check.minimum > check.present or check.maximum < check.present:
        return _requested(check, larger, smaller, situation)
    if check.preferred:
        return _towards_preferred(check, larger, smaller, situation)
    return _wide_optimisation(check, larger, smaller, situation)


def _requested(check: Check, larger: Sequence[int], smaller: Sequence[int], situation: Situation) -> Decision:
    if check.maximum < check.present:
        return Decision(SHRINK, smaller[-1]) if smaller else _stay(check, "no size within the range is reached by the factor")
    if not larger:
        return _stay(check, "no size within the range is reached by the factor")
    if larger[0] - check.present > situation.growable:
        return _stay(check, f"{situation.growable} idle nodes are too few for {larger[0]} nodes")
    return Decision(EXPAND, larger[0])


def _towards_preferred(check: Check, larger: Sequence[int], smaller: Sequence[int], situation: Situation) -> Decision:
    if not situation.waiting:
        return _grow(check, larger, situation.growable)
    if check.present < check.preferred:
        return _grow(check, [size for size in larger if size <= check.preferred], situation.growable)
    lower = [size for size in smaller if size >= check.preferred]
    return Decision(SHRINK, lower[0]) if lower else _stay(check)


def _wide_optimisation(check: Check, larger: Sequence[int], smaller: Sequence[int], situation: Situation) -> Decision:
    idle, still_waiting = start_waiting(situation)
    for size in reversed(smaller):
        freed = idle + check.present - size
        first = next((job for job in still_waiting if job.nodes <= freed), None)
        if first is not None:
            return Decision(SHRINK, size, beneficiary=first.job)
    if len(still_waiting) < len(situation.waiting):
        return _stay(check)
    return _grow(check, larger, situation.growable)


def start_waiting(situation: Situation) -> tuple[int, list[Waiting]]:
    """Return the nodes that stay idle if all waiting jobs that fit start, in their order, and the jobs that still wait."""
    idle, left = situation.idle, []
    for job in situation.waiting:
        if job.nodes <= idle:
            idle -= job.nodes
        else:
            left.append(job)
    return idle, left


def _grow(check: Check, larger: Sequence[int], growable: int) -> Decision:
    possible = [size for size in larger if size - check.present <= growable]
    return Decision(EXPAND, possible[-1]) if possible else _stay(check)


def _stay(check: Check, reason: str = "") -> Decision:
    return Decision(NONE, check.present, reason=reason)
