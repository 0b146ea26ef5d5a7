"""Selects the jobs and the time window for metrics."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import polars as pl

from mirage.metrics.allocations import Resized
from mirage.metrics.executions import Lost, lost_executions
from mirage.metrics.waits import Waits
from mirage.traces import states
from slurm_mirage.base.errors import WrongUse

Cut = float | str
"""A length of a schedule: seconds, or text: `3600`, `5%` (of the time from its first submission to its last end)."""

_DIGITS = 6  # of a run time in seconds: the error of subtracting equal times in floats is no run time
_UNSTARTED = "cancelled before start"
_GIVEN_UP = "cancelled in the queue after a requeue"
_NO_START = "no start"
_STEADY_CUT = 0.1


@dataclass(frozen=True)
class Window:
    """The part of a schedule that is measured, in trace seconds; warmup and cooldown were cut off before and after it."""

    begin: float
    end: float
    warmup: float
    cooldown: float

    @property
    def length(self) -> float:
        return self.end - self.begin

    @property
    def is_cut(self) -> bool:
        return self.warmup > 0 or self.cooldown > 0


@dataclass(frozen=True)
class Population:
    """The jobs of a schedule as metrics need them.

    measured: the jobs that can be measured: columns id, nodes, suspended (as recorded), a submission, q when it became eligible
        (a if unknown), s start of the last execution, f end, t its run time (time suspended excluded), p processors and c nodes at
        the start, m mean number of processors while the job ran (p for a job that keeps its size; null if it cannot be known),
        preset, is_lost (whether the last execution ended in one of `states.LOST`)
    inside: those of them that were submitted within the window, without presets (workloads/presets.py)
    unstarted: jobs that waited and never started, or not again after a requeue: id, a, q (null: never eligible), f (until when they
        waited: the cancellation, or the end of the record; null if unknown), p, c, preset
    window: None if no job can be measured
    excluded: number of jobs left out of all metrics, or of those over jobs, by reason
    resized: the measured jobs that change their size while they run; None if none does
    lost: executions whose work was lost; None if there are none
    """

    measured: pl.DataFrame
    inside: pl.DataFrame
    unstarted: pl.DataFrame
    window: Window | None
    excluded: dict[str, int]
    resized: Resized | None = None
    lost: Lost | None = None

    @classmethod
    def of(
        cls,
        jobs: pl.DataFrame,
        processors: int,
        nodes: int | None,
        warmup_cut: Cut,
        cooldown_cut: Cut,
        *,
        suspensions: pl.DataFrame | None = None,
        allocations: pl.DataFrame | None = None,
        executions: pl.DataFrame | None = None,
    ) -> Population:
        """Select the jobs. Nodes that are not recorded: as few as hold the processors.

        suspensions, allocations, executions: as for `metrics.compute`; suspensions matter for jobs that change their size and for
            lost executions only.
        Raises WrongUse for a cut that is not valid, or leaves nothing.
        """
        executions = None if executions is None or executions.is_empty() else executions
        faults = _faults(executions)
        verdict = jobs.lazy().select(_judgement(faults)).collect().to_series()
        # Not lazily, which copies them: columns of jobs that are all measured are views.
        measured = _measured(jobs.filter(verdict == 0) if verdict.max() else jobs, processors, nodes)
        resized = None
        if allocations is not None:
            wanted = jobs.select("id", wanted=pl.when(pl.col("state") == "COMPLETED").then("runtime"))
            changes = _changes(allocations, processors, nodes)
            resized = Resized.of(measured.join(wanted, on="id", how="left", maintain_order="left"), suspensions, changes)
        if resized is not None:
            mean = pl.when(pl.col("resized").is_null()).then("m").otherwise("mean")
            means = resized.jobs.select("id", "mean", resized=pl.lit(True))
            measured = measured.join(means, on="id", how="left", maintain_order="left").with_columns(m=mean).drop("mean", "resized")
        unstarted = _unstarted(jobs, verdict, [list(faults).index(name) + 1 for name in (_GIVEN_UP, _UNSTARTED, _NO_START)])
        if unstarted.height:
            unstarted = unstarted.with_columns(c=_nodes(processors, nodes)).drop("nodes", "processors")
        lost = lost_executions(
            pl.concat([measured.select("id", "p", "c"), unstarted.select("id", "p", "c")]),
            measured.filter("is_lost").select("id", "s", "f", "p", "c"),
            executions,
            suspensions,
            None if resized is None else resized.holdings,
        )
        of_selection = measured.filter(~pl.col("preset")) if measured["preset"].any() else measured
        window = None if of_selection.is_empty() else _window(measured, warmup_cut, cooldown_cut)
        counts = dict(verdict.value_counts().iter_rows())
        excluded = {reason: counts.get(code, 0) for code, reason in enumerate(faults, 1)}
        excluded["preset: not in metrics over jobs"] = measured.height - of_selection.height
        if window is not None:
            a = pl.col("a")
            excluded["submitted in the warm-up: not in metrics over jobs"] = of_selection.filter(a < window.begin).height
            excluded["submitted in the cool-down: not in metrics over jobs"] = of_selection.filter(a > window.end).height
        return cls(
            measured,
            of_selection if window is None or not window.is_cut else _inside(of_selection, window),
            unstarted,
            window,
            excluded,
            resized,
            lost,
        )

    @property
    def waits(self) -> Waits:
        """Waits of the jobs submitted within the window, without presets; those of jobs that never started are censored."""
        started = self.inside.select(pl.col("s") - pl.col("a")).to_series()
        waited = self.unstarted.filter(~pl.col("preset"))
        if self.window is not None and self.window.is_cut:
            waited = waited.filter(pl.col("a").is_between(self.window.begin, self.window.end))
        return Waits(started.to_numpy(), waited.select((pl.col("f") - pl.col("a")).clip(0)).to_series().to_numpy())

    def steady(self) -> Population:
        """The part of the schedule from a tenth of the time between the first and the last submission to a tenth before its end,
        with all jobs that were submitted in it, also those outside of `window`. Some job must be measured."""
        of_selection = self.measured.filter(~pl.col("preset")) if self.measured["preset"].any() else self.measured
        first, last = of_selection.select(first=pl.col("a").min(), last=pl.col("a").max()).row(0)
        cut = _STEADY_CUT * (last - first)
        window = Window(first + cut, last - cut, cut, cut)
        return replace(self, inside=_submitted_in(of_selection, window), window=window)


def _faults(executions: pl.DataFrame | None) -> dict[str, pl.Expr]:
    """Why a job is left out of all metrics, and the test for it. The first that applies holds."""
    col = pl.col
    unstarted = col("state").is_in(states.ENDED_WAITING) & col("start").is_null()
    again = pl.lit(False) if executions is None else col("id").is_in(executions["job"].unique().implode())
    return {
        "lost": col("state") == "LOST",
        "no submission time": col("submit").is_null(),
        _GIVEN_UP: unstarted & again,
        _UNSTARTED: unstarted,
        _NO_START: col("start").is_null(),
        "negative wait": col("start") < col("submit"),
        "no end": col("end").is_null(),
        "end before start": col("end") < col("start"),
        "no processors": col("processors").fill_null(0) < 1,
        "suspended for longer than it ran": (col("end") - col("start") - col("suspended")).round(_DIGITS) < 0,
    }


def _judgement(faults: dict[str, pl.Expr]) -> pl.Expr:
    """Number of a job's fault, counted from 1; 0: it has none. Names for millions of jobs would take three times as long."""
    code = pl.lit(0, pl.UInt8)
    for number, fault in reversed(list(enumerate(faults.values(), 1))):
        code = pl.when(fault).then(pl.lit(number, pl.UInt8)).otherwise(code)
    return code


