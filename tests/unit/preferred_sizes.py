"""An exact simulation of malleable jobs with preferred sizes on an idle host: the policy of the DMR API, without Slurm's delays.

Jobs start first come, first served, with the nodes they were submitted with. At its points a job takes as many nodes as it can if
nobody waits, and otherwise its preferred number.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_mirage.jobs.malleable import Malleable


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
                size = _wanted(one, free, bool(queue))
                if size != one.nodes:
                    one.left += one.words.cost(one.nodes, size) * one.rate()
                    free, one.nodes = free - (size - one.nodes), size
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


def _wanted(job: _Running, free: int, others_wait: bool) -> int:
    """The size that the job gets at its point: a larger one only if the nodes are free."""
    sizes = [size for size in job.words.sizes(job.submitted) if size - job.nodes <= free]
    if not others_wait:
        return max(sizes)
    preferred = job.words.preferred or job.nodes
    return max((size for size in sizes if size <= max(preferred, min(sizes))), default=job.nodes)
