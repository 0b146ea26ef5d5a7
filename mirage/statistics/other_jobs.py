"""What the jobs of a schedule tell of other jobs like them: how many cycles of the queue are independent, and over which of the
jobs an interval is computed.

An interval needs CYCLES independent cycles. They are counted in the first third of the jobs, and the interval is computed from the
others: a count over all of them would be high just where the queue happened to be short, and intervals that are only printed there
would not hold. docs/comparison-method.md has the method, docs/accuracy.md how often its intervals hold.

Jobs are in order of submission.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mirage.statistics.intervals import Floats, ratios
from mirage.text.words import counted

BLOCKS = 10
"""Blocks of successive jobs, after the first third, whose sums are treated as independent."""
CYCLES = 40.0
"""Independent cycles in the first third from which on there is an interval."""
ONLY_THESE = "these jobs only"


def first_third(jobs: int) -> slice:
    """The jobs whose cycles are counted."""
    return slice(jobs // 3)


def blocks(jobs: int) -> list[slice]:
    """The jobs of each block: equally many but for one."""
    first = first_third(jobs).stop
    return [slice(*ends) for ends in pairwise(first + (jobs - first) * block // BLOCKS for block in range(BLOCKS + 1))]


def cycles(submit: Floats, start: Floats, added: Floats) -> Floats:
    """Effective number of cycles of the queue for each metric.

    added: what each job adds to the sum of each metric (jobs, metrics), from 0 on

    A cycle ends where a job is submitted when all jobs before it have started. Cycles count by a sum over their jobs, (sum of
    all)^2 / sum of squares (Kish 1965), so that a cycle with most of it counts as one, and the rest hardly. The sum is the waiting
    time, or that of the metric if there are fewer cycles by it. 0: no job waited or added anything.
    """
    if not len(submit):
        return np.zeros(added.shape[1])
    begins = np.flatnonzero(np.append(True, np.maximum.accumulate(start)[:-1] <= submit[1:]))
    sums = np.add.reduceat(np.column_stack([start - submit, added]), begins, axis=0)
    effective = np.nan_to_num(ratios(sums.sum(axis=0) ** 2, (sums**2).sum(axis=0)))
    fewest: Floats = np.minimum(effective[0], effective[1:])
    return fewest


def too_few(found: float) -> str:
    """Why there is no interval."""
    return f"{ONLY_THESE}: {counted(int(found), 'independent cycle')} of the queue, {CYCLES:.0f} are needed for others"
