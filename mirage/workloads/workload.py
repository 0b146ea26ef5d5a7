"""From a log to what is submitted: selection, presets, sizes, shrinking, time limits, cancellations. Pure;
nothing is run here.

Time units: trace seconds are the log's own; virtual seconds are what Slurm sees, trace seconds times
SHRINK/100 (the thesis's factor, which shrinks the gaps between submissions, the requested times and the run
times alike).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from mirage.traces import swf
from mirage.traces.trace import Trace
from mirage.workloads import dependencies, requests
from mirage.workloads.presets import CANCELLED, QUEUED, RUNNING, never_ran, presets
from mirage.workloads.selection import Selection, take
from slurm_mirage.base.errors import WrongUse

# A limit is rounded up to whole minutes, but not because of the last bits of a product of floats.
_EPSILON = 1e-9


@dataclass(frozen=True)
class Workload:
    """What is submitted, in this order.

    jobs: one row a job, sorted by submission, preset ones first
        id (Int64)                the log's job number, or a new one above all others where the log repeats it
        submit                    trace seconds, as in the log; of a preset job the instant at which the selection begins
        submit_virtual            virtual seconds after the first submission
        processors                allocated, or if the log does not say, requested; scaled if that was wanted
        nodes_wanted              whole nodes for these processors, were they the smallest ones; null unless whole nodes are used
        runtime, runtime_virtual  seconds of execution (of a job that never ran: what it asked for)
        requested                 trace seconds; if the log does not say, the run time and the slack
        limit_minutes (Int64)     for `sbatch --time`
        limit_extended            whether that is more than what was requested (OVERRUN=extend)
        cancel_after_virtual      virtual seconds after submission at which to cancel; null: do not
        ran                       false for a job that was cancelled while it waited
        preset                    "running" or "queued": what it was when the selection began; "" of the selection itself
        dependency                what it waits for, by `id`, as dependencies.py writes it; "": nothing
        follows (Int64)           the job after whose end it is submitted; null: it has an instant of its own
        think_virtual             virtual seconds from then to its submission; null likewise
        memory                    kB for each of its processors that were requested; null: unknown
        partition_name, qos_name  those that sacct names (a list of partitions of a job that could choose); ""
        status, user, group, executable, queue, partition: as in the log
    excluded: jobs left out between the first and the last taken, by reason
    notes: what was changed, each with the number of jobs
    limits: distinct requested times before, and distinct time limits in minutes after (presets not counted); shrinking makes
        them fewer, which takes from a backfill scheduler what it orders jobs by
    shrink_percent: as given
    size_factor: what sizes were multiplied by before they were rounded
    """

    jobs: pl.DataFrame
    excluded: dict[str, int]
    notes: dict[str, int]
    limits: dict[str, int]
    shrink_percent: float
    size_factor: float = 1.0

    def presets(self) -> int:
        """How many of the jobs, the first ones, are presets."""
        return self.jobs.filter(pl.col("preset") != "").height

    def to_swf(self) -> pl.DataFrame:
        """What is submitted as an SWF frame, in virtual seconds; prepared again at 100 % it gives the same
        jobs.

        The requested time is the limit given to sbatch. The wait is that until the cancellation (less the run
        time) for jobs to be cancelled, and unknown for the others.
        """
        col = pl.col
        ran = pl.when("ran").then("runtime_virtual")
        columns = {
            "job_number": col("id"),
            "submit": col("submit_virtual"),
            "wait": col("cancel_after_virtual") - ran.otherwise(0.0),
            "run_time": ran,
            "allocated_processors": col("processors"),
            "requested_processors": col("processors"),
            "requested_time": col("limit_minutes") * 60,
            "requested_memory": col("memory"),
            "preceding_job": col("follows"),
            "think_time": col("think_virtual"),
            **{c: col(c) for c in ("status", "user", "group", "executable", "queue", "partition")},
        }
        return self.jobs.select(
            columns.get(name, pl.lit(-1)).fill_null(-1).cast(kind).alias(name) for name, kind in swf.SCHEMA.items()
        )


def prepare(
    trace: Trace,
    selection: Selection,
    *,
    classes: Sequence[tuple[int, int]],
    slack: float,
    shrink_percent: float = 100.0,
    overrun: str = "extend",
    whole_nodes: bool = False,
    sizes: str = "keep",
    preset: str = "none",
    depend: str = "none",
) -> Workload:
    """Selects and shrinks the jobs of a log for a cluster with these `classes` of nodes, each a number of nodes and the
    processors of each of them.

    The selection is that of `selection.take`. Unusable are jobs without processors, without a submission time,
    partial executions (status 2 to 4: parts of a job that has a line of its own), and jobs with a run time of 0
    or unknown that were not cancelled. Those that were cancelled while they waited are submitted, to be
    cancelled at the recorded time; if that is unknown, they are left out too.

    `sizes`, for a log of another machine: "keep" takes them as they are; "fit" leaves out the jobs that are wider than
    the cluster; "scale" multiplies them by the cluster's processors over those of the log's machine, rounded to
    the nearest, but at least 1. (A job wider than the log's machine becomes one of the whole cluster.)

    `preset`: "none", or which jobs of before the selection come first (`presets.presets`); they come on top of
    the selection's `jobs`.

    `depend`, which jobs wait for others: "keep" the dependencies that sacct tells of, "think" those of SWF's fields 17 and 18
    (a job is submitted think time after the end of its preceding job), "none".

    `slack` is in virtual seconds. `overrun`: "extend" gives a job that (with the slack) would not end within
    its limit the limit max(requested, run) + slack; "kill" leaves the limit as requested.

    Raises WrongUse, naming the knob, for a choice that leaves nothing, goes beyond the log, or holds a job
    that is wider than the cluster.
    """
    _check_knobs(shrink_percent, overrun, sizes)
    if depend == "think" and trace.format == "sacct":
        raise WrongUse("DEPENDENCIES: think is for SWF (fields 17 and 18), and TRACE is sacct's; it may be keep or none")
    there = sum(count * cpus for count, cpus in classes)
    taken = take(trace, selection, _unusable(there if sizes == "fit" else None))
    before, unknown = presets(taken.before, taken.instant, preset)
    window = pl.concat([before, taken.jobs.with_columns(preset=pl.lit(""))])
    window = window.with_columns(processors=_processors(), ran=~never_ran()).with_columns(requests.memory(), *requests.names(trace))
    size_factor, beyond = 1.0, 0
    if sizes == "scale":
        machine = trace.machine()[0]
        size_factor, (window, beyond) = there / machine, _scale(window, machine, there)
    numbered, repeated = _unique(window)
    timed = _shrink(numbered, shrink_percent / 100, slack)
    limited = _limits(timed, shrink_percent / 100, slack, overrun)
    limited, waiting = dependencies.waiting(limited, depend, shrink_percent / 100)
    _check_width(limited, classes)
    wanted = _enough_nodes(classes) if whole_nodes else pl.lit(None, pl.Int64)
    submitted = limited.select(
        "id", "submit", "processors", wanted.alias("nodes_wanted"), "runtime", "requested", "submit_virtual",
        "runtime_virtual", "limit_minutes", "limit_extended", "cancel_after_virtual", "ran", "preset", "status", "user",
        "group", "executable", "queue", "partition", "dependency", "follows", "think_virtual", "memory", "partition_name",
        "qos_name",
    )  # fmt: skip
    notes = {
        "preset_running": submitted.filter(pl.col("preset") == RUNNING).height,
        "preset_queued": submitted.filter(pl.col("preset") == QUEUED).height,
        "preset_unknown": unknown,
        "wider_than_the_logs_machine": beyond,
        "renumbered": repeated,
        "requested_time_unknown": limited.filter("guessed").height,
        "never_ran": submitted.filter(~pl.col("ran")).height,
        "to_be_cancelled": submitted["cancel_after_virtual"].count(),
        "limits_extended": submitted.filter("limit_extended").height,
        **waiting,
        **dependencies.arrays(limited),
    }
    # What is left of a preset job's request is no request that anybody made.
    asked = taken.jobs.filter(pl.col("requested_time") > 0)["requested_time"].n_unique()
    return Workload(
        submitted,
        taken.left_out,
        {reason: count for reason, count in notes.items() if count},
        {"before": asked, "after": submitted.filter(pl.col("preset") == "")["limit_minutes"].n_unique()},
        shrink_percent,
        size_factor,
    )


def _check_knobs(shrink_percent: float, overrun: str, sizes: str) -> None:
    if not 0 < shrink_percent < math.inf:
        raise WrongUse(f"SHRINK: {shrink_percent:g} may be any percentage above 0")
    if overrun not in ("extend", "kill"):
        raise WrongUse(f"OVERRUN: {overrun!r} may be extend or kill")
    if sizes not in ("keep", "scale", "fit"):
        raise WrongUse(f"SIZES: {sizes!r} may be keep, scale or fit")


def _processors() -> pl.Expr:
    """Processors of a job: allocated, or if the log does not say, requested."""
    return pl.when(pl.col("allocated_processors") > 0).then("allocated_processors").otherwise("requested_processors")


def _unusable(widest: int | None) -> pl.Expr:
    """Why a line of a log cannot be submitted; null: it can. `widest`: processors of the cluster, if what is wider is left out."""
    col = pl.col
    return (
        pl.when(col("submit") < 0).then(pl.lit("no submission time"))
        .when(col("status").is_between(2, 4)).then(pl.lit("partial execution"))
        .when(_processors() <= 0).then(pl.lit("no processors"))
        .when(~never_ran() & (col("run_time") <= 0)).then(pl.lit("no run time"))
        .when(never_ran() & (col("wait") < 0)).then(pl.lit("cancelled at an unknown time"))
        .when(_processors() > (math.inf if widest is None else widest)).then(pl.lit("wider than the cluster"))
    )  # fmt: skip


def _scale(window: pl.DataFrame, machine: int, there: int) -> tuple[pl.DataFrame, int]:
    """Processors of a job on `machine` made those on a machine of `there`, and how many jobs were wider than the former."""
    processors = pl.col("processors")
    beyond = window.filter(processors > machine).height
    # Whole numbers all the way: half a processor is rounded up, whatever the factor's last bits are.
    nearest = (2 * processors.clip(upper_bound=machine) * there + machine) // (2 * machine)
    return window.with_columns(processors=nearest.clip(1)), beyond


def _unique(window: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Adds `id`: the job number, or one above all others if it is not positive or has occurred before."""
    number = pl.col("job_number")
    fresh = (number < 1) | ~number.is_first_distinct()
    free = pl.max_horizontal(number.max(), 0) + fresh.cum_sum().cast(pl.Int64)
    numbered = window.with_columns(id=pl.when(fresh).then(free).otherwise(number))
    return numbered, window.select(fresh.sum()).item()


def _shrink(window: pl.DataFrame, factor: float, slack: float) -> pl.DataFrame:
    """Adds the times: trace seconds with what the log does not say filled in, and virtual seconds."""
    col, when = pl.col, pl.when
    unknown = col("requested_time") <= 0
    known_wait = (col("status") == CANCELLED) & (col("wait") >= 0)
    return (
        window.with_columns(
            guessed=unknown,
            runtime=when("ran").then("run_time").otherwise(when(unknown).then(slack / factor).otherwise("requested_time")),
        )
        .with_columns(requested=when(unknown).then(col("runtime") + slack / factor).otherwise("requested_time"))
        .with_columns(
            submit_virtual=(col("submit") - col("submit").first()) * factor,
            runtime_virtual=col("runtime") * factor,
            cancel_after_virtual=when(known_wait).then((col("wait") + col("run_time").clip(0)) * factor),
        )
    )


def _limits(window: pl.DataFrame, factor: float, slack: float, overrun: str) -> pl.DataFrame:
    """Adds `limit_minutes` and `limit_extended`."""
    col = pl.col

    def minutes(seconds: pl.Expr) -> pl.Expr:
        return pl.max_horizontal((seconds / 60 - _EPSILON).ceil().cast(pl.Int64), 1)

    asked = minutes(col("requested") * factor)
    enough = minutes(pl.max_horizontal("requested", "runtime") * factor + slack)
    reached = col("ran") & (col("runtime_virtual") + slack > asked * 60 + _EPSILON)
    extended = reached if overrun == "extend" else pl.lit(False)
    return window.with_columns(limit_minutes=pl.when(extended).then(enough).otherwise(asked), limit_extended=extended)


def _enough_nodes(classes: Sequence[tuple[int, int]]) -> pl.Expr:
    """Whole nodes that hold a job's processors whichever nodes Slurm takes: as many as are needed of the smallest ones."""
    processors = pl.col("processors")
    wanted = pl.lit(None, pl.Int64)
    nodes = held = 0
    for count, cpus in sorted(classes, key=lambda one: one[1]):
        wanted = pl.when(processors > held).then(nodes + (processors - held + cpus - 1) // cpus).otherwise(wanted)
        nodes, held = nodes + count, held + count * cpus
    return wanted


def _check_width(jobs: pl.DataFrame, classes: Sequence[tuple[int, int]]) -> None:
    """WrongUse naming the widest job and what would hold it, if it is wider than the cluster."""
    number, needed = jobs.sort("processors", descending=True, maintain_order=True).select("id", "processors").row(0)
    there = sum(count * cpus for count, cpus in classes)
    if needed > there and len(classes) > 1:
        raise WrongUse(
            f"CLASSES: job {number} needs {needed} processors, the cluster has {there}; more or larger nodes would hold it, "
            "SIZES=fit leaves such jobs out, SIZES=scale makes all of them smaller"
        )
    if needed > there:
        [(nodes, cpus)] = classes
        raise WrongUse(
            f"CPUS: job {number} needs {needed} processors, the cluster has {cpus * nodes} (NODES={nodes} of "
            f"CPUS={cpus}); NODES={-(-needed // cpus)} or CPUS={-(-needed // nodes)} would hold every job, SIZES=fit leaves "
            "wider ones out, SIZES=scale makes all of them smaller"
        )
