"""How often predicted intervals hold, and how far Slurm's own plans are off: forks of a schedule whose end is known.

    python -m benchmarks.forks simulate LOG 100 200     # 200 forks of a log's jobs on 100 processors: truth and courses by EASY
    python -m benchmarks.forks write RUN 12 FOLDER      # 12 forks of the finished run in results/RUN, and FOLDER/make.sh
    sh FOLDER/make.sh                                   # make predict for each; needs a cluster
    python -m benchmarks.forks judge RUN 12

The run of `write` has one partition of equal nodes and priority/basic, as a log in SWF with CONFIG=slurm-defaults. Its users have
their numbers as names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mirage import RESULTS
from mirage.records import start_estimates
from mirage.records.file_names import ESTIMATES_FILE, PREDICTION_FILE, WORKLOAD_FILE
from mirage.records.run_folder import RunFolder
from mirage.simulation.simulation import schedule
from mirage.site import archive, now
from mirage.statistics.start_intervals import FIFTY, NINETY, Times, coverage, quantiles
from mirage.traces import swf
from mirage.traces.trace import Trace, read_trace
from mirage.workloads.continuation import Queue, queue_of
from mirage.workloads.selection import Selection, choose
from slurm_mirage.base.printing import say

EPOCH = 1_793_577_600
"""2026-11-02, 00:00 UTC, of second 0 of the run."""
FIRST, LAST = 0.3, 0.97
"""Shares of the run's submissions at which the first and the last fork are."""
WAITING = 3
COURSES = 8
COLUMNS = (
    "JobID", "JobIDRaw", "User", "Account", "Partition", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "State",
    "TimelimitRaw", "AllocCPUS", "ReqCPUS", "AllocNodes", "AllocTRES",
)  # fmt: skip
CONF = """ClusterName=fork
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
PriorityType=priority/basic
NodeName=n[1-{nodes}] CPUs={cpus}
PartitionName=batch Nodes=ALL Default=YES MaxTime=UNLIMITED
"""


def jobs_of(folder: Path) -> pl.DataFrame:
    """The jobs of a run that started, with user and limit, in order of submission."""
    jobs = pl.read_csv(folder / "jobs.csv", infer_schema_length=None)
    asked = pl.read_csv(folder / WORKLOAD_FILE, infer_schema_length=None).select("id", "user", "limit_minutes")
    return jobs.join(asked, on="id").drop_nulls(["start", "end"]).sort("submit")


def instants(jobs: pl.DataFrame, count: int) -> list[float]:
    """The instants of the forks, each at a submission that at least WAITING jobs wait for, evenly over these."""
    submit, start = jobs["submit"].to_numpy(), jobs["start"].to_numpy()
    queue = np.arange(1, submit.size + 1) - np.searchsorted(np.sort(start), submit, side="right")
    usual = np.arange(submit.size)
    usual = usual[(usual > FIRST * usual.size) & (usual < LAST * usual.size) & (queue >= WAITING)]
    return [float(submit[usual[int(place)]]) for place in np.linspace(0, usual.size - 1, count)]


