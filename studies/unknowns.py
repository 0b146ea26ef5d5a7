"""What a public record does not say of its jobs, and models of it, each of which makes a log of its own.

A record with submissions, starts, ends and processors lacks what the scheduler decided with: time limits, nodes that jobs share or
not, users, QOS. A model says what is assumed of one of them; in everything else it is the first model, so that the differences of
the emulated waits show which unknown moves them most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mirage.knobs.parse import Value
from mirage.workloads.models import estimates
from slurm_mirage.base.hostlist import compress, expand

Floats = NDArray[np.float64]

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
EPOCH = 1_704_067_200
"""2024-01-01T00:00:00 UTC, at which the record begins in the logs: it does not tell its date."""
NOTHING, LIMITS, MACHINE, SHARING, USERS, PRIORITIES, RELEASE = (
    "", "time limits", "nodes in service", "sharing of nodes", "users", "QOS", "release of Slurm",
)  # fmt: skip
"""The unknowns. The first model varies none."""
ROUND = np.array([20 * MINUTE, HOUR, *(HOUR * hours for hours in (2, 4, 6, 12, 24, 36, 48, 72, 96)), 14 * DAY])
"""Round limits in seconds: the longest of Cirrus's QOS short, the default of its partitions, and what users like to ask for."""
LONGEST, LONG = 96 * HOUR, 14 * DAY
"""The longest limit of the QOS standard, and of the QOS long, which a job has that ran for longer than the first."""


@dataclass(frozen=True)
class Model:
    """One way in which the record may be completed.

    unknown: what it varies, one of the unknowns. words: what it assumes
    limits: a number, by which the run time is multiplied; "round"; or as `estimates.replace`
    whole_nodes: whether jobs of whole nodes do not share them, and those below a node are on one
    users: whether the jobs of each size belong to a user of their own
    is_peak: whether only as many nodes are in service as the record had in use at once in the window
    knobs: other values of knobs
    """

    unknown: str
    words: str
    limits: str = "2"
    whole_nodes: bool = True
    users: bool = False
    is_peak: bool = False
    knobs: Mapping[str, Value] = field(default_factory=dict)


BASE = "x2"
MODELS: dict[str, Model] = {
    BASE: Model(NOTHING, "each limit is twice the run time"),
    "exact": Model(LIMITS, "each limit is the run time", limits="1"),
    "x5": Model(LIMITS, "each limit is five times the run time", limits="5"),
    "round": Model(LIMITS, "each limit is the next round one: 20 min, 1, 2, 4, 6, 12, 24, 36, 48, 72, 96 h, 14 d", limits="round"),
    "tsafrir": Model(LIMITS, "limits of Tsafrir's model", limits="tsafrir"),
    "peak": Model(MACHINE, "only as many nodes are in service as the record had in use at once", is_peak=True),
    "shared": Model(SHARING, "jobs take free processors of any nodes", whole_nodes=False),
    "users": Model(USERS, "the jobs of each size belong to one user: fair share", users=True, knobs={"ACCOUNTING": "yes"}),
    "qos": Model(
        PRIORITIES,
        "jobs of up to 20 min and 2 nodes are in a QOS with twice the priority of the others",
        knobs={"ACCOUNTING": "yes", "CONFIG": "cirrus-qos"},
    ),
}
"""The models by the names of their arms, the one that all others are compared with first."""


def limits_of(run: Floats, how: str, seed: int) -> Floats:
    """Time limits of jobs with these run times, in whole minutes, as seconds; how: as `Model.limits`.

    None is below the run time, nor above the longest that a job of that run time may have.
    """
    if how == "round":
        found = ROUND[np.minimum(np.searchsorted(ROUND, run), ROUND.size - 1)]
    elif how.isdecimal():
        found = float(how) * run
    else:
        frame = pl.DataFrame({"run_time": run, "requested_time": run})
        found = estimates.replace(frame, how, seed)["requested_time"].to_numpy()
    longest = np.where(run <= LONGEST, LONGEST, np.maximum(LONG, run))
    whole: Floats = np.ceil(np.maximum(run, np.minimum(found, longest)) / MINUTE) * MINUTE
    return whole


