"""An exact simulation of malleable jobs that ask the broker's policy, without Slurm and its delays.

Jobs start first come, first served, with the nodes they were submitted with. A job for which another one shrinks comes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_mirage.extras.malleable.broker.policy import Decision, Situation, Waiting, decide
from slurm_mirage.extras.malleable.broker.protocol import Check
from slurm_mirage.extras.malleable.words import Malleable


@dataclass(frozen=True)
class Played:
    """What happened: an element per job; changes of size (job, instant, nodes); share of allocated nodes (%) until the last end."""

    submit: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    changes: list[tuple[int, float, int]]
    utilisation: float

    @property
    def wait(self) -> float:
        return float((self.starts - self.submit).mean())

    @property
    def execution(self) -> float:
        return float((self.ends - self.starts).mean())


@dataclass
class _Running:
    words: Malleable
    start: float
    nodes: int
    left: float
    """Seconds of work left at the submitted size."""
    submitted: int
    since: float
    version: int = 0

    def rate(self) -> float:
        return self.words.speedup.of(self.nodes) / self.words.speedup.of(self.submitted)


def simulate(
    submit: Sequence[float], nodes: Sequence[int], run_times: Sequence[float], words: Sequence[Malleable], machine: int
) -> Played:
    """Play the jobs, which are in order of submission."""
    events: list[tuple[float, int, int, int]] = [(at, 0, job, 0) for job, at in enumerate(submit)]
    heapq.heapify(events)
    free, area, last = machine, 0.0, 0.0
    queue: list[int] = []
    running: dict[int, _Running] = {}
    changes: list[tuple[int, float, int]] = []
    starts, ends = np.zeros(len(submit)), np.zeros(len(submit))
    while events:
        now, kind, job, version = heapq.heappop(events)
        area, last = area + (machine - free) * (now - last), now
        if kind == 0:
            queue.append(job)
        elif job in running and (kind == 2 or version == running[job].version):
            one = running[job]
            if kind == 1:
                free += one.nodes
                ends[job] = now
                del running[job]
            else:
                one.left, one.since = one.left - (now - one.since) * one.rate(), now
                decision = _decided(job, one, free, [Waiting(each, nodes[each]) for each in queue])
                if decision.beneficiary is not None:
                    queue.remove(decision.beneficiary)
                    queue.insert(0, decision.beneficiary)
                if (size := decision.to) != one.nodes:
                    # The cost is paid with the larger size.
                    before, one.nodes = one.nodes, max(one.nodes, size)
                    one.left += one.words.cost(before, size) * one.rate()
                    free, one.nodes = free - (size - before), size
                    changes.append((job, now, size))
                one.version += 1
                heapq.heappush(events, (now + one.left / one.rate(), 1, job, one.version))
                heapq.heappush(events, (now + one.words.check, 2, job, 0))
        while queue and nodes[queue[0]] <= free:
            job = queue.pop(0)
            free -= nodes[job]
            running[job] = _Running(words[job], now, nodes[job], run_times[job], nodes[job], now)
            starts[job] = now
            heapq.heappush(events, (now + run_times[job], 1, job, 0))
            heapq.heappush(events, (now + words[job].check, 2, job, 0))
    return Played(np.asarray(submit), starts, ends, changes, 100 * area / machine / (float(ends.max()) - submit[0]))


def _decided(job: int, one: _Running, idle: int, waiting: Sequence[Waiting]) -> Decision:
    words = one.words
    check = Check(job, one.nodes, words.minimum, words.maximum, words.factor, words.preferred or 0)
    return decide(check, Situation(idle, waiting))