def _measured(jobs: pl.DataFrame, processors: int, nodes: int | None) -> pl.DataFrame:
    """The quantities of jobs without a fault; see `Population.measured`."""
    col = pl.col
    return jobs.select(
        "id",
        "nodes",
        "suspended",
        a="submit",
        q=pl.min_horizontal("start", pl.max_horizontal("submit", "eligible")),
        s="start",
        f="end",
        t=(col("end") - col("start") - col("suspended").fill_null(0)).round(_DIGITS),
        p="processors",
        c=_nodes(processors, nodes),
        m="processors",
        preset=col("preset").is_not_null(),
        is_lost=col("state").is_in(states.LOST).fill_null(False),
    ).rechunk()


def _unstarted(jobs: pl.DataFrame, verdict: pl.Series, codes: list[int]) -> pl.DataFrame:
    """`Population.unstarted`, with nodes and processors instead of c. verdict: number of each job's fault; codes: those of the
    wanted jobs.

    A job without a start that neither ended in the queue nor still waits is left out: its start is not recorded.
    """
    col = pl.col
    waiting = col("state").is_in(states.WAITING)
    unstarted = jobs.lazy().filter(verdict.is_in(codes), col("state").is_in([*states.WAITING, *states.ENDED_WAITING])).collect()
    if unstarted.is_empty():
        kinds = {"id": pl.Int64, **dict.fromkeys("aqf", pl.Float64), **dict.fromkeys("pc", pl.Int64), "preset": pl.Boolean}
        return pl.DataFrame(schema=kinds)
    # Where the schedule records when jobs became eligible, one without such an instant never was.
    eligible = pl.max_horizontal("submit", "eligible")
    if jobs["eligible"].count():
        eligible = pl.when(col("eligible").is_not_null()).then(eligible)
    last = jobs.select(pl.max_horizontal(pl.col("submit", "start", "end").max())).item()
    return unstarted.select(
        "id",
        "nodes",
        "processors",
        a="submit",
        q=eligible,
        f=pl.coalesce("end", pl.when(waiting).then(pl.lit(last))),
        p=col("processors").fill_null(0),
        preset=col("preset").is_not_null(),
    )


