"""How much of each metric of a run the emulation may have added: from the delays that were measured in the run.

docs/emulation-error.md has the method, its test and its limits. In short, three estimates of the difference that the delays make:

- in order: the run's own schedule without them, its jobs in the same order of starts
- replays: the same workload under a simulated scheduler, with the delays and without
- similar workloads: the same for workloads in which neighbouring jobs have changed places. Schedules are chaotic: a job that
  starts a moment later may let another one pass. This shows how far a metric moves by that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mirage.metrics.formulas import Maximum, OfSchedule, Quantile, Settings, expression
from mirage.metrics.measured_jobs import Window
from mirage.metrics.registry import METRICS
from mirage.statistics.intervals import Floats, ratios
from mirage.statistics.sums_over_jobs import CLASS_METRICS, sums_of

Numbers = NDArray[np.int64]

NOT_ESTIMATED = "what the emulation adds to this metric is not estimated"

_FACTOR = 1.5
"""Factor of the largest estimate, with which the half width covers the error in at least 95 % of the cases of the test."""
_SHARE = 0.8
"""Quantile of the differences of similar workloads."""
_DRAWS, _JOBS_DRAWN = 12, 40_000
"""Similar workloads, and most jobs in all of them together: fewer are drawn for long runs, but at least 4."""
_NEIGHBOURS = 3
"""Jobs change places with others up to so many places away."""
_LARGEST_SCALE = 3.0
_SHORTEST = 1e-3  # seconds: a simulated job needs a run time above 0
_ROWS = 400_000  # rows for which formulas are evaluated at a time
_DEPTH = 500
"""Waiting jobs with a reservation under conservative backfilling: Slurm's default of bf_max_job_test."""
_SEED = 1

_OF_USE = {name: one.of_use for name, metric in METRICS.items() if isinstance(one := metric.formula, OfSchedule) and one.of_use}


@dataclass(frozen=True)
class MeasuredRun:
    """A run's jobs with their delays.

    jobs: a row per job, seconds of the trace:
        due: submission that was wanted; eligible: instant before which it could not start whatever the emulation did (null: due)
        lag: from due to the acceptance; null: not measured, taken as 0
        start, end, suspended, p, c, m: as in `Population.measured`; start and end null for a job that never started
        allocated: processors that it took: with whole nodes more than p
        wanted: run time that was wanted; null where it does not follow from the workload (killed, cancelled): that of the run
        freed: from its end until its processors were free; null: not measured, the median of the others is taken
        limit: time limit; null: unknown
        leave: instant at which it was cancelled while it waited; null: never
        late: by how much it started later than its scheduler would have started it; null: not known, taken as 0. Where it is known
            of no job, the median of the times by which starts were postponed is taken for each
        counted: whether it is one of the jobs that metrics over jobs are over
    settings: of the metrics
    window: that is measured
    policies: of the simulated schedulers (simulation.POLICIES) that stand for the run's scheduler
    own_latency: seconds by which the scheduler itself postpones a start beyond the instant at which it is possible; infinity: any.
        Not part of `late`
    resolution: seconds; the run time of a job is known up to so much more or less
    cycle: seconds between two passes of the scheduler over the queue, 0: none
    drawn: seconds by which the run times that were wanted differ from the log's at most; another run draws others
    classes: (jobs, classes) whether a job, a row of `jobs`, is in a class
    """

    jobs: pl.DataFrame
    settings: Settings
    window: Window
    policies: Sequence[str]
    own_latency: float = np.inf
    resolution: float = 0.0
    cycle: float = 0.0
    drawn: float = 0.0
    classes: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Errors:
    """Half widths by metric, of the metrics of `estimated`. emulation: by how much the emulation may have changed it; replicas: by
    how much two runs of the same configuration without delays may differ, because a job may come at any instant of the scheduler's
    cycle, and has another drawn run time; classes: for each class of jobs what the emulation may have changed, by metric of
    CLASS_METRICS."""

    emulation: dict[str, float]
    replicas: dict[str, float]
    classes: list[dict[str, float]]


def half_widths(run: MeasuredRun) -> dict[str, float]:
    """By how much the emulation may have changed each metric of `estimated`. The same run gives the same values."""
    return errors(run).emulation


