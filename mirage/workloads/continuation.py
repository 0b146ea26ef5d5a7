"""The jobs of a site from now on: those that run, those that wait, and those that will come, with what is not known drawn.

`queue_of` reads the state of a log that ends now; `Queue.drawn` is one possible course as a log, whose selection from `instant` on
with PRESET=all is what a run submits (presets.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from mirage.site.now import PENDING, Name, Waiting
from mirage.traces import states
from mirage.traces.trace import Trace
from mirage.workloads.presets import never_ran
from mirage.workloads.run_times import Course, Jobs
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs.request import Request

DAY, WEEK = 86400.0, 604800.0
HOUR = 3600.0
RUNS = tuple(state for state in states.LIVE if state not in states.WAITING)
"""States of jobs that have nodes."""
SAME_WEEKDAY = 3
"""Weeks of record from which on arrivals are those of the same day of the week."""
FIRST = 10**9
"""Added to the priority of jobs that run: they get their nodes first. Priorities are below 2^32."""
_COMPLETED = 1
HELD = "held until someone releases them"
NOT_RECORDED = "in the queue, but not in sacct's record, as jobs that wait for others"
NOT_RUNNING = "running in sacct's record, but not in the queue"
TOO_LARGE = "asking for what the machine does not have"
"""Why jobs are not continued."""


@dataclass(frozen=True)
class Queue:
    """A site's jobs now.

    trace: the whole record; instant: now, in its seconds; begin: from then on it has all submissions, before only those of jobs
        that were alive later
    running: rows of the log with `elapsed`; waiting: rows in the order of the queue with `name` (12_3), `ahead` and `promised`
        (seconds of the trace, null: nothing). Their `job_number` are the ids of a run's jobs
    missing: why jobs are not continued, by their names
    shares: what fair share adds to the priority of a new job, by user's number and account
    is_ranked: whether priorities depend on more than the order of submissions. With priority/basic `nice` would be added to numbers
        that are near to the largest one
    """

    trace: Trace
    instant: float
    running: pl.DataFrame
    waiting: pl.DataFrame
    missing: Mapping[str, str]
    shares: Mapping[tuple[int, str], int]
    is_ranked: bool
    begin: float = 0.0

    @property
    def left(self) -> Mapping[str, int]:
        """Number of jobs that are not continued, by reason."""
        return Counter(self.missing.values())

    def without(self, refused: Callable[[pl.DataFrame], pl.Series]) -> Queue:
        """The queue without the jobs that can never run on a machine. refused: whether each job of an SWF frame is one of them"""

        def places(jobs: pl.DataFrame) -> pl.Series:
            unknown = (pl.col("run_time") <= 0) & ~never_ran()
            return refused(jobs.with_columns(run_time=pl.when(unknown).then(1.0).otherwise("run_time")))

        never = places(self.waiting)
        return replace(
            self,
            trace=replace(self.trace, frame=self.trace.frame.filter(~places(self.trace.frame))),
            running=self.running.filter(~places(self.running)),
            waiting=self.waiting.filter(~never),
            missing={**self.missing, **dict.fromkeys(self.waiting.filter(never)["name"], TOO_LARGE)},
        )

    @cached_property
    def _ended(self) -> Jobs:
        """The run times of the record in order of the ends."""
        known = self.trace.frame.filter(pl.col("run_time") > 0, pl.col("wait") >= 0)
        return _jobs(known.sort(pl.col("submit") + pl.col("wait") + pl.col("run_time"), maintain_order=True), "run_time")

    def drawn(self, rng: np.random.Generator, horizon: float) -> Trace:
        """One course: the log of the jobs that run and wait, and of those that come within `horizon` seconds."""
        col, ended = pl.col, pl.lit(_COMPLETED, pl.Int64).alias("status")
        course = Course(self._ended, _jobs(self.running, "elapsed"), rng)
        # The selection begins now: what was submitted in this second is before it.
        before = pl.lit(self.instant - 1)
        run = self.running.with_columns(ended, run_time=pl.Series(course.running, dtype=pl.Float64))
        run = run.with_columns(submit=pl.min_horizontal("submit", before))
        wait = self.waiting.with_columns(
            ended,
            run_time=pl.Series(course.draw(_jobs(self.waiting)), dtype=pl.Float64),
            submit=before,
        ).with_columns(wait=self.instant + 1 - col("submit"))
        come = self._arrivals(rng, horizon, run)
        unknown = come.filter(col("run_time") <= 0, ~never_ran())
        of_unknown = unknown.select("job_number", run_time=pl.Series(course.draw(_jobs(unknown)), dtype=pl.Float64))
        come = come.update(of_unknown, on="job_number").with_columns(status=pl.when(never_ran()).then("status").otherwise(ended))
        columns = [*self.trace.frame.columns, *([] if "request" in self.trace.frame.columns else ["request"])]
        parts = (
            _ahead(run, [FIRST if self.is_ranked else 0] * run.height),
            _ahead(wait, wait["ahead"].to_list() if self.is_ranked else [0] * wait.height),
            _ahead(come, self._shares_of(come)),
        )
        return replace(self.trace, frame=pl.concat([part.select(columns) for part in parts]), notes={})

    def _shares_of(self, jobs: pl.DataFrame) -> list[int]:
        if not self.is_ranked or not self.shares or "account" not in jobs.columns:
            return [0] * jobs.height
        usual = int(np.median(list(self.shares.values())))
        pairs = zip(jobs["user"].to_list(), jobs["account"].to_list(), strict=True)
        return [self.shares.get((user, account or ""), usual) for user, account in pairs]

    def _arrivals(self, rng: np.random.Generator, horizon: float, running: pl.DataFrame) -> pl.DataFrame:
        """Jobs that come within `horizon` seconds: those of past days at the same time of day, of the same day of the week where
        the record has `SAME_WEEKDAY` weeks. A record of less than two days is taken in pieces of half of it.

        Their dependencies are left out. Where none comes, the last one of the record comes at the end, as a run needs one.

        running: the jobs that run, with the run times of this course, which their copies have as well
        """
        frame = self.trace.frame.filter(pl.col("submit") >= max(self.begin, 0.0), pl.col("submit") < self.instant)
        first = self.begin if self.begin > 0 else float(frame["submit"].min() or 0.0)  # type: ignore[arg-type]
        record = self.instant - first
        if frame.is_empty() or record <= 0:
            raise WrongUse("the record has no job that was submitted before; take weeks before now, too", parameter="site")
        frame = _with_run_times(frame, running)
        length = DAY if record >= 2 * DAY else record / 2
        period = WEEK if record >= SAME_WEEKDAY * WEEK else DAY if length == DAY else 0.0
        number = _last_number(self.trace.frame) + self.waiting.height + 1
        pieces: list[pl.DataFrame] = []
        begin = 0.0
        while begin < horizon:
            if period:
                least = math.ceil((begin + length) / period)
                back = rng.integers(least, max(int((record + begin) // period), least) + 1)
                source = float(self.instant + begin - period * back)
            else:
                source = first + rng.random() * (record - length)
            piece = frame.filter(pl.col("submit") >= source, pl.col("submit") < source + length)
            moved = self.instant + begin - source
            piece = piece.with_columns(submit=pl.col("submit") + moved).filter(pl.col("submit") < self.instant + horizon)
            pieces.append(_renumbered(piece, number * (len(pieces) + 1)))
            begin += length
        come = pl.concat(pieces).sort("submit", maintain_order=True)
        if come.is_empty():
            come = _renumbered(frame.tail(1), number).with_columns(submit=pl.lit(self.instant + horizon - 1))
        come = come.with_columns(submit=pl.max_horizontal("submit", pl.lit(self.instant)))
        return come.with_columns(dependency=pl.lit(None, pl.String)) if "dependency" in come.columns else come


def _with_run_times(jobs: pl.DataFrame, running: pl.DataFrame) -> pl.DataFrame:
    """The jobs with the run times of those that run."""
    drawn = jobs.join(running.select("job_number", drawn="run_time"), on="job_number", how="left", maintain_order="left")
    runs = pl.col("state").is_in(RUNS) & (pl.col("run_time") <= 0) & pl.col("drawn").is_not_null()
    return drawn.with_columns(run_time=pl.when(runs).then("drawn").otherwise("run_time")).drop("drawn")


def _renumbered(jobs: pl.DataFrame, more: int) -> pl.DataFrame:
    return jobs.with_columns((pl.col(name) + more) for name in ("job_number", "array_job") if name in jobs.columns)


def _last_number(frame: pl.DataFrame) -> int:
    return int(frame.select(pl.col("job_number").max().fill_null(0)).item())


def _jobs(frame: pl.DataFrame, elapsed: str | None = None) -> Jobs:
    limit = np.where(frame["requested_time"].to_numpy() > 0, frame["requested_time"].to_numpy(), np.nan)
    passed = np.zeros(frame.height) if elapsed is None else frame[elapsed].to_numpy().astype(np.float64)
    return Jobs(frame["user"].to_numpy(), limit.astype(np.float64), passed)


def _ahead(jobs: pl.DataFrame, ahead: Sequence[int]) -> pl.DataFrame:
    """The jobs with so much more of priority, by `nice` of `request`."""
    texts = jobs["request"].fill_null("").to_list() if "request" in jobs.columns else [""] * jobs.height
    wanted = [_with_nice(text, more) for text, more in zip(texts, ahead, strict=True)]
    return jobs.with_columns(request=pl.Series(wanted, dtype=pl.String))


def _with_nice(text: str, ahead: int) -> str:
    if not ahead:
        return text
    request = Request.parse(text)
    return replace(request, nice=request.nice - ahead).words


def queue_of(
    trace: Trace,
    instant: float,
    waiting: Sequence[Waiting],
    shares: Mapping[tuple[int, str], int],
    *,
    is_ranked: bool = True,
    running: Collection[Name] | None = None,
    begin: float = 0.0,
) -> Queue:
    """The state at `instant` (seconds of the trace) of a log that ends then.

    waiting, running: the queue as squeue has it; without `running`, all jobs run that do in the log. shares, is_ranked, begin: as
    in `Queue`

    sacct was asked later than squeue: what happened after the instant is undone, and jobs that had left the queue follow it.
    """
    lost = _not_running(trace.frame, running)
    frame, col = _as_of(trace.frame, instant), pl.col
    trace = replace(trace, frame=frame)
    runs = frame.filter(col("state").is_in(RUNS), col("wait") >= 0, col("run_time") <= 0)
    runs = runs.filter(~col("job_number").is_in(lost))
    elapsed = instant - col("submit") - col("wait") - (col("suspended").fill_null(0) if "suspended" in frame.columns else 0.0)
    runs = runs.unique("job_number", keep="last", maintain_order=True).with_columns(elapsed=elapsed.clip(0.0))
    if "array_limit" in frame.columns:
        # The tasks that wait are an array of their own: it has the limit.
        runs = runs.with_columns(array_job=pl.lit(None, pl.Int64))
    pending = frame.filter(~col("state").is_in(RUNS), col("wait") < 0).unique("job_number", keep="last", maintain_order=True)
    wanted = pl.DataFrame(
        [(place, one.name, *one.key, one.ahead, one.promised) for place, one in enumerate(waiting) if not one.is_held],
        schema={
            "place": pl.Int64,
            "name": pl.String,
            "number": pl.Int64,
            "task": pl.Int64,
            "ahead": pl.Int64,
            "promised": pl.Float64,
        },
        orient="row",
    )
    found = _found(pending, wanted)
    known = [one.number for one in waiting]
    gone = pending.filter(col(_LATER), ~col("job_number").is_in(known), ~_of_any_array(pending, known)).sort("submit")
    places = pl.int_range(wanted.height, wanted.height + pl.len())
    unknown = pl.lit(None, pl.Float64)
    gone = gone.with_columns(place=places, name=_names(gone), ahead=pl.lit(0, pl.Int64), promised=unknown)
    found = pl.concat([found, gone.select(found.columns)])
    last = _last_number(frame)
    repeated = ~col("job_number").is_first_distinct()
    rows = found.sort("place").with_columns(
        job_number=pl.when(repeated).then(last + repeated.cum_sum().cast(pl.Int64)).otherwise("job_number"),
        promised=col("promised") - float(trace.header.get("UnixStartTime", 0)),
    )
    absent = wanted.join(found, on="place", how="anti")["name"]
    missing = {
        **{one.name: HELD for one in waiting if one.is_held},
        **dict.fromkeys(absent, NOT_RECORDED),
        **dict.fromkeys(map(str, lost), NOT_RUNNING),
    }
    trace, runs, rows = replace(trace, frame=frame.drop(_LATER)), runs.drop(_LATER), rows.drop(_LATER)
    return Queue(trace, instant, runs, rows, missing, shares, is_ranked, begin)


def _not_running(frame: pl.DataFrame, running: Collection[Name] | None) -> Sequence[int]:
    """The numbers of the jobs that run in the log without an end, and are not in the queue: slurmctld has lost them."""
    live = frame.filter(pl.col("state").is_in(RUNS), pl.col("wait") >= 0, pl.col("run_time") <= 0)
    if running is None or live.is_empty():
        return []
    tasks = zip(*(live[name] for name in ("array_job", "array_task")), strict=True) if "array_job" in live.columns else None
    names = [
        (number, None) if task is None or task[1] is None else task
        for number, task in zip(live["job_number"], tasks or [None] * live.height, strict=True)
    ]
    return [number for number, name in zip(live["job_number"], names, strict=True) if name not in running]


def _names(jobs: pl.DataFrame) -> pl.Expr:
    """The names of jobs, as users write them: 12 or 12_3."""
    number = pl.col("job_number").cast(pl.String)
    if "array_job" not in jobs.columns:
        return number
    task = pl.concat_str("array_job", pl.lit("_"), "array_task")  # null if one of them is
    return pl.coalesce(task, number)


_LATER = "left the queue later"


def _as_of(frame: pl.DataFrame, instant: float) -> pl.DataFrame:
    """The log as it was at an instant, with a column _LATER: whether the job left the queue after that."""
    col, when = pl.col, pl.when
    suspended = col("suspended").fill_null(0) if "suspended" in frame.columns else 0.0
    start = col("submit") + col("wait")
    known = frame.filter(col("submit") <= instant)
    known = known.with_columns(((col("wait") >= 0) & (start > instant)).alias(_LATER))
    runs = ~col(_LATER) & (col("run_time") > 0) & (col("wait") >= 0) & (start + col("run_time") + suspended > instant)
    return known.with_columns(
        state=when(col(_LATER)).then(pl.lit(PENDING)).when(runs).then(pl.lit(RUNS[0])).otherwise("state"),
        wait=when(col(_LATER)).then(-1.0).otherwise("wait"),
        run_time=when(col(_LATER) | runs).then(-1.0).otherwise("run_time"),
        status=when(col(_LATER) | runs).then(-1).otherwise("status"),
    )


def _of_any_array(pending: pl.DataFrame, numbers: Sequence[int]) -> pl.Expr:
    """Whether a job is a task of an array that is in the queue."""
    return pl.col("array_job").is_in(numbers).fill_null(False) if "array_job" in pending.columns else pl.lit(False)


def _found(pending: pl.DataFrame, wanted: pl.DataFrame) -> pl.DataFrame:
    """The rows of the log for the jobs of the queue: a task that has no row has that of its array."""
    if "array_job" not in pending.columns:
        return pending.join(wanted, left_on="job_number", right_on="number").drop("task")
    tasks = pending.filter(pl.col("array_task").is_not_null())
    own = tasks.join(wanted, left_on=["array_job", "array_task"], right_on=["number", "task"])
    rest = wanted.join(own, on="place", how="anti")
    others = pending.filter(pl.col("array_task").is_null())
    of_arrays = others.join(rest.filter(pl.col("task").is_not_null()), left_on="job_number", right_on="number")
    of_arrays = of_arrays.with_columns(array_task=pl.col("task"), array_job=pl.col("job_number")).drop("task")
    single = others.join(rest.filter(pl.col("task").is_null()), left_on="job_number", right_on="number").drop("task")
    return pl.concat([part.select(own.columns) for part in (own, of_arrays, single)])