def _nodes(processors: int, nodes: int | None) -> pl.Expr:
    """Nodes of jobs; where they are not recorded, as few as hold the processors."""
    return pl.coalesce("nodes", (pl.col("processors") * (nodes or 0) / processors).ceil().cast(pl.Int64))


def _changes(allocations: pl.DataFrame, processors: int, nodes: int | None) -> pl.DataFrame:
    """Changes of size as `Resized.of` takes them."""
    return allocations.select(id="job", time="from", p="processors", c=_nodes(processors, nodes))


def _submitted_in(jobs: pl.DataFrame, window: Window) -> pl.DataFrame:
    """The rows with a submission in this time, as one chunk: sums over several chunks are made in a changing order, which changes
    their last digit. Those of jobs in the order of their submissions are views."""
    if jobs["a"].is_sorted():
        first, after = jobs["a"].search_sorted(window.begin, "left"), jobs["a"].search_sorted(window.end, "right")
        return jobs[first:after].rechunk()
    return jobs.filter(pl.col("a").is_between(window.begin, window.end)).rechunk()


def _inside(measured: pl.DataFrame, window: Window) -> pl.DataFrame:
    """The jobs submitted within the window, both ends included."""
    inside = _submitted_in(measured, window)
    if window.length <= 0 or inside.is_empty():
        what = "nothing" if window.length <= 0 else "no submitted job"
        whole = window.length + window.warmup + window.cooldown
        cuts = f"{window.warmup:g} s and {window.cooldown:g} s leave {what} of the schedule's {whole:g} s"
        raise WrongUse(f"{cuts}; they may be shorter", parameter="warmup_cut, cooldown_cut")
    return inside


def _window(measured: pl.DataFrame, warmup_cut: Cut, cooldown_cut: Cut) -> Window | None:
    """From the first submission to the last end of the measured jobs, less the cuts."""
    first, last = measured.select(pl.col("a").min(), pl.col("f").max()).row(0)
    span = 0.0 if first is None else last - first
    warmup, cooldown = _seconds("warmup_cut", warmup_cut, span), _seconds("cooldown_cut", cooldown_cut, span)
    return None if first is None else Window(first + warmup, last - cooldown, warmup, cooldown)


def _seconds(parameter: str, cut: Cut, span: float) -> float:
    """A cut in seconds."""
    percent = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", cut) if isinstance(cut, str) else None
    try:
        value = float(percent[1] if percent else cut)
    except ValueError:
        value = math.nan
    if not 0 <= value < (100 if percent else math.inf):
        raise WrongUse(f"{cut!r} may be seconds from 0 on, or a percentage of the schedule below 100: 5%", parameter=parameter)
    return value / 100 * span if percent else value
