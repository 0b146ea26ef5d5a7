"""How often predicted intervals hold: forks of a finished run, each predicted by make predict, beside what happened.

    python -m benchmarks.forks FOLDER 12 forks      # writes forks/fork-1.tar ... of the run in FOLDER, and forks/make.sh
    sh forks/make.sh                                # make predict for each; needs a cluster
    python -m benchmarks.forks FOLDER 12 forks --judge

The run has one partition of equal nodes and priority/basic, as KTH's log with CONFIG=slurm-defaults. Its jobs have their users'
numbers as names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mirage.records import start_estimates
from mirage.records.file_names import ESTIMATES_FILE, PREDICTION_FILE, WORKLOAD_FILE
from mirage.records.run_folder import RunFolder
from mirage.site import archive, now
from mirage.statistics.start_intervals import coverage
from slurm_mirage.base.printing import say

EPOCH = 1_793_577_600
"""2026-11-02, 00:00 UTC, of second 0 of the run."""
FIRST, LAST = 0.3, 0.97
"""Shares of the run's submissions at which the first and the last fork are."""
WAITING = 3
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
    real, predicted = np.array(waits), np.array(medians)
    found = coverage(real, np.array(bounds))
    unit = start_estimates.UNIT
    figures: dict[str, Any] = {"jobs": found.jobs, "fifty": found.fifty, "ninety": found.ninety}
    figures["log10"] = float(np.median(np.abs(np.log10((real + unit) / (predicted + unit)))))
    figures["within_minute"] = float(np.mean(np.abs(real - predicted) <= unit))
    if (folder / ESTIMATES_FILE).is_file():
        figures["slurm"] = start_estimates.summary(start_estimates.read(folder / ESTIMATES_FILE))
    return figures


def main(arguments: Sequence[str]) -> None:
    folder, count, out = Path(arguments[0]), int(arguments[1]), Path(arguments[2])
    if "--judge" in arguments:
        say(str(judge(folder, count, Path("results"))))
        return
    out.mkdir(exist_ok=True)
    write(folder, count, out)


if __name__ == "__main__":
    main(sys.argv[1:])
