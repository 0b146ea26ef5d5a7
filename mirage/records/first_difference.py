"""Where two runs of a workload part: the first job that starts or ends at another instant or has other nodes, and what both did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl
from polars import col

from mirage.records.node_lists import SCHEMA, node_lists
from mirage.records.run_folder import RunFolder
from mirage.records.schedule import of_run
from mirage.text.words import counted, duration

MOVED = 60.0
"""Trace seconds: starts that differ by more are counted beside the others."""
AT_ONCE = 1.0
"""Trace seconds: jobs that a run starts within them are named together."""
SHOWN = 5
"""Jobs of a queue that are named."""
_SECOND = "_2"
"""Suffix of the second run's columns."""


@dataclass(frozen=True)
class Differences:
    """The jobs of two runs that differ. names: what the runs are called."""

    runs: tuple[RunFolder, RunFolder]
    names: tuple[str, str]

    @cached_property
    def pairs(self) -> pl.DataFrame:
        """The jobs of both runs: id, processors, submit, start and end, those of the second run with the suffix _2."""
        columns = ["id", "processors", "submit", "start", "end"]
        one, two = (of_run(run).jobs.select(columns) for run in self.runs)
        return one.join(two, on="id", suffix=_SECOND, maintain_order="left")

    @property
    def alone(self) -> int:
        """Number of jobs that only one of the runs has."""
        return sum(of_run(run).jobs.height for run in self.runs) - 2 * self.pairs.height

    @cached_property
    def moved(self) -> pl.DataFrame:
        """The jobs that start or end at another instant, with the first of these instants (`at`), in its order."""
        return self.pairs.with_columns(at=_first_instant()).drop_nulls("at").sort("at", "id")

    @cached_property
    def parted(self) -> pl.DataFrame:
        """The jobs that start or end at another instant or start on other nodes, with the instant of the first of these differences
        (`at`), in its order; nodes and nodes_2 are null where the record of a run does not have them."""
        pairs = self.pairs
        for run, name in zip(self.runs, ("nodes", f"nodes{_SECOND}"), strict=True):
            lists = node_lists(run, str(run.experiment.get("run") or run.name))
            known = pl.DataFrame(schema=SCHEMA) if lists is None else lists
            pairs = pairs.join(known.select("id", col("node_list").alias(name)), on="id", how="left", maintain_order="left")
        has_other_nodes = (col("nodes") != col(f"nodes{_SECOND}")).fill_null(False)
        other = pl.when(has_other_nodes).then(pl.min_horizontal("start", f"start{_SECOND}"))
        return pairs.with_columns(at=pl.min_horizontal(_first_instant(), other)).drop_nulls("at").sort("at", "id")

    @cached_property
    def far(self) -> pl.DataFrame:
        """The jobs that start more than a minute earlier or later, or in one run only, in the order of the earlier start."""
        start, other = col("start"), col(f"start{_SECOND}")
        is_far = ((start - other).abs() > MOVED) | (start.is_null() != other.is_null())
        return self.pairs.filter(is_far).with_columns(at=pl.min_horizontal(start, other)).sort("at", "id")

    @property
    def mean_waits(self) -> tuple[float, float]:
        """Of the jobs that started, in trace seconds; 0 without any."""
        waits = [self.pairs.select((col(f"start{one}") - col(f"submit{one}")).mean()).item() for one in ("", _SECOND)]
        return waits[0] or 0.0, waits[1] or 0.0

    def first_lines(self) -> Iterator[str]:
        """What both runs did with the first job that differs, and, if another job is the first one whose starts are more than a
        minute apart, with that one."""
        job = self.parted.row(0, named=True)
        yield from self.lines(job, "the first job that differs")
        if self.far.height and (other := self.far.row(0, named=True))["id"] != job["id"]:
            yield from self.lines(other, "the first start that differs by more than a minute")

    def lines(self, job: dict[str, Any], what: str) -> Iterator[str]:
        """What both runs did with a job of `parted` or `far`, and what they looked like before the first instant that differs."""
        yield f"{what}, at {job['at']:.6f}: {job['id']}, {counted(job['processors'], 'processor')}"
        has_other_nodes = job.get("nodes") != job.get(f"nodes{_SECOND}")
        for name, run, suffix in zip(self.names, self.runs, ("", _SECOND), strict=True):
            nodes = f" on {job[f'nodes{suffix}'] or 'unknown nodes'}" if has_other_nodes else ""
            yield f"  {name}: {_instants(job[f'start{suffix}'], job[f'end{suffix}'])}{nodes}; {_machine(run, job['at'])}"
            yield from (f"    {line}" for line in _decisions(run, job["at"]))


def _first_instant() -> pl.Expr:
    """The first instant at which a start or an end differs; null if both are equal."""
    return pl.min_horizontal(
        pl.when(col(name).ne_missing(col(f"{name}{_SECOND}"))).then(pl.min_horizontal(name, f"{name}{_SECOND}"))
        for name in ("start", "end")
    )


def _present(run: RunFolder, at: float) -> pl.DataFrame:
    """The jobs that wait or run before what happens at an instant."""
    never = float("inf")
    return of_run(run).jobs.filter(col("submit").lt(at) & col("end").fill_null(never).ge(at))


def _is_running(at: float) -> pl.Expr:
    return col("start").is_not_null() & col("start").lt(at)


def _machine(run: RunFolder, at: float) -> str:
    """`3 jobs waiting, 20 running, 12 of 100 processors free`."""
    present = _present(run, at)
    runs = present.filter(_is_running(at))
    words = f"{counted(present.height - runs.height, 'job')} waiting, {runs.height} running"
    processors = of_run(run).processors
    return words if processors is None else f"{words}, {processors - int(runs['processors'].sum())} of {processors} processors free"


def _decisions(run: RunFolder, at: float) -> Iterator[str]:
    """The queue in order of submission, and what the scheduler started of it."""
    waiting = _present(run, at).filter(~_is_running(at)).sort("submit", "id")
    if waiting.height:
        named = [f"{job['id']} ({_asked(job)})" for job in waiting.head(SHOWN).iter_rows(named=True)]
        more = f", and {waiting.height - SHOWN} more" if waiting.height > SHOWN else ""
        yield f"waiting: {', '.join(named)}{more}"
    started = of_run(run).jobs.filter(col("start").is_between(at, at + AT_ONCE, closed="left")).sort("start", "id")["id"]
    if started.len():
        more = f", and {started.len() - SHOWN} more" if started.len() > SHOWN else ""
        yield f"starts: {', '.join(map(str, started.head(SHOWN)))}{more}"
    else:
        yield "starts: none"


def _asked(job: dict[str, Any]) -> str:
    """Processors and time limit of a job."""
    words = counted(job["processors"], "processor")
    return words if not job.get("requested") else f"{words} for {duration(job['requested'])}"


def _instants(start: float | None, end: float | None) -> str:
    """`starts at 12, ends at 40`, as far as it did."""
    words = "never starts" if start is None else f"starts at {start:.6f}"
    return words if end is None else f"{words}, ends at {end:.6f}"
