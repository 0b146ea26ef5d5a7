"""The range of the time left, on the schedules of recorded runs and of simulated schedulers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from simulated_runs import jobs_of

from slurm_mirage.clock.clock import Clock
from slurm_mirage.jobs.plan import PlanRow
from slurm_mirage.replay.time_left import SLACK, ActiveJob, TimeLeft, TimeLeftEstimator

RECORDED = Path(__file__).parent / "recorded"
"""Runs on real clusters: a line for each job, with due, submitted, start and end in real seconds since the replay's start, and its
processors, run time (real seconds) and limit (minutes of the cluster) in the plan."""
Instants = list[tuple[float, TimeLeft]]


def estimates(jobs: pl.DataFrame, machine: int, every: float) -> Instants:
    """The range every so many seconds of a schedule with the columns of RECORDED: (true rest, range)."""
    columns = jobs.select("due", "processors", "runtime", "limit").iter_rows()
    plan = [
        PlanRow(index, index + 1, due, processors, None, runtime, limit, None, "", f"r.{index}")
        for index, (due, processors, runtime, limit) in enumerate(columns)
    ]
    estimator = TimeLeftEstimator(plan, Clock())
    submitted, start, end = (jobs[name].to_numpy() for name in ("submitted", "start", "end"))
    width, found = jobs["processors"].to_numpy(), []
    for now in np.arange(0.0, end.max(), every):
        known = np.flatnonzero(submitted <= now)
        active = [ActiveJob(int(index), now - start[index] if start[index] <= now else None) for index in known if end[index] > now]
        busy = int(width[(start <= now) & (end > now)].sum())
        found.append((end.max() - now, estimator.look(now, now, active, known.tolist(), machine, 1, busy)))
    return found


def check(found: Instants, every: float, minutes: float = 20.0) -> None:
    """After the first tenth the end is in the range nearly always, and the range is of use; it grows in steps, with a cause."""
    late = found[len(found) // 10 :]
    assert np.mean([left.least <= rest <= left.most for rest, left in late]) >= 0.85
    # The launch that is taken off each job's run time is in no plan.
    assert all(left.least <= rest + 1e-3 * found[0][0] for rest, left in late)
    assert np.median([(left.most - left.least - 2 * SLACK) / rest for rest, left in late]) < 0.8
    grew_for = 0.0
    for (_, before), (_, after) in itertools.pairwise(found):
        grows = after.least + after.most > before.least + before.most + 1e-9
        grew_for = grew_for + every if grows else 0.0
        assert grew_for < 60 * minutes
        assert after.cause or after.most <= before.most + 1e-9


@pytest.mark.parametrize("name", ["overloaded-host", "fragmented", "short"])
def test_recorded_runs(name: str) -> None:
    jobs = pl.read_csv(RECORDED / f"{name}.csv", comment_prefix="#")
    machine = int((RECORDED / f"{name}.csv").read_text().split("\n", 1)[0].split()[1])
    end = jobs.select(pl.col("end").max()).item()
    # At the speed of the run, and as long as a night.
    for slower in (1.0, 36000 / end):
        times = [pl.col(column) * slower for column in ("due", "submitted", "start", "end", "runtime")]
        check(estimates(jobs.with_columns(times, limit=10**6), machine, slower * end / 300), slower * end / 300)


@pytest.mark.parametrize("policy", ["easy", "fcfs", "conservative"])
@pytest.mark.parametrize(("model", "load"), [("lublin", 0.5), ("lublin", 0.9), ("lublin", 2.0), ("raijin", 0.9)])
def test_simulated_schedulers(model: str, load: float, policy: str) -> None:
    """Ten real hours, an estimate every two minutes; with a load of 2 the queue grows until the last submission."""
    known = jobs_of(1000, 64, 8, policy, load=load, model=model)
    first, factor = known["submit"].min(), 36000 / (known["end"] - known["submit"].min()).max()  # type: ignore[operator]
    jobs = known.select(
        *(
            (((pl.col(column) - first) * factor).alias(name))
            for column, name in (("submit", "due"), ("start", "start"), ("end", "end"))
        ),
        processors="processors",
        runtime=pl.col("runtime") * factor,
        limit=pl.lit(10**6),
    ).with_columns(submitted="due")
    check(estimates(jobs, 512, 120.0), 120.0)


def row(index: int, due: float, processors: int, runtime: float) -> PlanRow:
    return PlanRow(index, index + 1, due, processors, None, runtime, 1000, None, "", f"r.{index}")


def look(estimator: TimeLeftEstimator, now: float, jobs: list[ActiveJob], known: list[int], busy: int = 0) -> TimeLeft:
    return estimator.look(now, now, jobs, known, 10, 5, busy)


def test_the_least_is_what_no_scheduler_can_beat() -> None:
    # The last job is due at 100 and runs for 50 s.
    plan = [row(0, 0.0, 1, 30.0), row(1, 100.0, 1, 50.0)]
    assert look(TimeLeftEstimator(plan, Clock()), 10.0, [ActiveJob(0, 10.0)], [0]).least == 140.0 - 2.0
    # Two jobs of the whole machine are due at 100.
    plan = [row(0, 0.0, 1, 30.0), row(1, 100.0, 10, 50.0), row(2, 100.0, 10, 50.0)]
    assert look(TimeLeftEstimator(plan, Clock()), 10.0, [ActiveJob(0, 10.0)], [0]).least == 190.0 - 2.0
    # All work that is left: 20 s of the whole machine run, 30 and 50 s wait.
    plan = [row(0, 0.0, 10, 30.0), row(1, 0.0, 10, 30.0), row(2, 0.0, 10, 50.0)]
    jobs = [ActiveJob(0, 10.0), ActiveJob(1, None), ActiveJob(2, None)]
    assert look(TimeLeftEstimator(plan, Clock()), 10.0, jobs, [0, 1, 2]).least == 100.0 - 2.0
    # On a fast clock, with whole nodes, and a job that the workload may cancel before it starts.
    plan = [replace(job, nodes=5, processors=1, cancel_after=500.0 if job.index == 2 else None) for job in plan]
    assert look(TimeLeftEstimator(plan, Clock(speed=2.0)), 10.0, jobs, [0, 1, 2]).least == pytest.approx(5.0 + 15.0 - 2.0)
    assert look(TimeLeftEstimator(plan, Clock()), 10.0, [], [0, 1, 2]).least == 0.0


def test_what_makes_it_longer_is_named_for_some_minutes() -> None:
    plan = [row(0, 0.0, 10, 1000.0), *(row(index, 1000.0, 10, 1000.0) for index in range(1, 6))]
    estimator = TimeLeftEstimator(plan, Clock())
    first = look(estimator, 0.0, [ActiveJob(0, 0.0)], [0], 10)
    assert first.cause == ""
    # Nothing ends or begins: the queue has all jobs, and later most of the machine is idle.
    jobs = [ActiveJob(0, 1000.0), *(ActiveJob(index, None) for index in range(1, 6))]
    causes, most = set(), []
    for now in range(1000, 40000, 100):
        left = look(estimator, float(now), jobs, list(range(6)), 10 if now < 5000 else 1)
        causes.add(left.cause)
        most.append(left.most)
    assert causes == {"", "the queue grows", "less of the machine is in use"}
    assert 1 < sum(after > before for before, after in itertools.pairwise(most)) < 20