def rows(jobs: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The jobs as sacct has them."""
    for job in jobs.iter_rows(named=True):
        submit, start, end = (EPOCH + round(job[name]) for name in ("submit", "start", "end"))
        size = job["processors"]
        yield {
            "JobID": job["id"], "JobIDRaw": job["id"], "User": f"u{job['user']}", "Account": "all", "Partition": "batch",
            "Submit": submit, "Eligible": submit, "Start": start, "End": end, "ElapsedRaw": end - start, "State": "COMPLETED",
            "TimelimitRaw": job["limit_minutes"], "AllocCPUS": size, "ReqCPUS": size, "AllocNodes": job["nodes"],
            "AllocTRES": f"cpu={size}",
        }  # fmt: skip


def write(folder: Path, count: int, out: Path) -> None:
    """Write the archives, and a script that predicts each."""
    jobs, layout = jobs_of(folder), RunFolder(folder).layout
    assert layout is not None
    conf = CONF.format(nodes=len(layout.nodes), cpus=next(iter(layout.nodes.values())).processors)
    lines = []
    for number, instant in enumerate(instants(jobs, count), 1):
        end = EPOCH + round(instant)
        path = out / f"fork-{number}.tar"
        parts = now.parts_at(rows(jobs), end, COLUMNS)
        archive.write(path, {"conf/slurm.conf": conf, **parts}, begin=EPOCH, end=end, release="22.05.8")
        lines.append(f"make predict SITE={path.absolute()} RUN=fork-{number} SPEED=event ACCOUNTING=no CLUSTER=forks || exit\n")
    (out / "make.sh").write_text("".join(lines))


def judge(folder: Path, count: int, results: Path) -> dict[str, Any]:
    """Coverage of the intervals of the forks that are predicted, and errors beside those of Slurm's own plans."""
    jobs = jobs_of(folder)
    starts = dict(jobs.select("id", "start").iter_rows())
    waits, bounds, medians = [], [], []
    for number, instant in enumerate(instants(jobs, count), 1):
        if not (results / f"fork-{number}" / PREDICTION_FILE).is_file():
            continue
        for job in RunFolder(results / f"fork-{number}").prediction["jobs"]:
            waits.append(starts[int(job["job"])] - round(instant))
            bounds.append([np.inf if job[name] is None else job[name] for name in ("from_50", "to_50", "from_90", "to_90")])
            medians.append(np.inf if job["start_50"] is None else job["start_50"])
    figures = errors(np.array(waits), np.array(bounds), np.array(medians))
    if (folder / ESTIMATES_FILE).is_file():
        figures["slurm"] = start_estimates.summary(start_estimates.read(folder / ESTIMATES_FILE))
    return figures


def errors(waits: Times, bounds: Times, medians: Times) -> dict[str, Any]:
    """Coverage, and errors of the medians as `start_estimates.summary` has them. bounds: FIFTY and NINETY of each job; seconds."""
    found, unit = coverage(waits, bounds), start_estimates.UNIT
    return {
        "jobs": found.jobs,
        "fifty": found.fifty,
        "ninety": found.ninety,
        "log10": float(np.median(np.abs(np.log10((waits + unit) / (medians + unit))))),
        "within_minute": float(np.mean(np.abs(waits - medians) <= unit)),
    }


# ---- without a cluster ----


def fork(jobs: pl.DataFrame, starts: Times, instant: float) -> tuple[Queue, Times]:
    """The queue of a schedule at an instant, and how long its jobs really wait from then on.

    jobs: user, submit, run, limit, processors, in order of submission. starts: of each job
    """
    known = jobs.with_columns(start=starts, job_number=pl.int_range(1, pl.len() + 1)).filter(pl.col("submit") < instant)
    end = pl.col("start") + pl.col("run")
    columns: dict[str, pl.Expr | str] = {
        "job_number": "job_number", "submit": "submit", "requested_time": "limit", "user": "user",
        "wait": pl.when(pl.col("start") <= instant).then(pl.col("start") - pl.col("submit")).otherwise(-1.0),
        "run_time": pl.when(end <= instant).then("run").otherwise(-1.0),
        "status": pl.when(end <= instant).then(1).otherwise(-1),
        "requested_processors": "processors", "allocated_processors": "processors",
    }  # fmt: skip
    rest = [pl.lit(-1).alias(name) for name in swf.SCHEMA if name not in columns]
    state = pl.when(pl.col("start") > instant).then(pl.lit(now.PENDING)).when(end > instant).then(pl.lit("RUNNING"))
    frame = known.select(*rest, state=state.otherwise(pl.lit("COMPLETED")), **columns)
    frame = frame.select("state", *(pl.col(name).cast(kind) for name, kind in swf.SCHEMA.items()))
    waiting = known.filter(pl.col("start") > instant)
    queue = [now.Waiting(number, None, False, "Priority", 0, None) for number in waiting["job_number"]]
    return queue_of(Trace(frame, {}, {}, "sacct", ""), instant, queue, {}, is_ranked=False), waiting["start"].to_numpy() - instant


def simulated(queue: Queue, processors: int, seed: int, horizon: float = 40_000.0) -> Times:
    """The waits of the jobs of the queue in one course, by EASY."""
    col, lit = pl.col, pl.lit(queue.instant)
    frame = queue.drawn(np.random.default_rng(seed), horizon).frame
    runs = (col("state") == "RUNNING") & (col("wait") >= 0) & (col("submit") < lit)
    order = frame.with_columns(
        begin=pl.max_horizontal("submit", lit), elapsed=pl.when(runs).then(lit - col("submit") - col("wait")).otherwise(0.0)
    ).sort("begin", maintain_order=True)
    run, limit = ((order[name] - order["elapsed"]).to_numpy() for name in ("run_time", "requested_time"))
    starts = schedule(order["begin"].to_numpy(), order["requested_processors"].to_numpy(), run, limit, processors, "easy")
    waits = dict(zip(order["job_number"].to_list(), starts - queue.instant, strict=True))
    return np.array([waits[number] for number in queue.waiting["job_number"]])


def predicted(
    jobs: pl.DataFrame, starts: Times, at: Sequence[float], processors: int, courses: int = COURSES
) -> tuple[Times, Times]:
    """The real waits of the jobs that wait at these instants, and their waits in the courses, a row for each job."""
    waits, of_courses = [], []
    for number, instant in enumerate(at):
        queue, real = fork(jobs, starts, instant)
        if real.size:
            waits.append(real)
            of_courses.append(np.stack([simulated(queue, processors, 1000 * number + k) for k in range(courses)], axis=1))
    return np.concatenate(waits), np.concatenate(of_courses)


def simulate(log: Path, processors: int, count: int) -> dict[str, Any]:
    """Coverage over forks of a log's jobs that EASY schedules."""
    frame = choose(read_trace(log), Selection())[0].filter(pl.col("run_time") > 0, pl.col("allocated_processors") > 0)
    limit = pl.when(pl.col("requested_time") > 0).then("requested_time").otherwise("run_time")
    jobs = frame.select(
        "user", "submit", limit=limit, run=pl.min_horizontal("run_time", limit), processors=pl.col("allocated_processors")
    )
    submit, wide, run, requested = (jobs[name].to_numpy() for name in ("submit", "processors", "run", "limit"))
    starts = schedule(submit, wide, run, requested, processors, "easy")
    at = [instant + 0.5 for instant in instants(jobs.with_columns(start=starts), count)]
    waits, courses = predicted(jobs, starts, at, processors)
    return errors(waits, quantiles(courses, (*FIFTY, *NINETY)), quantiles(courses, (0.5,))[:, 0])


def main(arguments: Sequence[str]) -> None:
    command, source, *numbers = arguments
    if command == "simulate":
        say(str(simulate(Path(source), int(numbers[0]), int(numbers[1]))))
    elif command == "judge":
        say(str(judge(RESULTS / source, int(numbers[0]), RESULTS)))
    elif command == "write":
        out = Path(numbers[1])
        out.mkdir(exist_ok=True)
        write(RESULTS / source, int(numbers[0]), out)
    else:
        say("wrong use: it may be simulate, write or judge", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
