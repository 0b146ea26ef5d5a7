"""Small schedules for the tests of metrics, and a second implementation of every metric: slow, plain Python, obvious."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import polars as pl
from scipy import stats

from mirage.metrics.jobs_frame import ALLOCATIONS_SCHEMA, EXECUTIONS_SCHEMA, JOBS_SCHEMA, SUSPENSIONS_SCHEMA


def frame(*jobs: dict[str, Any]) -> pl.DataFrame:
    """A jobs frame; what a row does not say is one processor, completed, never suspended, otherwise unknown."""
    base = {**dict.fromkeys(JOBS_SCHEMA), "processors": 1, "state": "COMPLETED", "suspended": 0.0}
    rows = [{**base, "id": number, **job} for number, job in enumerate(jobs, 1)]
    return pl.DataFrame(rows, schema=JOBS_SCHEMA)


def stops(*periods: tuple[int, float | None, float | None]) -> pl.DataFrame:
    return pl.DataFrame(list(periods), schema=SUSPENSIONS_SCHEMA, orient="row")


class Job(NamedTuple):
    """It is submitted at a, waits for w, is suspended for z, runs for t on p processors of c nodes; or is cancelled after w.

    changes: seconds after the start, processors and nodes from then on; in order of time
    earlier: begin and end of executions before, in seconds after the submission, within the wait
    ineligible: for how long after its submission it is not eligible
    failed: its node failed, so that its work is lost
    """

    a: float
    w: float
    t: float
    z: float
    p: int
    c: int
    cancelled: bool = False
    preset: bool = False
    changes: tuple[tuple[float, int, int], ...] = ()
    earlier: tuple[tuple[float, float], ...] = ()
    ineligible: float = 0.0
    failed: bool = False

    def runs_earlier(self, now: float) -> bool:
        return any(self.a + begin <= now < self.a + end for begin, end in self.earlier)

    def waits(self, now: float) -> bool:
        """Whether it asks for processors."""
        return self.a + self.ineligible <= now < self.s and not self.runs_earlier(now)

    def size(self, now: float) -> tuple[int, int]:
        """Processors and nodes at this time, or of those that it would hold if it were not suspended."""
        size = (self.p, self.c)
        for after, *changed in self.changes:
            if self.s + after <= now:
                size = changed[0], changed[1]
        return size

    @property
    def m(self) -> float:
        """Mean number of processors while it runs."""
        marks = sorted(
            {self.s + self.z, self.f, *(self.s + after for after, *_ in self.changes if self.z < after < self.z + self.t)}
        )
        if self.t == 0:
            return self.p
        return math.fsum((then - now) * self.size(now)[0] for now, then in itertools.pairwise(marks)) / self.t

    @property
    def resizes(self) -> int:
        """How often it changes its size before its end."""
        sizes = [(self.p, self.c), *(tuple(size) for after, *size in self.changes if self.s + after < self.f)]
        return sum(before != after for before, after in itertools.pairwise(sizes))

    @property
    def s(self) -> float:
        return self.a + self.w

    @property
    def f(self) -> float:
        return self.a + self.w + self.z + self.t

    @property
    def r(self) -> float:
        return self.w + self.z + self.t


def as_frames(jobs: Sequence[Job], *, with_nodes: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The frames that `metrics.compute` takes: jobs, suspensions."""
    rows: list[dict[str, Any]] = []
    for job in jobs:
        row = {
            "submit": job.a,
            "processors": job.p,
            "nodes": job.c if with_nodes else None,
            "preset": "queued" if job.preset else None,
            "eligible": job.a + job.ineligible,
        }
        how = {"end": job.s, "state": "CANCELLED"} if job.cancelled else {"start": job.s, "end": job.f, "suspended": job.z}
        rows.append({**row, **how, **({"state": "NODE_FAIL"} if job.failed and not job.cancelled else {})})
    periods = [(n, job.s, job.s + job.z) for n, job in enumerate(jobs, 1) if job.z and not job.cancelled]
    return frame(*rows), stops(*periods)


def executions(jobs: Sequence[Job]) -> pl.DataFrame:
    """Their earlier executions, as in executions.csv."""
    rows = [(n, job.a + begin, job.a + end) for n, job in enumerate(jobs, 1) for begin, end in job.earlier]
    return pl.DataFrame(rows, schema=EXECUTIONS_SCHEMA, orient="row")


