"""Processors and nodes in use, and processors asked for by waiting jobs, over time: metrics of a whole schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mirage.metrics.measured_jobs import Population, Window
from mirage.metrics.values import NO_INSTANTS, NO_LONG_JOB, NO_NODES, Settings, Value
from mirage.metrics.waits import Waits

NO_LENGTH = "the schedule has no length"
NOTHING_USED = "no processor was in use"


@dataclass(frozen=True)
class MeasuredSchedule:
    """A schedule with at least one measured job, for formulas of the whole schedule.

    suspensions: columns job, suspend, resume, of all jobs; None if not known
    tables: those of aspects, by the names of a run's files
    availability: columns of `availability.AVAILABILITY_SCHEMA`; None if no event took nodes out of service; a text: why it is not
        known
    """

    population: Population
    window: Window
    settings: Settings
    suspensions: pl.DataFrame | None
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    availability: pl.DataFrame | str | None = None

    def within(self, part: Population) -> MeasuredSchedule:
        """The same schedule in another window with other jobs, by the same course."""
        assert part.window is not None
        schedule = replace(self, population=part, window=part.window)
        schedule.__dict__["course"] = self.course
        return schedule

    @cached_property
    def course(self) -> pl.DataFrame | str:
        """`course` of the whole schedule; or why it is not known."""
        if not _instants_known(self.population, self.suspensions):
            return NO_INSTANTS
        return course(self.population, self.suspensions, with_nodes=self.settings.nodes is not None)

    @cached_property
    def levels(self) -> pl.DataFrame | str:
        """The course within the window (`within`); or why it is not known."""
        if self.window.length == 0:
            return NO_LENGTH
        return self.course if isinstance(self.course, str) else within(self.course, self.window)

    @cached_property
    def used(self) -> tuple[float, float] | str:
        """Processor seconds in use over the window: all of them, and those of executions whose work was lost; or why not known.

        Of the whole schedule they follow from the sum of mean processors x run time (m t) and the lost executions, which needs no
        instants of suspensions unless a suspended job changed its size, or its work was lost. With cuts it is an integral over the
        window: a job that runs across its edge counts for what lies inside.
        """
        window, lost = self.window, self.population.lost
        if window.length == 0:
            return NO_LENGTH
        if lost is not None and not _instants_known(self.population, self.suspensions, lost.jobs):
            return NO_INSTANTS
        wasted = 0.0 if lost is None else _area(lost.held, window) + _area(lost.of_last, window)
        if window.is_cut:
            if isinstance(self.levels, str):
                return self.levels
            return float(self.levels.select((pl.col("busy") * pl.col("dt")).sum()).item()), wasted
        measured = self.population.measured
        if measured["m"].has_nulls():
            return NO_INSTANTS
        area = float(measured.select((pl.col("m") * pl.col("t")).sum()).item())
        return area if lost is None else area + _area(lost.held, window), wasted

    @property
    def capacity(self) -> float:
        """Processor seconds that the machine has in the window."""
        return self.settings.processors * self.window.length

    @cached_property
    def waits(self) -> Waits:
        return self.population.waits

    @cached_property
    def busy_nodes(self) -> pl.DataFrame | str:
        """The numbers of busy nodes that occur in the window, ascending (`nodes`), and the share of the time for which so many were
        busy (`share`); or why they are not known.
        """
        if isinstance(self.levels, str):
            return self.levels
        return NO_NODES if self.settings.nodes is None else _distribution(self.levels, self.settings.nodes)

    @cached_property
    def long_by_nodes(self) -> pl.DataFrame:
        """The jobs of the window that ran for more than a second, by their number of nodes (`c`, null if it is unknown): how many
        there are (`n`), and the sum of their waits over their run times (`x`).

        The terms are added in the order of the jobs, so that a sum is the same to the last digit each time. The order of a group_by
        changes.
        """
        ratio = (pl.col("s") - pl.col("a")) / pl.col("t")
        long = self.population.inside.lazy().filter(pl.col("t") > 1).select(c=pl.col("c").fill_null(0), x=ratio).collect()
        occurring, place = np.unique(long["c"].to_numpy(), return_inverse=True)
        by_nodes = pl.DataFrame({"c": occurring, "n": np.bincount(place), "x": np.bincount(place, weights=long["x"].to_numpy())})
        return by_nodes.with_columns(pl.col("c").replace(0, None))


def w3(schedule: MeasuredSchedule) -> Value:
    """Mean of (w / t) * F(N - c + 1), F(x) the share of the time in which fewer than x nodes were busy."""
    busy, nodes, by_nodes = schedule.busy_nodes, schedule.settings.nodes, schedule.long_by_nodes
    if isinstance(busy, str):
        return busy
    if by_nodes.is_empty() or nodes is None:
        return NO_LONG_JOB
    chances = busy.select("nodes", chance=pl.col("share").cum_sum())
    # Fewer than N - c + 1 busy nodes are N - c at most.
    fitting = by_nodes.select("n", "x", free=nodes - pl.col("c")).sort("free")
    return mean_weighted(fitting.join_asof(chances, left_on="free", right_on="nodes"), pl.col("chance").fill_null(0))


def utilisation(schedule: MeasuredSchedule) -> Value:
    """Share of the machine's processors in use over the window, by all executions."""
    used = schedule.used
    return used if isinstance(used, str) else used[0] / schedule.capacity


