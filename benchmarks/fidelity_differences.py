"""Differences between the start times of an emulated schedule and its simulation, their causes, and their trend with SPEED."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import Final, Literal

import numpy as np
import polars as pl
from scipy.stats import kendalltau, t

from benchmarks.clock_error import trend
from benchmarks.fidelity_workload import INTERVAL, Numbers, Times, passes, phases, workload
from benchmarks.figures import Figures

EVENT: Final = "event"
Speed = int | Literal["event"]
CAUSES = ("lag", "runs", "turns")

QUANTILES = {"config": "CONFIG", "speed": "SPEED", "p1": "p1", "p10": "p10", "p50": "p50", "p90": "p90", "p99": "p99"}
QUANTILES |= {"abs50": "abs. p50", "abs90": "abs. p90", "abs99": "abs. p99", "order": "other order, pairs"}
BIAS = {"config": "CONFIG", "speed": "SPEED", "mean": "mean", "half": "± (95 %)", "percent": "% of the mean wait"}
BIAS |= {"spread": "spread over the seeds", "alike": "Kendall's tau of the starts"}
BIAS |= {"lag": "by submission", "runs": "by run times", "turns": "by turns", "turn": "a turn"}
TREND = {
    "figure": "",
    "config": "CONFIG",
    "runs": "runs",
    "at_zero": "at SPEED=0",
    "slope": "s per 100 of SPEED",
    "low": "from",
    "high": "to",
    "p": "p",
}
TREND |= {"tau": "Kendall's tau", "tau_p": "its p"}
LARGEST = {"config": "CONFIG", "speed": "SPEED", "replica": "replica", "id": "job", "processors": "processors"}
LARGEST |= {
    "late": "difference",
    "lag": "by submission",
    "runs": "by run times",
    "turns": "by turns",
    "order": "other order, pairs",
}
RUNS = {"config": "CONFIG", "speed": "SPEED", "replica": "replica", "mean": "mean", "wait": "mean wait"}
RUNS |= {"order": "other order, pairs"}
RUNS |= {"submit_lag_p99": "submit lag p99", "runtime_stretch_p50": "stretch p50", "runtime_stretch_p99": "stretch p99"}
RUNS |= {"host_cpu": "host CPU, %", "verdict": "verdict"}


def of_run(folder: Path, config: str) -> pl.DataFrame:
    """The jobs of a finished run with differences in seconds of the trace.

    Columns: id, processors, wait and start (simulated, in the mean over the phases of the backfill scheduler), `late` (start minus
    the simulated start), and its parts, which sum up to it:

    * lag: difference that the simulation shows if each job is submitted when Slurm accepted it;
    * runs: what is added if each job runs as long as Slurm recorded;
    * turns: the rest, from the end of a job to the start of the next: its completion on all nodes, and the scheduler.

    chain: ends of jobs, each the cause of the next start, before the job's own start in the simulation; 0 if it does not wait
    order: pairs of a job that takes the whole machine and one submitted later that started in another order than in the simulation,
    with any phase; the same number for each job. Raises RuntimeError if the run is not that of this release's workload.
    """
    jobs = workload(config)
    records = pl.read_csv(folder / "jobs.csv").select("id", "start", "end", "submit_lag")
    plan = pl.read_csv(folder / "plan.csv").select("id", planned=pl.col("limit_minutes") * 60.0)
    both = jobs.join(records, on="id", maintain_order="left").join(plan, on="id", maintain_order="left")
    if both.height != jobs.height or both["start"].has_nulls() or (both["planned"] != both["limit"]).any():
        raise RuntimeError(f"{folder}: these are not the jobs of the workload, or some did not run; remove the folder")
    order = np.argsort((both["submit"] + both["submit_lag"]).to_numpy(), kind="stable")
    accepted = both.with_columns(submit=pl.col("submit") + pl.col("submit_lag"))
    run = (pl.col("end") - pl.col("start")).clip(1.0)
    lasted = accepted.with_columns(runtime=run, limit=pl.max_horizontal("limit", run))
    all_phases = phases(jobs, config)
    known = all_phases.mean(0)
    late = both["start"].to_numpy() - known
    by_lag, by_runs = (_in_order(frame, config, order) - known for frame in (accepted, lasted))
    started = passes(jobs, both["start"].to_numpy())
    other = np.min([(started != passes(jobs, start)).sum() for start in all_phases])
    return both.select(
        "id",
        "processors",
        wait=pl.Series(known - jobs["submit"].to_numpy()),
        start=pl.Series(known),
        late=pl.Series(late),
        lag=pl.Series(by_lag),
        runs=pl.Series(by_runs - by_lag),
        turns=pl.Series(late - by_runs),
        chain=pl.Series(_chain(jobs, all_phases[0], INTERVAL if config == "easy" else 0.0)),
        order=pl.lit(int(other)),
    )


def _chain(jobs: pl.DataFrame, start: Times, reaction: float) -> list[int]:
    """How many ends of jobs, at most `reaction` seconds before the start of the next one, led to each job's start."""
    submit, end = jobs["submit"].to_numpy(), start + jobs["runtime"].to_numpy()
    chain = [0] * jobs.height
    for job in np.argsort(start, kind="stable"):
        if start[job] > submit[job]:
            before = np.flatnonzero((end <= start[job]) & (end >= start[job] - reaction))
            chain[job] = max((chain[other] + 1 for other in before), default=0)
    return chain