def log_of(record: pl.DataFrame, model: Model, partition: str, cpus: int, seed: int) -> str:
    """The record as the model completes it, as the output of sacct.

    record: SWF frame; partition: of all jobs; cpus: processors of a node
    """
    col = pl.col
    ran = record.filter(col("run_time") > 0, col("wait") >= 0, col("allocated_processors") > 0).sort("submit", maintain_order=True)
    minutes = pl.Series("minutes", limits_of(ran["run_time"].to_numpy().astype(np.float64), model.limits, seed) / MINUTE)
    size = col("allocated_processors").cast(pl.Int64)
    options: pl.Expr = pl.format("--ntasks={}", size)
    if model.whole_nodes:
        whole = pl.format("--nodes={} --exclusive --ntasks={}", size // cpus, size)
        part = pl.when(size < cpus).then(pl.format("--nodes=1 --ntasks={}", size)).otherwise(options)
        options = pl.when(size % cpus == 0).then(whole).otherwise(part)
    start = col("submit") + col("wait")
    table = ran.with_columns(minutes).select(
        JobIDRaw=col("job_number") + 1,
        User=pl.format("u{}", size) if model.users else pl.lit("unknown"),
        Partition=pl.lit(partition),
        Submit=(col("submit") + EPOCH).round().cast(pl.Int64),
        Start=(start + EPOCH).round().cast(pl.Int64),
        End=(start + col("run_time") + EPOCH).round().cast(pl.Int64),
        State=pl.lit("COMPLETED"),
        Timelimit=col("minutes").cast(pl.Int64),
        NCPUS=size,
        SubmitLine=pl.format("sbatch {} job", options),
    )
    return table.write_csv(separator="|", quote_style="never")


# ---- the machine ----


def peak(record: pl.DataFrame, begin: float, end: float) -> int:
    """The most processors that the jobs of an SWF frame had at once between two instants."""
    steps = in_use(record.select(begin=pl.col("submit") + pl.col("wait"), run="run_time", size="allocated_processors"))
    before = steps.filter(pl.col("at") <= begin).tail(1)
    inside = steps.filter(pl.col("at").is_between(begin, end))
    return int(pl.concat([before, inside])["level"].max() or 0)  # type: ignore[arg-type]


def in_use(spans: pl.DataFrame) -> pl.DataFrame:
    """Steps of a sum over time: `at`, ascending, and the `level` from there on. spans: begin, run and size of what is summed."""
    changes = pl.concat(
        [spans.select(at="begin", change="size"), spans.select(at=pl.col("begin") + pl.col("run"), change=-pl.col("size"))]
    )
    return changes.group_by("at").agg(pl.col("change").sum()).sort("at").select("at", level=pl.col("change").cum_sum())


def idle_while_waiting(jobs: pl.DataFrame, processors: int, least: int, begin: float, end: float) -> float | None:
    """Mean number of processors that no job had between two instants, while a job of `least` or more waited; None if none did.

    jobs: submit, start, end and processors of all that were in the machine then; null where a job did not start
    """
    col = pl.col
    known = jobs.drop_nulls(["submit", "start", "end", "processors"])
    busy = in_use(known.select(begin="start", run=col("end") - col("start"), size="processors"))
    large = known.filter(col("processors") >= least).select(begin="submit", run=col("start") - col("submit"), size=pl.lit(1))
    steps = (
        busy.rename({"level": "busy"})
        .join(in_use(large).rename({"level": "waiting"}), on="at", how="full", coalesce=True)
        .sort("at")
        .with_columns(col("busy", "waiting").forward_fill().fill_null(0))
        .with_columns(until=col("at").shift(-1).fill_null(end))
        .select("busy", "waiting", length=(col("until").clip(begin, end) - col("at").clip(begin, end)))
        .filter(col("waiting") > 0, col("length") > 0)
    )
    if steps.is_empty():
        return None
    return float(steps.select(((processors - col("busy")) * col("length")).sum() / col("length").sum()).item())


def out_of_service(nodes: Sequence[str], number: int) -> str:
    """A file of events that drains the last `number` of the nodes from the beginning on; nodes: host lists."""
    names = [name for words in nodes for name in expand(words)]
    heading = "instant,action,target,argument\n"
    return heading + (f'0,drain,"{compress(names[-number:])}",not in service\n' if number > 0 else "")
