"""Dependencies of jobs as sbatch was given them (--dependency), and what is played of them.

In a log a dependency has a history: the jobs that it names have ended in some way, and the one that has it ran or did not. Jobs
that are played all end well, so what is played is not the condition but what it came to:

* A job that ran had its conditions fulfilled. It is submitted with `afterany`, whatever the type: it starts when the others have
  ended, however they do, and never waits for ever. (Slurm lifts it too when it has forgotten the others, MinJobAge after their end,
  where since 23.02 it would refuse `afterok`.)
* A job that was cancelled while it waited, because (or although) a condition could not be fulfilled any more, is never started:
  `never`.
* `after` (the others have started, or so many minutes ago) stays.

SWF has something else, a preceding job and the time that its user thought before the next was submitted: such a job is submitted
when that one has ended, so it is the replay that waits.

What a job is played with is text in a plan: `never`, or `afterany:12:14,after:15+2` with the log's numbers of the jobs, `?` in the
place of `,` where one is enough.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from mirage.workloads.presets import RUNNING
from slurm_mirage.jobs.plan import NEVER

_TYPES = ("after", "afterany", "afterok", "afternotok", "aftercorr")
_TARGET = re.compile(r"(?P<job>[1-9]\d{0,14})(_(?P<task>\d{1,15}|\*))?(\+(?P<minutes>\d{1,9}))?(\([a-z]*\))?\Z")


@dataclass(frozen=True)
class Target:
    """A job that is waited for: its number, the task where it is one of an array, and minutes after its start (`after` only)."""

    job: int
    task: int | None = None
    minutes: int = 0


@dataclass(frozen=True)
class Condition:
    """Jobs that are waited for, and until when: one of `_TYPES`."""

    kind: str
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Dependency:
    """Conditions, of which all or any one must be fulfilled."""

    conditions: tuple[Condition, ...]
    one_is_enough: bool = False


def parse(text: str) -> Dependency:
    """What `--dependency` says; without a type (`7`, `7,8`) it is afterany. ValueError for what cannot be played from a log:
    `singleton`, `expand`, `afterburstbuffer`, and what sbatch would not take."""
    if "," in text and "?" in text:
        raise ValueError(f"{text!r}: both ',' and '?'")
    return Dependency(tuple(_condition(part) for part in re.split("[,?]", text)), "?" in text)


def _condition(text: str) -> Condition:
    kind, *rest = text.lower().split(":")
    if kind.isdecimal() or "_" in kind:
        kind, rest = "afterany", [kind, *rest]
    if kind not in _TYPES or not rest:
        raise ValueError(f"{text!r}: none of {', '.join(_TYPES)} with numbers of jobs")
    return Condition(kind, tuple(_target(word) for word in rest))


def _target(text: str) -> Target:
    match = _TARGET.match(text)
    if match is None:
        raise ValueError(f"{text!r}: not the number of a job")
    task = match["task"]
    return Target(int(match["job"]), int(task) if task and task != "*" else None, int(match["minutes"] or 0))


@dataclass(frozen=True)
class Job:
    """What is to be known of a job of a log. Instants are seconds of the trace, None if not known."""

    id: int
    number: int
    array_job: int | None
    array_task: int | None
    ran: bool
    status: int
    start: float | None
    end: float | None


class Jobs:
    """The jobs of a workload in its order, found by the numbers that users know: of a job, of an array, of one of its tasks."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._places: dict[tuple[int, int | None], list[int]] = {}
        for place, job in enumerate(jobs):
            # A task has a number of its own too (JobIDRaw), and the last one has the array's.
            keys: set[tuple[int, int | None]] = {(job.number, None)}
            if job.array_job is not None:
                keys |= {(job.array_job, None), (job.array_job, job.array_task)}
            for key in keys:
                self._places.setdefault(key, []).append(place)

    def before(self, place: int, target: Target, kind: str) -> list[Job]:
        """Those of `target` that come before the job in that place; a task waits by aftercorr for its own counterpart."""
        task = target.task
        if kind == "aftercorr" and task is None and self._jobs[place].array_task is not None:
            own = self._jobs[place].array_task
            task = own if (target.job, own) in self._places else None
        return [self._jobs[other] for other in self._places.get((target.job, task), []) if other < place]


def resolve(jobs: pl.DataFrame, factor: float) -> tuple[pl.Series, dict[str, int]]:
    """What each job is played with (empty: no dependency), and counts of jobs by what became of theirs.

    `jobs`: in the order of submission, an SWF frame with the columns that sacct adds, `id`, `ran` and `preset`
    (`workload.Workload`).
    `factor`: by which times are shrunk.
    """
    counts: Counter[str] = Counter()
    if "dependency" not in jobs.columns:
        return pl.Series("dependency", [""] * jobs.height, pl.String), {}
    known = _jobs(jobs)
    index = Jobs(known)
    played = [""] * jobs.height
    for place, (text, preset) in enumerate(jobs.select("dependency", "preset").iter_rows()):
        if text and preset != RUNNING:
            played[place], outcomes = _played(text, place, known[place], index, factor)
            counts.update(outcomes)
    return pl.Series("dependency", played, pl.String), dict(counts)


