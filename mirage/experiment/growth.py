"""What the jobs of a machine with more nodes (GROW) are: those of the log, some of them on a new type of GPUs, and more of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import polars as pl

from mirage.experiment import configuration
from mirage.knobs.knobs import Knobs
from mirage.site.growth import Kind, Step, arms, kinds_of, meant
from mirage.text.words import counted, number
from mirage.workloads import demand, requests
from mirage.workloads.workload import Workload
from slurm_mirage.jobs.request import Request
from slurm_mirage.rm.slurm.node_classes import NodeClass

_STREAM = 0x67726F77  # of random numbers, beside those of SEED's other uses
MOVED, MORE = "moved_to_new_gpus", "more_demand"
"""Notes of a workload: jobs that ask for a new type of GPUs, and jobs that are added."""


def applied(
    knobs: Knobs, workload: Workload, asked: requests.Requests, offered: requests.Offer, slack: float, above: int
) -> Workload | None:
    """The workload as the options `type`, `factor` and `demand` of GROW make it; None if they change nothing.

    A new type of GPUs gets a share of the jobs that could use it, as large as its share of all GPUs that these could use, each
    GPU counted by its speed. The jobs are drawn; each asks for the new type, and runs for `factor` times as long.

    knobs: with the machine that has the new nodes. asked: the requests of the jobs
    above: numbers of added jobs are larger, so that no other machine has them, also one with other jobs of the log
    """
    steps = arms(knobs.scheduler.grow)[0] if knobs.scheduler.grow else ()
    if not any(step.type or step.demand for step in steps):
        return None
    site = configuration.site_of(knobs.scheduler)
    partitions = site.partitions if site is not None else []
    kinds = kinds_of(knobs.nodes.machine.classes, partitions)
    of_all = {one["name"] for one in partitions if one["Nodes"].upper() == "ALL"} if site is not None else offered.partitions.keys()
    random = np.random.default_rng([knobs.workload.seed, _STREAM])
    users = _Users(asked, offered, of_all)
    jobs, notes = workload.jobs, dict(workload.notes)
    of_types = _of_types(steps, kinds) if "request" in jobs.columns else []
    for place, (step, old, new) in enumerate(of_types):
        types = {gres.type for kind in old for gres in kind.gpus}
        beside = [(one, nodes) for one, others, nodes in of_types[place:] if any(kind in old for kind in others)]
        of_words = cache(lambda words, types=frozenset(types), new=step.type: demand.with_type(words, types, new) if words else "")
        words = pl.Series([of_words(one) for one in jobs["request"]], dtype=pl.String)
        is_drawn = random.random(jobs.height) < _share(old, beside)
        shrink = workload.shrink_percent / 100
        move = partial(demand.moved, words=words, factor=step.factor, shrink=shrink, slack=slack, overrun=knobs.jobs.overrun)
        rows = (words != jobs["request"]) & pl.Series(is_drawn)
        rows &= users.holding(move(jobs, rows), words, shrink)
        jobs = move(jobs, rows)
        notes[MOVED] = notes.get(MOVED, 0) + int(rows.sum())
    words = jobs["request"] if "request" in jobs.columns else pl.repeat("", jobs.height, eager=True)
    copied = [(step, jobs["id"].filter(users.of(meant(step, kinds), words))) for step in steps if step.demand]
    for step, ids in copied:
        before = jobs.height
        jobs = demand.more(jobs, jobs["id"].is_in(ids.implode()), step.demand / 100, random, above)
        notes[MORE] = notes.get(MORE, 0) + jobs.height - before
    return replace(workload, jobs=jobs, notes=notes)


def in_words(workload: Workload, now: Workload) -> list[str]:
    """How the jobs differ from those of the machine as it is, for lines before the runs."""
    words = {MOVED: "{} on the new type of GPUs", MORE: "{} more than the log has"}
    lines = [text.format(counted(workload.notes[note], "job")) for note, text in words.items() if note in workload.notes]
    own, before = set(workload.jobs["id"]), set(now.jobs["id"])
    only, gone = len(own - before) - workload.notes.get(MORE, 0), len(before - own)
    if only or gone:
        which = f"{counted(only, 'job')} that the machine as it is does not hold, and {number(gone)} of its jobs less"
        lines.append(f"{which}: not compared (FROM and TO take the same part of the log for all)")
    return lines


def _of_types(steps: Sequence[Step], kinds: Sequence[Kind]) -> list[tuple[Step, list[Kind], list[Kind]]]:
    """The steps with a new type of GPUs, the nodes with GPUs of their classes that were there before, and the new ones."""
    found = [(step, meant(step, kinds)) for step in steps if step.type]
    added = [kind for _, new in found for kind in new]
    before = [[kind for kind in meant(replace(step, type=""), kinds) if kind not in added and kind.gpus] for step, _ in found]
    return [(step, old, new) for (step, new), old in zip(found, before, strict=True)]


def _share(old: Sequence[Kind], new: Sequence[tuple[Step, Sequence[Kind]]]) -> float:
    """The part that the new GPUs of the first step are of all, each counted by its speed. new: steps to which no job has moved"""

    def number(kinds: Sequence[Kind]) -> int:
        return sum(len(kind.names) * int(gres.count) for kind in kinds for gres in kind.gpus)

    fast = [number(kinds) / step.factor for step, kinds in new]
    return fast[0] / (sum(fast) + number(old))


@dataclass(frozen=True)
class _Users:
    """Which jobs may use nodes. of_all: the partitions that have all nodes"""

    asked: requests.Requests
    offered: requests.Offer
    of_all: Collection[str]

    def of(self, kinds: Sequence[Kind], words: pl.Series) -> pl.Series:
        """Whether each job may use a node of one of the kinds. words: what each asks for"""
        nodes = [(_nodes(kind), {*self.of_all, *kind.partitions}) for kind in kinds]

        @cache
        def may(partitions: str, memory: int | None, request: str) -> bool:
            named, parsed = set((partitions or self.offered.default).split(",")), Request.parse(request)
            return any(named & own and of_kind.usable(memory or 0, parsed) for of_kind, own in nodes)

        of_jobs = zip(self.asked.partitions, self.asked.memory, words, strict=True)
        return pl.Series([may(*one) for one in of_jobs], dtype=pl.Boolean)

    def holding(self, jobs: pl.DataFrame, words: pl.Series, shrink: float) -> pl.Series:
        """For each job, whether all partitions that it names can hold it with its request. shrink: virtual seconds per second"""

        @cache
        def can(partitions: str, memory: int | None, processors: int, minutes: int, request: str) -> bool:
            parsed = Request.parse(request)
            names = (partitions or self.offered.default).split(",")
            return all(self.offered.partitions[name].holds(processors, minutes, memory or 0, parsed) for name in names)

        minutes = jobs.select(requests.own_limit(shrink)).to_series()
        of_jobs = zip(self.asked.partitions, self.asked.memory, jobs["processors"], minutes, words, strict=True)
        return pl.Series([can(*one) for one in of_jobs], dtype=pl.Boolean)


def _nodes(kind: Kind) -> requests.Nodes:
    """What jobs can request of nodes of a kind."""
    of_kind = NodeClass(kind.prefix, 1, len(kind.names), kind.cpus, kind.extra)
    return requests.offer([of_kind], [{"name": "own"}], "", None).partitions["own"].nodes[0]