def allocations(jobs: Sequence[Job]) -> pl.DataFrame:
    """Their changes of size, as in allocations.csv."""
    rows = [(n, job.s + after, c, p) for n, job in enumerate(jobs, 1) if not job.cancelled for after, p, c in job.changes]
    return pl.DataFrame(rows, schema=ALLOCATIONS_SCHEMA, orient="row")


class Piece(NamedTuple):
    """For dt seconds jobs waited that asked for so many processors, so many processors and nodes were busy, and so many of these
    processors with work that was lost."""

    dt: float
    waiting: int
    busy: int
    busy_nodes: int
    lost: int = 0


def by_looking(jobs: Sequence[Job], begin: float, end: float) -> list[Piece]:
    """Looks at every job at every moment at which anything happens."""
    marks = {m for job in jobs for m in (job.a, job.s, job.s + job.z, job.f, *(job.s + after for after, *_ in job.changes))}
    marks |= {job.a + after for job in jobs for after in (job.ineligible, *(at for execution in job.earlier for at in execution))}
    marks = {m for m in marks if begin < m < end} | {begin, end}
    pieces = []
    for now, then in itertools.pairwise(sorted(marks)):
        waiting = [job for job in jobs if job.waits(now)]
        again = [(job.p, job.c) for job in jobs if job.runs_earlier(now)]
        busy = [job for job in jobs if not job.cancelled and job.s + job.z <= now < job.f]
        sizes = [*(job.size(now) for job in busy), *again]
        lost = sum(p for p, _ in again) + sum(job.size(now)[0] for job in busy if job.failed)
        pieces.append(Piece(then - now, sum(job.p for job in waiting), sum(p for p, _ in sizes), sum(c for _, c in sizes), lost))
    return pieces


def by_sweeping(jobs: Sequence[Job], begin: float, end: float) -> list[Piece]:
    """The same by a sweep over the changes, for logs of many jobs, none of them cancelled or suspended."""
    changes: dict[float, list[int]] = {begin: [0, 0, 0], end: [0, 0, 0]}
    for job in jobs:
        for moment, change in ((job.a, (job.p, 0, 0)), (job.s, (-job.p, job.p, job.c)), (job.f, (0, -job.p, -job.c))):
            total = changes.setdefault(min(max(moment, begin), end), [0, 0, 0])
            for place, step in enumerate(change):
                total[place] += step
    level, pieces = [0, 0, 0], []
    for now, then in itertools.pairwise(sorted(changes)):
        level = [before + step for before, step in zip(level, changes[now], strict=True)]
        pieces.append(Piece(then - now, *level))
    return pieces


def mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.fsum(found) / len(found) if found else None


def ratio(above: Iterable[float], below: Iterable[float]) -> float | None:
    divisor = math.fsum(below)
    return math.fsum(above) / divisor if divisor else None


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def restricted_mean(waits: Sequence[float], censored: Sequence[float]) -> float:
    """Area below scipy's Kaplan-Meier estimate of the share of jobs that still wait, up to the longest wait."""
    still = stats.ecdf(stats.CensoredData(uncensored=list(waits), right=list(censored))).sf
    edges = [0.0, *still.quantiles]
    return math.fsum(high * (b - a) for high, (a, b) in zip([1.0, *still.probabilities], itertools.pairwise(edges), strict=False))


class Measured(NamedTuple):
    metrics: dict[str, float | None]
    distribution: dict[int, float] | None
    classes: dict[tuple[str, str], dict[str, float | None]]