def _jobs(jobs: pl.DataFrame) -> list[Job]:
    col = pl.col
    unknown = pl.lit(None, pl.Int64)
    start = pl.when(col("ran") & (col("wait") >= 0)).then(col("submit") + col("wait"))
    suspended = col("suspended") if "suspended" in jobs.columns else pl.lit(0.0)
    rows = jobs.select(
        "id",
        "job_number",
        *(col(name) if name in jobs.columns else unknown.alias(name) for name in ("array_job", "array_task")),
        "ran",
        "status",
        start.alias("start"),
        pl.when(col("run_time") >= 0).then(start + col("run_time") + suspended).alias("end"),
    )
    return [Job(*row) for row in rows.iter_rows()]


def _played(text: str, place: int, job: Job, jobs: Jobs, factor: float) -> tuple[str, set[str]]:
    """What a job is played with, and what became of the dependency that the log has."""
    try:
        dependency = parse(text)
    except ValueError:
        return "", {"dependencies_unknown"}
    outcomes: set[str] = set()
    conditions: list[tuple[str, list[tuple[Job, int]]]] = []
    early = 0
    for condition in dependency.conditions:
        found = [(target, jobs.before(place, target, condition.kind)) for target in condition.targets]
        if not all(others for _, others in found):
            outcomes.add("dependencies_outside")
        others = [(other, target.minutes) for target, listed in found for other in listed]
        kept = [one for one in others if condition.kind == "after" or not _before_its_end(job, one[0])]
        early += len(kept) < len(others)
        conditions.append((condition.kind, kept))
    either = dependency.one_is_enough
    if outcomes and either:
        return "", outcomes  # what is not there may have been the one that was enough
    parts = [part for kind, others in conditions if (part := _part(kind, others, factor))]
    if early and not (either and parts):
        outcomes.add("dependencies_contradicted")
    if not parts:
        return "", outcomes
    unfulfilled = [_unfulfilled(kind, others) for kind, others in conditions]
    if not job.ran and (all(unfulfilled) if either else any(unfulfilled)):
        return NEVER, outcomes | {"dependencies_never"}
    return ("?" if either else ",").join(parts), outcomes | {"dependencies"}


def _before_its_end(job: Job, other: Job) -> bool:
    """Whether a job started before the other ended: somebody took the dependency away meanwhile. sacct has whole seconds."""
    return job.start is not None and other.end is not None and job.start < other.end - 1


def _part(kind: str, others: Iterable[tuple[Job, int]], factor: float) -> str:
    if kind != "after":
        return "".join(("afterany", *(f":{number}" for number in dict.fromkeys(other.id for other, _ in others)))) if others else ""
    words = []
    for other, minutes in others:
        delay = round(minutes * factor)
        words.append(f":{other.id}+{delay}" if delay else f":{other.id}")
    return "".join(("after", *dict.fromkeys(words))) if words else ""


def _unfulfilled(kind: str, others: Sequence[tuple[Job, int]]) -> bool:
    """Whether a condition was not fulfilled by the way in which the others ended."""
    statuses = [other.status for other, _ in others]
    if kind in ("afterok", "aftercorr"):
        return any(status in (0, 5) for status in statuses)
    return kind == "afternotok" and bool(statuses) and all(status == 1 for status in statuses)


def waiting(window: pl.DataFrame, depend: str, factor: float) -> tuple[pl.DataFrame, dict[str, int]]:
    """Adds `dependency`, `follows` and `think_virtual`; and counts of jobs by what became of what the log says."""
    nothing, no_time = pl.lit(None, pl.Int64), pl.lit(None, pl.Float64)
    if depend == "think":
        return _following(window, factor)
    counts: dict[str, int] = {}
    found = pl.Series("dependency", [""] * window.height, pl.String)
    if depend == "keep":
        found, counts = resolve(window, factor)
    return window.with_columns(found, follows=nothing, think_virtual=no_time), counts


def _following(window: pl.DataFrame, factor: float) -> tuple[pl.DataFrame, dict[str, int]]:
    """The same of SWF's fields 17 and 18. A job whose preceding one does not come before it here, or whose think time is not known,
    keeps its own instant; so do presets, which are there already."""
    col = pl.col
    places = window.with_row_index("place")
    before = places.unique("job_number", keep="first").select(preceding_job="job_number", follows="id", place_before="place")
    joined = places.join(before, on="preceding_job", how="left", maintain_order="left")
    named = (col("preceding_job") > 0) & (col("preset") == "")
    there = (col("place_before") < col("place")).fill_null(False)
    holds = named & there & (col("think_time") >= 0)
    counts = {
        "following": joined.filter(holds).height,
        "following_outside": joined.filter(named & ~there).height,
        "think_time_unknown": joined.filter(named & there & (col("think_time") < 0)).height,
    }
    added = joined.with_columns(
        dependency=pl.lit(""),
        follows=pl.when(holds).then("follows"),
        think_virtual=pl.when(holds).then(col("think_time") * factor),
    )
    return added, counts


def arrays(window: pl.DataFrame) -> dict[str, int]:
    """Tasks of arrays, which are played as jobs of their own; and how many of them had to take turns, which is not played."""
    if "array_task" not in window.columns:
        return {}
    tasks = window.filter(pl.col("array_task").is_not_null())
    return {
        "array_tasks": tasks.height,
        "arrays": tasks["array_job"].n_unique(),
        "array_tasks_limited": tasks.filter(pl.col("array_limit") > 0).height,
    }
