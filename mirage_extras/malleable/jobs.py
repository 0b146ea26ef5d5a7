"""Which jobs of a workload may change their size while they run, and between which sizes; mirage_extras/malleable/README.md.

A malleable job has whole nodes. Its words (slurm_mirage.extras.malleable.words) say between which numbers of nodes it changes, and
how fast it is with each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import polars as pl

from mirage.workloads.workload import Workload, limits
from mirage_extras.malleable import rules
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.malleable.words import Malleable

STARTS = ("start=min", "start=max")
"""Words of MALLEABLE_JOBS: jobs are submitted with their minimum or maximum, instead of the size in the log."""
_STREAM = 19  # of the random numbers of SEED


@dataclass(frozen=True)
class Rule:
    """MALLEABLE_JOBS.

    words_of: the words of a job that has the given number of whole nodes in the log, on a machine of the given number of nodes; ""
        if it cannot have another size there
    start: the word of STARTS; "": a job is submitted with its size in the log
    """

    words_of: Callable[[int, int], str]
    start: str = ""

    @classmethod
    def of(cls, text: str) -> Rule:
        """The rule of a text: the words of all malleable jobs, or a rule by the recorded size. Raises WrongUse."""
        starts = [word for word in text.split() if word.startswith("start=")]
        if starts and (len(starts) > 1 or starts[0] not in STARTS):
            raise WrongUse(f"{' '.join(starts)!r} may be {' or '.join(STARTS)}", parameter="malleable_jobs")
        given = " ".join(word for word in text.split() if word not in starts)
        if ":" not in given.partition(" ")[0]:
            return cls(lambda nodes, most: rules.words_of(given, nodes, most), *starts)
        try:
            same = Malleable.parse(given).text()
        except WrongUse as error:
            raise WrongUse(error.message, parameter="malleable_jobs") from None
        return cls(lambda nodes, most: same, *starts)

    def nodes_of(self, words: Malleable, recorded: int) -> int:
        """The nodes with which a job of these words is submitted."""
        return {"start=min": words.minimum, "start=max": words.maximum}.get(self.start, recorded)


def with_malleable(
    chosen: Workload, share: Decimal, rule: Rule, *, cpus: int, most: int, seed: int, slack: float, overrun: str
) -> Workload:
    """The workload with the column `malleable` (words, "" for rigid jobs), and with whole nodes for the malleable jobs.

    Exactly `share` (0 to 1) of the jobs, rounded to the nearest, are malleable: chosen by the seed, and those of a smaller share
    are among those of a larger one. Jobs for whose size a rule has no words stay rigid; if too few others are left, all of them are
    malleable (note `malleable_fewer`). Processors that are not whole nodes are rounded up to them (note `malleable_rounded`).
    A job that is submitted with another size than in the log has another run time and requested time: its work stays the same.

    cpus, most: processors of a node, and number of nodes of the machine
    slack, overrun: as for `workload.prepare`
    Raises WrongUse for a job that its words do not fit.
    """
    jobs = chosen.jobs
    wanted = int((share * jobs.height).to_integral_value(ROUND_HALF_UP))
    rows = jobs.select("id", "processors", "nodes_wanted").rows(named=True)
    sized = [_Sized(job["processors"], job["nodes_wanted"]) for job in rows]
    count = 0
    for place in map(int, np.random.default_rng([_STREAM, seed]).permutation(jobs.height)):
        if count < wanted and (with_size := _sized(rows[place], rule, cpus, most)) is not None:
            sized[place], count = with_size, count + 1
    faster = pl.Series([one.faster for one in sized], dtype=pl.Float64)
    notes = {
        "malleable": count,
        "malleable_fewer": wanted - count,
        "malleable_rounded": sum(one.rounded for one in sized),
        "malleable_of_other_size": sum(one.faster != 1 for one in sized),
    }
    made = jobs.with_columns(
        pl.Series("processors", [one.processors for one in sized], pl.Int64),
        pl.Series("nodes_wanted", [one.nodes for one in sized], pl.Int64),
        pl.Series("malleable", [one.words for one in sized], pl.String),
        *(pl.col(name) / faster for name in ("runtime", "runtime_virtual", "requested")),
    )
    made = limits(made, chosen.shrink_percent / 100, slack, overrun)
    return replace(chosen, jobs=made, notes={**chosen.notes, **{name: number for name, number in notes.items() if number}})


@dataclass(frozen=True)
class _Sized:
    """The size with which a job is submitted, and how many times faster than with that of the log it is."""

    processors: int
    nodes: int | None
    words: str = ""
    faster: float = 1.0
    rounded: bool = False


def _sized(job: Mapping[str, int], rule: Rule, cpus: int, most: int) -> _Sized | None:
    """A malleable job on a machine of `most` nodes; None if the rule has no words for its size. Raises WrongUse."""
    recorded = math.ceil(job["processors"] / cpus)
    try:
        if not (text := rule.words_of(recorded, most)):
            return None
        words = Malleable.parse(text)
        nodes = rule.nodes_of(words, recorded)
        if words.minimum > most:
            raise WrongUse(f"its minimum is {words.minimum} nodes, and the machine has {most}")
        if nodes > most:
            raise WrongUse(f"it starts with {nodes} nodes, and the machine has {most}")
        words.sizes(nodes)
    except WrongUse as error:
        raise WrongUse(f"job {job['id']}: {error.message}", parameter="malleable_jobs") from None
    faster = words.speedup.of(nodes) / words.speedup.of(recorded)
    return _Sized(nodes * cpus, nodes, words.text(), faster, recorded * cpus != job["processors"])