def goodput(schedule: MeasuredSchedule) -> Value:
    """Share of the machine's processors in use over the window by executions whose work was not lost."""
    used = schedule.used
    return used if isinstance(used, str) else (used[0] - used[1]) / schedule.capacity


def wasted_fraction(schedule: MeasuredSchedule) -> Value:
    """Share of the processor time in use that belongs to executions whose work was lost."""
    used = schedule.used
    if isinstance(used, str):
        return used
    return used[1] / used[0] if used[0] > 0 else NOTHING_USED


def wait_restricted_mean(schedule: MeasuredSchedule) -> Value:
    """Mean of min(wait, horizon) with censored waits, up to the longest wait; see waits.py."""
    return schedule.waits.restricted_mean(schedule.waits.horizon)


def loss_of_capacity(schedule: MeasuredSchedule) -> Value:
    """Share of the machine's processors that were idle although waiting jobs asked for as many (for their sizes at the start)."""
    levels, processors = schedule.levels, schedule.settings.processors
    if isinstance(levels, str):
        return levels
    idle = (processors - pl.col("busy")).clip(0)
    lost = levels.select((pl.min_horizontal("waiting", idle) * pl.col("dt")).sum() / pl.col("dt").sum()).item()
    return float(lost) / processors


def suspensions_mean(schedule: MeasuredSchedule) -> Value:
    """Suspensions of a job, mean. Without instants it is known only if no job was suspended."""
    inside = schedule.population.inside
    if inside["suspended"].null_count() == inside.height:
        return "the schedule does not record suspensions"
    if schedule.suspensions is not None:
        of_these = schedule.suspensions.join(inside.select("id", "s"), left_on="job", right_on="id")
        return of_these.filter(_of_last()).height / inside.height
    return NO_INSTANTS if (inside["suspended"] > 0).mean() else 0.0


def _of_last() -> pl.Expr:
    """Whether a suspension is one of the last execution, which starts at s, not of an earlier one."""
    return (pl.col("resume") > pl.col("s")) | pl.col("resume").is_null()


def _area(held: pl.DataFrame, window: Window) -> float:
    """Processor seconds within the window of intervals in which jobs held processors (begin, end, p)."""
    return float(held.select((seconds_within(window) * pl.col("p")).sum()).item())


def seconds_within(window: Window) -> pl.Expr:
    """Seconds of intervals (begin, end) that lie within the window."""
    return (pl.col("end").clip(upper_bound=window.end) - pl.col("begin").clip(window.begin)).clip(0)


def _instants_known(population: Population, suspensions: pl.DataFrame | None, jobs: pl.Series | None = None) -> bool:
    """Whether it is known of each suspension when it was. jobs: of these jobs only; default: of all that are measured."""
    measured = population.measured if jobs is None else population.measured.filter(pl.col("id").is_in(jobs.implode()))
    if suspensions is None:
        return not (measured["suspended"].fill_null(0) > 0).any()
    numbers = measured["id"] if jobs is None else jobs
    if jobs is None and population.lost is not None:
        numbers = pl.concat([numbers, population.lost.jobs])
    of_these = suspensions.join(numbers.to_frame("id"), left_on="job", right_on="id", how="semi")
    return int(of_these.select("suspend", "resume").null_count().sum_horizontal().item()) == 0


def mean_weighted(by_nodes: pl.DataFrame, factor: pl.Expr) -> float:
    """Mean of (w / t) * factor over the jobs; factor depends on their nodes only."""
    return float(by_nodes.select((pl.col("x") * factor).sum() / pl.col("n").sum()).item())


def profile(population: Population, window: Window, suspensions: pl.DataFrame | None, *, with_nodes: bool) -> pl.DataFrame:
    """`course` within the window."""
    return within(course(population, suspensions, with_nodes=with_nodes), window)


def within(course: pl.DataFrame, window: Window) -> pl.DataFrame:
    """The intervals of a course that lie within the window, in order, each of `dt` seconds; the other columns are the same,
    views of the course's, which may be the largest table of a schedule."""
    time = course["time"]
    first = max(int(time.search_sorted(window.begin, side="right")) - 1, 0)
    inside = course[first : int(time.search_sorted(window.end, side="left")) + 1]
    seconds = inside["time"].clip(window.begin, window.end).diff().slice(1).alias("dt")
    return inside.head(len(seconds)).drop("time").with_columns(seconds)