def slowly(
    jobs: Sequence[Job],
    processors: int,
    nodes: int,
    *,
    tau: float = 10.0,
    warmup: float = 0.0,
    cooldown: float = 0.0,
    looks: Callable[[Sequence[Job], float, float], list[Piece]] = by_looking,
) -> Measured | None:
    """All metrics, the distribution of busy nodes, and the classes; None if the cuts leave nothing, or only presets ran."""
    ran = [job for job in jobs if not job.cancelled]
    begin, end = min(job.a for job in ran) + warmup, max(job.f for job in ran) - cooldown
    span = end - begin
    inside = [job for job in ran if begin <= job.a <= end and not job.preset]
    if not inside or ((warmup or cooldown) and span <= 0):
        return None
    pieces = looks(jobs, begin, end)
    lost = math.fsum(min(piece.waiting, max(0, processors - piece.busy)) * piece.dt for piece in pieces)
    used = math.fsum(piece.busy * piece.dt for piece in pieces)
    wasted = math.fsum(piece.lost * piece.dt for piece in pieces)
    at: dict[int, list[float]] = {}
    for piece in pieces:
        at.setdefault(min(nodes, piece.busy_nodes), []).append(piece.dt)
    shares = {level: math.fsum(times) / span for level, times in sorted(at.items()) if math.fsum(times)} if span else None

    def chance(x: int) -> float:
        """F(x)."""
        assert shares is not None
        return math.fsum(share for level, share in shares.items() if level < x)

    some = [job for job in inside if job.t > 0]
    long = [job for job in inside if job.t > 1]
    waits = [job.w for job in inside]
    metrics = {
        "wait_mean": mean(waits),
        "wait_median": statistics.median(waits),
        **{f"wait_p{n}": percentile(waits, n / 100) for n in (90, 95, 99)},
        "wait_max": max(waits),
        "wait_restricted_mean": restricted_mean(
            waits,
            [job.w for job in jobs if job.cancelled and not job.preset and (begin <= job.a <= end or not (warmup or cooldown))],
        ),
        "response_mean": mean(job.r for job in inside),
        "slowdown_mean": mean(job.r / job.t for job in some),
        "bounded_slowdown_mean": mean(max(1, job.r / max(tau, job.t)) for job in inside),
        "pp_bounded_slowdown_mean": mean(max(1, job.r / (job.m * max(tau, job.t))) for job in inside),
        "weighted_slowdown": ratio((job.m * job.r for job in some), (job.m * job.t for job in some)),
        "weighted_slowdown_processors": ratio((job.m * job.r / job.t for job in some), (job.m for job in some)),
        "utilisation": used / (processors * span) if span else None,
        "goodput": (used - wasted) / (processors * span) if span else None,
        "wasted_fraction": wasted / used if used else None,
        # No schedule here says for how long its jobs wanted to run.
        "useful_utilisation": (used - wasted) / (processors * span) if span else None,
        "resizes_mean": mean(job.resizes for job in inside),
        # No schedule here has fillers.
        **dict.fromkeys(("filler_load", "filler_useful", "filler_lost", "filler_overhead", "filler_preemptions"), 0),
        "total_load": used / (processors * span) if span else None,
        "loss_of_capacity": lost / (processors * span) if span else None,
        # No schedule here has nodes out of service.
        "absent_fraction": 0,
        "maintenance_idle": 0,
        "utilisation_available": used / (processors * span) if span else None,
        "loss_of_capacity_available": lost / (processors * span) if span else None,
        "makespan": span,
        "W": mean(waits),
        "W1": mean(job.w / job.t for job in long),
        "W2": mean(job.w / 10 ** (len(str(int(job.t))) - 1) for job in long),
        "W3": mean(job.w / job.t * chance(nodes - job.c + 1) for job in long) if span else None,
        "W4": mean(job.w / job.t * max(0, min(1, (nodes - job.c + 1) / nodes)) for job in long),
        "immediate_fraction": mean(job.w == 0 for job in inside),
        "suspensions_mean": mean(job.z > 0 for job in inside),
        "suspended_mean": mean(job.z for job in inside),
        "suspended_fraction": mean(job.z > 0 for job in inside),
    }
    return Measured(metrics, shares, classes(inside, tau))


def size_class(job: Job) -> str:
    most = 1
    while job.p > most:
        most *= 4
    return "1" if most == 1 else f"{most // 4 + 1}-{most}"


def runtime_class(job: Job) -> str:
    minute, hour = 60, 3600
    if job.t <= minute:
        return "up to 1 min"
    if job.t <= 10 * minute:
        return "1 to 10 min"
    if job.t <= hour:
        return "10 min to 1 h"
    if job.t <= 6 * hour:
        return "1 to 6 h"
    return "6 h to 1 d" if job.t <= 24 * hour else "over 1 d"


def classes(jobs: Sequence[Job], tau: float) -> dict[tuple[str, str], dict[str, float | None]]:
    members: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        size, runtime = size_class(job), runtime_class(job)
        for name in ((size, runtime), (size, "all"), ("all", runtime), ("all", "all")):
            members.setdefault(name, []).append(job)
    return {
        name: {
            "jobs": len(group),
            "area_share": ratio((job.m * job.t for job in group), (job.m * job.t for job in jobs)),
            "wait_mean": mean(job.w for job in group),
            "wait_median": statistics.median(job.w for job in group),
            "bounded_slowdown_mean": mean(max(1, job.r / max(tau, job.t)) for job in group),
            "response_mean": mean(job.r for job in group),
            "immediate_fraction": mean(job.w == 0 for job in group),
        }
        for name, group in members.items()
    }
