"""Computes the dependencies with which jobs are submitted, from those of the log (--dependency of sbatch).

In the log it is known how the jobs that a dependency names ended, and whether the dependent job ran. In the emulation all jobs
complete. Jobs are therefore submitted with the outcome of a dependency, not with its original condition:

* A job that ran had its conditions fulfilled. `afterok`, `afternotok` and `aftercorr` become `afterany`: the job starts when the
  others have ended, in whatever state, and cannot wait forever. (MinJobAge after their end slurmctld no longer knows these jobs;
  it then treats `afterany` as fulfilled, but since 23.02 refuses `afterok`.)
* A job that was cancelled while it waited for a condition that was not fulfilled never starts: `never`.
* `after` (the others have started, or started some minutes ago) is kept.

A job that was held in the log until it was cancelled never starts either, also without dependencies (DEPENDENCIES=none).

SWF has a preceding job and a think time instead: the replay submits such a job that long after the end of the preceding job.

In the plan a dependency is text: `never`, or `afterany:12:14,after:15+2` with job numbers of the log, with `?` instead of `,` if
one of the conditions is enough.
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
    """A job that a condition names: its number, the task if it is one of an array, and minutes after its start (`after` only)."""

    job: int
    task: int | None = None
    minutes: int = 0


@dataclass(frozen=True)
class Condition:
    """A condition of a dependency: its type, one of `_TYPES`, and the jobs that it names."""

    kind: str
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Dependency:
    """The conditions of a dependency; all must be fulfilled, or, with `one_is_enough`, one of them."""

    conditions: tuple[Condition, ...]
    one_is_enough: bool = False


def parse(text: str) -> Dependency:
    """Parses the value of `--dependency`; the default type (`7`, `7,8`) is afterany.

    Raises ValueError for types that cannot be reproduced from a log (`singleton`, `expand`, `afterburstbuffer`) and for text that
    sbatch would refuse.
    """
    if "," in text and "?" in text:
        raise ValueError(f"{text!r}: both ',' and '?'")
    return Dependency(tuple(_condition(part) for part in re.split("[,?]", text)), "?" in text)


def _condition(text: str) -> Condition:
    kind, *rest = text.lower().split(":")
    if kind.isdecimal() or "_" in kind:
        kind, rest = "afterany", [kind, *rest]
    if kind not in _TYPES or not rest:
        raise ValueError(f"{text!r}: not one of {', '.join(_TYPES)} with job numbers")
    return Condition(kind, tuple(_target(word) for word in rest))


def _target(text: str) -> Target:
    match = _TARGET.match(text)
    if match is None:
        raise ValueError(f"{text!r}: not a job number")
    task = match["task"]
    return Target(int(match["job"]), int(task) if task and task != "*" else None, int(match["minutes"] or 0))


@dataclass(frozen=True)
class Job:
    """A job of a log. Instants are seconds of the trace, None if unknown."""

    id: int
    number: int
    array_job: int | None
    array_task: int | None
    ran: bool
    status: int
    start: float | None
    end: float | None


class Jobs:
    """The jobs of a workload in order of submission, indexed by job number, array job and array task."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._places: dict[tuple[int, int | None], list[int]] = {}
        for place, job in enumerate(jobs):
            # A task also has a number of its own (JobIDRaw); the last task has that of the array.
            keys: set[tuple[int, int | None]] = {(job.number, None)}
            if job.array_job is not None:
                keys |= {(job.array_job, None), (job.array_job, job.array_task)}
            for key in keys:
                self._places.setdefault(key, []).append(place)

    def before(self, place: int, target: Target, kind: str) -> list[Job]:
        """Jobs of `target` that come before the job at `place`. For aftercorr a task depends on the task with the same index."""
        task = target.task
        if kind == "aftercorr" and task is None and self._jobs[place].array_task is not None:
            own = self._jobs[place].array_task
            task = own if (target.job, own) in self._places else None
        return [self._jobs[other] for other in self._places.get((target.job, task), []) if other < place]


def resolve(jobs: pl.DataFrame, factor: float) -> tuple[pl.Series, pl.Series, dict[str, int]]:
    """The dependency with which each job is submitted ("" for none); whether it has one that is left out, though the log does not
    contradict it; and the number of jobs by outcome of their dependencies.

    jobs: SWF frame in order of submission, with the columns that sacct adds, and `id`, `ran` and `preset` (`workload.Workload`)
    factor: virtual seconds per trace second
    """
    counts: Counter[str] = Counter()
    if "dependency" not in jobs.columns:
        return pl.Series("dependency", [""] * jobs.height, pl.String), pl.repeat(False, jobs.height, eager=True), {}
    known = _jobs(jobs)
    index = Jobs(known)
    resolved, lost = [""] * jobs.height, [False] * jobs.height
    for place, (text, preset) in enumerate(jobs.select("dependency", "preset").iter_rows()):
        if text and preset != RUNNING:
            resolved[place], outcomes = _resolve_one(text, place, known[place], index, factor)
            counts.update(outcomes)
            lost[place] = not resolved[place] and outcomes != {"dependencies_contradicted"}
    return pl.Series("dependency", resolved, pl.String), pl.Series(lost), dict(counts)


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