def course(population: Population, suspensions: pl.DataFrame | None, *, with_nodes: bool) -> pl.DataFrame:
    """The state of the machine from each instant `time` on, in order: processors that waiting jobs ask for (`waiting`), processors
    in use (`busy`), and on request nodes in use (`busy_nodes`). Instants differ; the first, minus infinity, is that of the empty
    machine.

    suspensions: columns job, suspend, resume, of all jobs. A job waits for its size at the start, from when it is eligible, but not
    during its executions, and holds the size that it has at the time; while it is suspended it holds nothing. A job that never
    started did wait until it was cancelled. Jobs submitted before the window count while they are in it.
    """
    p, c, none = pl.col("p"), pl.col("c"), pl.lit(0, pl.Int64)

    def change(jobs: pl.DataFrame, at: str, *, waiting: pl.Expr = none, running: int = 0) -> pl.LazyFrame:
        held = {"busy": p * running if running else none}
        if with_nodes:
            held["busy_nodes"] = c * running if running else none
        return jobs.lazy().select(pl.col(at).alias("time"), waiting.alias("waiting"), **held)

    measured, unstarted, resized, lost = population.measured, population.unstarted, population.resized, population.lost
    unstarted = unstarted.filter(pl.col("q") < pl.col("f"))
    constant = measured if resized is None else measured.join(resized.jobs, on="id", how="anti")
    changes = [
        change(measured.head(1).select("p", "c", time=pl.lit(-math.inf)), "time"),
        change(measured, "q", waiting=p),
        change(constant, "s", waiting=-p, running=1),
        change(constant, "f", running=-1),
        change(unstarted, "q", waiting=p),
        change(unstarted, "f", waiting=-p),
    ]
    if suspensions is not None:
        stopped = suspensions.join(constant, left_on="job", right_on="id").filter(_of_last())
        changes += [change(stopped, "suspend", running=-1), change(stopped, "resume", running=1)]
    if resized is not None:
        changes.append(change(measured.join(resized.jobs, on="id", how="semi"), "s", waiting=-p))
        changes += [change(resized.holdings, "begin", running=1), change(resized.holdings, "end", running=-1)]
    if lost is not None:
        waited = pl.concat([measured.select("id"), unstarted.select("id")])
        runs = lost.earlier.join(waited, on="id", how="semi")
        changes += [change(runs, "begin", waiting=-p), change(runs, "end", waiting=p)]
        changes += [change(lost.held, "begin", running=1), change(lost.held, "end", running=-1)]
    starts = measured["s"].gather_every(max(measured.height // _SAMPLE, 1)).sort()
    slices = -(-len(changes) * measured.height // _SLICE)
    return _cumulated(changes, [starts[len(starts) * place // slices] for place in range(1, slices)])


_SLICE = 1 << 22
"""Changes that are sorted at a time: sorting all of them takes several times the memory of the result."""
_SAMPLE = 1 << 14


def _cumulated(changes: Sequence[pl.LazyFrame], edges: Sequence[float]) -> pl.DataFrame:
    """The sums of all changes up to each instant. edges: instants in order; the changes between two are sorted at a time."""
    parts: list[dict[str, npt.NDArray[Any]]] = []
    levels = [name for name in changes[0].collect_schema() if name != "time"]
    before = dict.fromkeys(levels, 0)
    for begin, end in pairwise([-math.inf, *edges, math.inf]):
        is_here = (pl.col("time") >= begin) & ((pl.col("time") < end) | (end == math.inf))
        here = pl.concat([one.filter(is_here) for one in changes]).collect()
        if here.is_empty():
            continue
        order = np.argsort(here["time"].to_numpy())
        time = here["time"].to_numpy()[order]
        # Of changes at one instant, in whatever order, only what all of them lead to lasts for any time.
        is_last = np.append(time[1:] != time[:-1], True)
        sums = {name: before[name] + here[name].to_numpy()[order].cumsum()[is_last] for name in levels}
        before = {name: int(values[-1]) for name, values in sums.items()}
        parts.append({"time": time[is_last], **sums})
    # Column by column, so that no more than one is there twice.
    return pl.DataFrame([pl.Series(name, np.concatenate([part.pop(name) for part in parts])) for name in ("time", *levels)])


def _distribution(levels: pl.DataFrame, nodes: int) -> pl.DataFrame:
    """The numbers of busy nodes that occur, ascending (`nodes`), and for which share of the time (`share`)."""
    # Jobs that share nodes may add up to more than there are.
    occurring, place = np.unique(levels["busy_nodes"].clip(0, nodes).to_numpy(), return_inverse=True)
    # One after the other, where a group_by adds up in any order: see MeasuredSchedule.long_by_nodes.
    seconds = np.bincount(place, weights=levels["dt"].to_numpy())
    return pl.DataFrame({"nodes": occurring, "share": seconds / seconds.sum()})