def errors(run: MeasuredRun) -> Errors:
    """By how much the emulation, and what each run draws, may have changed each metric."""
    arrays = _Arrays.of(run)
    late = arrays.with_latency(run.own_latency)
    # Without the latency too: it must not make up for run times that are too short.
    both = [late, arrays] if late.late.any() else [arrays]
    names = estimated(run.settings)
    observed = _values(arrays, arrays.as_recorded(), run)
    pairs = [[_values(arrays, schedule, run) for schedule in one.in_order()] for one in both]
    in_order = np.max([np.abs(np.subtract(*pair)) for pair in pairs], axis=0)
    replays, simulated, similar, phases = [], [], [], []
    draws = max(4, min(_DRAWS, _JOBS_DRAWN // max(1, arrays.count)))
    for policy in run.policies:
        drawn = [*both, *(late.shuffled(number) for number in range(draws))]
        schedules = [one.simulated(policy, delayed=delayed) for one in drawn for delayed in (True, False)]
        computed = _values_of_all(drawn, schedules, run).reshape(len(drawn), 2, -1)
        differences = np.abs(computed[:, 0] - computed[:, 1])
        simulated.append(np.abs(computed[0, 0]))
        similar.append(differences[len(both) :])
        # With a cycle no job comes at the instant of the log, so that this workload is no better than the similar ones.
        if run.cycle == 0:
            replays += list(differences[: len(both)])
        if run.cycle or run.drawn:
            others = [one.in_another_run(number) for number, one in enumerate(drawn[len(both) :])]
            again = _values_of_all(others, [one.simulated(policy, delayed=False) for one in others], run)
            phases.append(np.abs(computed[len(both) :, 1] - again))
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.nan_to_num(np.abs(observed) / np.max(simulated, axis=0), nan=1.0, posinf=_LARGEST_SCALE)
    scale = np.clip(scale, 1.0, _LARGEST_SCALE)
    chaotic = np.max([*replays, np.quantile(np.concatenate(similar), _SHARE, axis=0)], axis=0)
    widths = _FACTOR * np.maximum(in_order, scale * chaotic)
    by_draws = _FACTOR * scale * np.quantile(np.concatenate(phases), _SHARE, axis=0) if phases else np.zeros(len(widths))

    def named(names: Sequence[str], widths: Floats) -> dict[str, float]:
        return {name: float(width) for name, width in zip(names, widths, strict=True) if np.isfinite(width)}

    of_classes = widths[len(names) :].reshape(-1, len(CLASS_METRICS))
    classes = [named(CLASS_METRICS, one) for one in of_classes]
    return Errors(named(names, widths[: len(names)]), named(names, by_draws[: len(names)]), classes)


def values(run: MeasuredRun) -> dict[str, float]:
    """The metrics of `estimated` of the recorded schedule; NaN where there is none."""
    arrays = _Arrays.of(run)
    return dict(zip(estimated(run.settings), _values(arrays, arrays.as_recorded(), run).tolist(), strict=False))


def estimated(settings: Settings) -> list[str]:
    """Names of the metrics whose error is estimated: those over jobs that have nothing to do with suspensions, and two more."""
    return [*_sums(settings)[0], *(name for name, _ in _order_statistics()), *_OF_USE]


# ---- schedules ----


@dataclass(frozen=True)
class _Schedule:
    """start, end, run (time of execution) of each job; NaN for jobs that never start."""

    start: Floats
    end: Floats
    run: Floats


@dataclass(frozen=True)
class _Arrays:
    """The jobs in order of `due`, as arrays in seconds; of a job that never started start and end are NaN.

    hold_off: from due until it could start, whatever the emulation did
    run, wanted: run time with the delays, and without
    paused: for how long it was suspended
    leave: from due until it is cancelled if it still waits; infinity: never
    within: whether it is one of the jobs that metrics over jobs are over
    classes: (jobs, classes) whether it is in a class, 0 or 1
    late: by how much later it started than its scheduler would have started it
    phase: until the scheduler considers it, because of its cycle
    """

    due: Floats
    hold_off: Floats
    lag: Floats
    start: Floats
    end: Floats
    run: Floats
    wanted: Floats
    paused: Floats
    freed: Floats
    limit: Floats
    leave: Floats
    p: Numbers
    allocated: Numbers
    c: Floats
    m: Floats
    within: NDArray[np.bool_]
    classes: Floats
    phase: Floats
    late: Floats
    measured_late: Floats
    resolution: float
    cycle: float
    drawn: float
    machine: int

    @classmethod
    def of(cls, run: MeasuredRun) -> _Arrays:
        order = np.argsort(run.jobs["due"].to_numpy(), kind="stable")
        jobs = run.jobs[order]
        classes = np.empty((len(order), 0)) if run.classes is None else run.classes[order].astype(np.float64)
        float_of = {
            name: jobs[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() for name in jobs.columns if name != "counted"
        }
        due, start, end = float_of["due"], float_of["start"], float_of["end"]
        ran = ~np.isnan(start)
        paused = np.where(ran, np.nan_to_num(float_of["suspended"]), 0.0)
        executed = end - start - paused
        wanted = np.where(np.isnan(float_of["wanted"]), executed, float_of["wanted"])
        freed = float_of["freed"]
        freed = np.where(np.isnan(freed), np.nanmedian(freed) if (~np.isnan(freed)).any() else 0.0, freed)
        machine = run.settings.processors
        return cls(
            due=due,
            hold_off=np.maximum(np.nan_to_num(float_of["eligible"] - due), 0.0),
            lag=np.maximum(np.nan_to_num(float_of["lag"]), 0.0),
            start=start,
            end=end,
            run=np.where(ran, executed, wanted),
            wanted=wanted,
            paused=paused,
            freed=np.maximum(freed, 0.0),
            limit=np.where(np.isnan(float_of["limit"]), wanted, float_of["limit"]),
            leave=np.where(np.isnan(float_of["leave"]), np.inf, float_of["leave"] - due),
            p=jobs["p"].to_numpy(),
            allocated=np.clip(jobs["allocated"].to_numpy(), 1, machine).astype(np.int64),
            c=float_of["c"],
            m=float_of["m"],
            within=jobs["counted"].to_numpy(),
            classes=classes,
            phase=np.zeros(len(due)),
            late=np.zeros(len(due)),
            measured_late=float_of["late"],
            resolution=run.resolution,
            cycle=run.cycle,
            drawn=run.drawn,
            machine=machine,
        )

    @property
    def count(self) -> int:
        return len(self.due)

    def _arrival(self, *, delayed: bool) -> Floats:
        return self.due + (np.maximum(self.hold_off, self.lag) if delayed else self.hold_off) + self.phase

    def _held(self, *, delayed: bool) -> Floats:
        """For how long a job holds its processors; a late one from the instant on at which it should have started."""
        executed = self.run + self.freed + self.late if delayed else self.wanted
        return np.maximum(executed + self.paused, _SHORTEST)

    def _with_starts(self, start: Floats, *, delayed: bool) -> _Schedule:
        run = self.run if delayed else self.wanted
        return _Schedule(start, start + run + self.paused, run)

    def as_recorded(self) -> _Schedule:
        return _Schedule(self.start, self.end, self.run)

    def with_latency(self, own: float) -> _Arrays:
        """A copy with `late`, the seconds by which each job started too late: as measured, and 0 where it was not measured.

        If it was measured for no job, all get the median of the seconds by which jobs were postponed, less `own`: seconds by which
        the scheduler itself postpones a start.
        """
        known = ~np.isnan(self.measured_late)
        if known.any():
            return replace(self, late=np.where(known, self.measured_late, 0.0))
        postponed = self._postponements()[1]
        median = float(np.median(postponed)) if len(postponed) else 0.0
        return replace(self, late=np.full(self.count, max(0.0, median - own)))

    def _postponements(self) -> tuple[Numbers, Floats]:
        """The jobs that started, in order of their starts; and for how long each was postponed, see in_order.py."""
        from mirage.simulation import in_order

        ran = np.flatnonzero(~np.isnan(self.start))
        order = ran[np.argsort(self.start[ran], kind="stable")]
        arrival = self._arrival(delayed=True)[order]
        held = np.maximum(self.run + self.freed + self.paused, _SHORTEST)[order]
        return order, in_order.postponements(arrival, self.allocated[order], held, self.start[order], self.machine)

    def in_order(self) -> tuple[_Schedule, _Schedule]:
        """The schedule with the delays and without: jobs start in the recorded order, and are postponed beyond what keeps them
        waiting by the same times; without the delays not by the part that is late. The first is the recorded schedule, unless jobs
        used processors that others hold here (of suspended jobs, or shared ones)."""
        from mirage.simulation import in_order

        order, postponed = self._postponements()
        starts = np.full((2, self.count), np.nan)
        recorded = np.maximum(self.run + self.freed + self.paused, _SHORTEST)
        for row, held, by in (
            (0, recorded, postponed),
            (1, self._held(delayed=False), np.maximum(postponed - self.late[order], 0.0)),
        ):
            arrival = self._arrival(delayed=row == 0)[order]
            starts[row, order] = in_order.starts(arrival, self.allocated[order], held[order], by, self.machine)
        return self._with_starts(starts[0], delayed=True), self._with_starts(starts[1], delayed=False)

    def simulated(self, policy: str, *, delayed: bool) -> _Schedule:
        """The schedule of a simulated scheduler."""
        from mirage.simulation import simulation

        arrival = self._arrival(delayed=delayed)
        order = np.argsort(arrival, kind="stable")
        start = np.full(self.count, np.nan)
        leave = np.maximum(self.due + self.leave, arrival)
        start[order] = simulation.schedule(
            arrival[order],
            self.allocated[order],
            self._held(delayed=delayed)[order],
            self.limit[order],
            self.machine,
            policy,
            cancel=leave[order],
            depth=_DEPTH,
        )
        return self._with_starts(start + self.late if delayed else start, delayed=delayed)

    def shuffled(self, number: int) -> _Arrays:
        """A similar workload: neighbouring jobs have changed places; instants of submission and lags stay. Jobs that never started
        keep theirs. The delayed run times are other ones within the resolution, and jobs come at some instant of the scheduler's
        cycle, with the delays at the same as without: that instant is the scheduler's, and no delay."""
        random = np.random.default_rng([_SEED, number])
        ran = np.flatnonzero(~np.isnan(self.start))
        moved = np.arange(self.count)
        moved[ran] = ran[np.argsort(np.arange(len(ran)) + random.uniform(0, _NEIGHBOURS, len(ran)), kind="stable")]
        go = ("hold_off", "start", "end", "run", "wanted", "paused", "freed", "limit", "leave", "p", "allocated", "c", "m", "late")
        similar = replace(self, classes=self.classes[moved], **{name: getattr(self, name)[moved] for name in go})
        run = similar.run + random.uniform(-self.resolution, self.resolution, self.count)
        return replace(similar, run=np.maximum(run, 0.0), phase=random.uniform(0, self.cycle, self.count))

    def in_another_run(self, number: int) -> _Arrays:
        """The workload of another run: each job arrives at another instant of the scheduler's cycle and has another drawn run
        time."""
        random = np.random.default_rng([_SEED + 1, number])
        phase = random.uniform(0, self.cycle, self.count)
        return replace(self, phase=phase, wanted=np.maximum(self.wanted + random.uniform(-self.drawn, self.drawn, self.count), 0.0))


# ---- metrics ----


@cache
def _sums(settings: Settings) -> tuple[dict[str, tuple[pl.Expr, str]], dict[str, pl.Expr]]:
    """The metrics that are ratios of sums, without those of suspensions: numerator and name of the denominator; denominators."""
    sums = sums_of(settings)
    above = {name: one for name, one in sums.above.items() if "suspended" not in one[0].meta.root_names()}
    return above, {kind: sums.below[kind] for kind in dict.fromkeys(kind for _, kind in above.values())}


@cache
def _order_statistics() -> list[tuple[str, Quantile | Maximum]]:
    formulas = ((name, metric.formula) for name, metric in METRICS.items())
    return [(name, one) for name, one in formulas if isinstance(one, (Quantile, Maximum)) and one.jobs.condition is None]


@cache
def _expressions(settings: Settings) -> dict[str, pl.Expr]:
    """The terms of `_sums` without nulls and NaN, and the quantities of `_order_statistics`, by name."""
    above, below = _sums(settings)
    terms = {f"above {name}": one for name, (one, _) in above.items()} | {f"below {kind}": one for kind, one in below.items()}
    terms = {name: one.cast(pl.Float64).fill_null(0).fill_nan(0) for name, one in terms.items()}
    return terms | {f"ordered {id(one.quantity)}": expression(one.quantity, settings) for _, one in _order_statistics()}


def _values(arrays: _Arrays, schedule: _Schedule, run: MeasuredRun) -> Floats:
    values: Floats = _values_of_all([arrays], [schedule], run)[0]
    return values


def _values_of_all(workloads: Sequence[_Arrays], schedules: Sequence[_Schedule], run: MeasuredRun) -> Floats:
    """Metrics of `estimated` of schedules, then CLASS_METRICS of each class (schedules, metrics). Each workload has as many
    schedules, one after the other."""
    each = len(schedules) // len(workloads)
    step = max(1, _ROWS // max(1, workloads[0].count))
    last = np.nanmax(workloads[0].end)
    batches = []
    for first in range(0, len(schedules), step):
        batch = schedules[first : first + step]
        of = [workloads[place // each] for place in range(first, first + len(batch))]
        over_jobs, by_class = _over_jobs(of, batch, run.settings)
        over_time = [_over_time(one, schedule, run, float(last)) for one, schedule in zip(of, batch, strict=True)]
        batches.append(np.concatenate([over_jobs, np.array(over_time), by_class], axis=1))
    return np.concatenate(batches)


def _over_jobs(workloads: Sequence[_Arrays], schedules: Sequence[_Schedule], settings: Settings) -> tuple[Floats, Floats]:
    """(schedules, metrics over jobs), and (schedules, metrics of classes)"""
    inside = workloads[0].within
    rows = len(schedules)

    def column(parts: Sequence[Floats]) -> Floats:
        return np.concatenate([part[inside] for part in parts])

    frame = pl.DataFrame(
        {
            "a": column([one.due for one in workloads]),
            "p": np.concatenate([one.p[inside] for one in workloads]),
            "c": column([one.c for one in workloads]),
            "m": column([one.m for one in workloads]),
            "s": column([one.start for one in schedules]),
            "f": column([one.end for one in schedules]),
            "t": column([one.run for one in schedules]),
        }
    )
    columns = frame.select(**_expressions(settings)).get_columns()
    terms = {column.name: column.to_numpy().reshape(rows, -1) for column in columns}
    above, below = _sums(settings)
    counts = {kind: terms[f"below {kind}"].sum(axis=1) for kind in below}
    means = [ratios(terms[f"above {name}"].sum(axis=1), counts[kind]) for name, (_, kind) in above.items()]
    ordered = [
        np.quantile(terms[f"ordered {id(one.quantity)}"], one.share if isinstance(one, Quantile) else 1.0, axis=1)
        for _, one in _order_statistics()
    ]
    of_jobs = np.stack([terms[f"above {name}"] for name in CLASS_METRICS], axis=1)
    members = [one.classes[inside] for one in workloads]
    by_class = [ratios(one @ is_member, is_member.sum(axis=0)).T.ravel() for one, is_member in zip(of_jobs, members, strict=True)]
    return np.stack([*means, *ordered], axis=1), np.array(by_class)


def _over_time(workload: _Arrays, schedule: _Schedule, run: MeasuredRun, last: float) -> list[float]:
    """Values of _OF_USE. The window ends as much earlier or later as the last job. last: end of the recorded schedule"""
    ran = ~np.isnan(workload.start)
    start, end, executed = schedule.start[ran], schedule.end[ran], schedule.run[ran]
    begin, until = run.window.begin, run.window.end + float(end.max()) - last
    inside = np.clip(np.minimum(end, until) - np.maximum(start, begin), 0, None)
    share = executed / np.maximum(end - start, _SHORTEST)
    used = float((workload.m[ran] * share * inside).sum())
    length = until - begin
    return [of_use(used, run.settings.processors, length) if length > 0 else np.nan for of_use in _OF_USE.values()]