def _resolve_one(text: str, place: int, job: Job, jobs: Jobs, factor: float) -> tuple[str, set[str]]:
    """The dependency with which a job is submitted, and the outcomes of its dependency in the log (names of counts)."""
    try:
        dependency = parse(text)
    except ValueError:
        return "", {"dependencies_unknown"}
    outcomes: set[str] = set()
    conditions: list[tuple[str, list[tuple[Job, int]]]] = []
    contradicted = 0
    for condition in dependency.conditions:
        matches = [(target, jobs.before(place, target, condition.kind)) for target in condition.targets]
        if not all(others for _, others in matches):
            outcomes.add("dependencies_outside")
        others = [(other, target.minutes) for target, listed in matches for other in listed]
        kept = [(other, minutes) for other, minutes in others if condition.kind == "after" or not _started_before_end(job, other)]
        contradicted += len(kept) < len(others)
        conditions.append((condition.kind, kept))
    either = dependency.one_is_enough
    if outcomes and either:
        return "", outcomes  # a job outside of the selection may have fulfilled the one condition that was enough
    parts = [part for kind, others in conditions if (part := _part(kind, others, factor))]
    if contradicted and not (either and parts):
        outcomes.add("dependencies_contradicted")
    if not parts:
        return "", outcomes
    unfulfilled = [_unfulfilled(kind, others) for kind, others in conditions]
    if not job.ran and (all(unfulfilled) if either else any(unfulfilled)):
        return NEVER, outcomes | {"dependencies_never"}
    return ("?" if either else ",").join(parts), outcomes | {"dependencies"}


def _started_before_end(job: Job, other: Job) -> bool:
    """Whether a job started over 1 s (sacct's resolution) before the other ended: the dependency was removed meanwhile."""
    return job.start is not None and other.end is not None and job.start < other.end - 1


def _part(kind: str, others: Iterable[tuple[Job, int]], factor: float) -> str:
    """The text of a condition in the plan; `others`: the jobs that it names, each with minutes after its start; "" without any."""
    if kind != "after":
        return "".join(("afterany", *(f":{number}" for number in dict.fromkeys(other.id for other, _ in others)))) if others else ""
    targets = []
    for other, minutes in others:
        delay = round(minutes * factor)
        targets.append(f":{other.id}+{delay}" if delay else f":{other.id}")
    return "".join(("after", *dict.fromkeys(targets))) if targets else ""


def _unfulfilled(kind: str, others: Sequence[tuple[Job, int]]) -> bool:
    """Whether the final states of the other jobs did not fulfil a condition."""
    statuses = [other.status for other, _ in others]
    if kind in ("afterok", "aftercorr"):
        return any(status in (0, 5) for status in statuses)
    return kind == "afternotok" and bool(statuses) and all(status == 1 for status in statuses)


def waiting(window: pl.DataFrame, depend: str, factor: float) -> tuple[pl.DataFrame, dict[str, int]]:
    """Adds the columns `dependency`, `follows` and `think_virtual` (`workload.Workload`), and `dependency_lost`, whether the job
    has a dependency of sacct that is left out though the log does not contradict it; and the number of jobs by outcome.

    depend: "keep", "think" or "none" (`workload.prepare`)
    factor: virtual seconds per trace second
    """
    no_job, no_time = pl.lit(None, pl.Int64), pl.lit(None, pl.Float64)
    if depend == "think":
        return _following(window, factor)
    counts: dict[str, int] = {}
    resolved = pl.Series("dependency", [""] * window.height, pl.String)
    lost = window["dependency"].is_not_null() if "dependency" in window.columns else pl.repeat(False, window.height, eager=True)
    if depend == "keep":
        resolved, lost, counts = resolve(window, factor)
    held = _held(window)
    resolved = pl.select(pl.when(held).then(pl.lit(NEVER)).otherwise(resolved).alias("dependency")).to_series()
    if held.any():
        counts["held"] = window.filter(held).height
    return window.with_columns(resolved, follows=no_job, think_virtual=no_time, dependency_lost=lost), counts


def _held(window: pl.DataFrame) -> pl.Series:
    """Whether each job was held in the log until it was cancelled (column `held` of sacct), and has no dependency there."""
    if "held" not in window.columns:
        return pl.repeat(False, window.height, eager=True)
    depends = pl.col("dependency").is_not_null() if "dependency" in window.columns else pl.lit(False)
    return window.select(pl.col("held") & ~depends).to_series()


def _following(window: pl.DataFrame, factor: float) -> tuple[pl.DataFrame, dict[str, int]]:
    """Adds the columns `dependency`, `follows` and `think_virtual` from SWF's fields 17 and 18; and the number of jobs by outcome.

    A job keeps its own instant of submission if it is a preset job, if its preceding job is not selected or does not come before
    it, or if its think time is unknown.
    """
    col = pl.col
    places = window.with_row_index("place")
    before = places.unique("job_number", keep="first").select(preceding_job="job_number", follows="id", place_before="place")
    joined = places.join(before, on="preceding_job", how="left", maintain_order="left")
    named = (col("preceding_job") > 0) & (col("preset") == "")
    selected = (col("place_before") < col("place")).fill_null(False)
    holds = named & selected & (col("think_time") >= 0)
    counts = {
        "following": joined.filter(holds).height,
        "following_outside": joined.filter(named & ~selected).height,
        "think_time_unknown": joined.filter(named & selected & (col("think_time") < 0)).height,
    }
    added = joined.with_columns(
        dependency=pl.lit(""),
        dependency_lost=pl.lit(False),
        follows=pl.when(holds).then("follows"),
        think_virtual=pl.when(holds).then(col("think_time") * factor),
    )
    return added, counts


def arrays(window: pl.DataFrame) -> dict[str, int]:
    """Number of tasks of job arrays, and of arrays."""
    if "array_task" not in window.columns:
        return {}
    tasks = window.filter(pl.col("array_task").is_not_null())
    return {
        "array_tasks": tasks.height,
        "arrays": tasks["array_job"].n_unique(),
    }