def _in_order(jobs: pl.DataFrame, config: str, order: Numbers) -> Times:
    """The mean starts over the phases, in the order of `jobs`; they enter the queue in `order`."""
    start = np.empty(jobs.height)
    start[order] = phases(jobs[order], config).mean(0)
    return start


def summary(frame: pl.DataFrame) -> Figures:
    """The means of a run over its jobs.

    turn: seconds that a turn adds, least squares of `turns` on `chain` without constant
    alike: Kendall's tau-b of the simulated and the emulated start times, 1 if all jobs start in the same order
    """
    means = {name: float(frame.select(pl.col(name).mean()).item()) for name in ("late", "wait", *CAUSES)}
    late = means.pop("late")
    turns, chain = frame["turns"].to_numpy(), frame["chain"].to_numpy()
    means["turn"] = float((turns * chain).sum() / (chain * chain).sum())
    start = frame["start"].to_numpy()
    alike = float(kendalltau(start, start + frame["late"].to_numpy()).statistic)
    return {"mean": late, "order": int(frame["order"][0]), "alike": alike, **means, "wait": means["wait"] + late}


Runs = Sequence[tuple[Figures, pl.DataFrame]]


def position(key: Figures) -> tuple[object, ...]:
    """Where a row stands in a table: `fifo` first, the event-driven clock before the speeds, then by replica if it has one."""
    speed = key["speed"]
    return key["config"] != "fifo", key["config"], speed != EVENT, 0 if speed == EVENT else speed, key.get("replica", 0)


def _by_speed(runs: Runs) -> list[tuple[Figures, Runs]]:
    """The runs of each configuration and speed, in the order of `position`."""
    keys = sorted({(key["config"], key["speed"]) for key, _ in runs}, key=lambda key: position({"config": key[0], "speed": key[1]}))
    return [
        ({"config": config, "speed": speed}, [run for run in runs if (run[0]["config"], run[0]["speed"]) == (config, speed)])
        for config, speed in keys
    ]


def quantiles(runs: Runs) -> list[Figures]:
    """By configuration and speed: quantiles of the differences over all jobs and replicas, their mean with its interval, causes.

    `half` is half the width of Student's 95 % interval over the means of the replicas and `spread` their standard deviation, None
    for a single one.
    """
    rows = []
    for key, of_speed in _by_speed(runs):
        late = np.concatenate([frame["late"].to_numpy() for _, frame in of_speed])
        means = [summary(frame) for _, frame in of_speed]
        signed = {f"p{rank}": float(np.quantile(late, rank / 100)) for rank in (1, 10, 50, 90, 99)}
        absolute = {f"abs{rank}": float(np.quantile(np.abs(late), rank / 100)) for rank in (50, 90, 99)}
        mean = statistics.fmean(one["mean"] for one in means)
        wait = statistics.fmean(one["wait"] - one["mean"] for one in means)
        causes = {name: statistics.fmean(one[name] for one in means) for name in (*CAUSES, "turn", "alike")}
        order = ", ".join(str(one["order"]) for one in means)
        half = _half_width([one["mean"] for one in means])
        spread = statistics.stdev(one["mean"] for one in means) if len(means) > 1 else None
        bias = {"mean": mean, "half": half, "percent": mean / wait * 100, "spread": spread, **causes, "order": order}
        rows.append({**key, **signed, **absolute, **bias})
    return rows


def _half_width(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % confidence interval of the mean; None for a single value."""
    if len(values) < 2:
        return None
    return float(t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / sqrt(len(values))


def largest(runs: Runs) -> list[Figures]:
    """By configuration and speed: the job with the largest absolute difference."""
    rows = []
    for key, of_speed in _by_speed(runs):
        late = pl.concat([frame.with_columns(replica=pl.lit(one["replica"])) for one, frame in of_speed])
        rows.append({**key, **late.sort(pl.col("late").abs()).row(-1, named=True)})
    return rows


def trends(rows: Sequence[Figures]) -> list[Figures]:
    """By configuration, trends with SPEED of the runs' mean differences and of what a turn adds, see `clock_error.trend`.

    Runs on the event-driven clock have no SPEED, and do not count.
    """
    rows = [row for row in rows if row["speed"] != EVENT]
    found = []
    for figure, name in {"mean difference": "mean", "a turn": "turn"}.items():
        for config in dict.fromkeys(row["config"] for row in sorted(rows, key=lambda row: row["config"] != "fifo")):
            of_config = [row for row in rows if row["config"] == config]
            one = trend([float(row["speed"]) for row in of_config], [row[name] for row in of_config])
            found += [{"figure": figure, "config": config, **one}] if one is not None else []
    return found
