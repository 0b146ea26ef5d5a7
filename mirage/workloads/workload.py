"""Prepares the jobs to submit from a log: selection, preset jobs, sizes, shrinking, time limits, cancellations, dependencies.

The functions have no side effects. Time units: trace seconds are the log's; virtual seconds are those that Slurm sees, which are
trace seconds times SHRINK/100. This factor is that of the thesis that this project is based on; it applies to the intervals between
submissions, the requested times and the run times.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import polars as pl

from mirage.traces import swf
from mirage.traces.trace import Trace
from mirage.workloads import dependencies, not_played, requests
from mirage.workloads.presets import CANCELLED, QUEUED, RUNNING, never_ran, presets
from mirage.workloads.selection import Selection, Taken, take
from slurm_mirage.base.errors import WrongUse

# Tolerance for rounding errors when limits are rounded up to whole minutes.
_EPSILON = 1e-9


@dataclass(frozen=True)
class Workload:
    """The jobs to submit.

    jobs: a row per job, preset jobs first, then in order of submission
        id (Int64)                the log's job number, or, if the log repeats it, a new one above all others
        submit                    trace seconds, as in the log; for a preset job the instant at which the selection begins
        submit_virtual            virtual seconds after the first submission
        processors                allocated processors, or, if unknown, requested ones; scaled for SIZES=scale
        nodes_wanted              number of the smallest nodes that hold these processors; null unless jobs get whole nodes
        runtime, runtime_virtual  trace and virtual seconds of execution (for a job that never ran: its requested time)
        requested                 trace seconds; if unknown, the run time plus the slack
        limit_minutes (Int64)     for `sbatch --time`
        limit_extended            whether the limit is above the requested time (OVERRUN=extend)
        cancel_after_virtual      virtual seconds from submission to cancellation; null: no cancellation
        ran                       false for a job that was cancelled while it waited
        preset                    "running" or "queued": state of a preset job when the selection began; "" for other jobs
        dependency                text for the plan, by `id` (dependencies.py); "": none
        follows (Int64)           the job after whose end this one is submitted; null: none
        think_virtual             virtual seconds from that end to the submission; null: none
        memory                    requested memory in kB per processor; null: unknown
        partition_name, qos_name  names from sacct (a job may list several partitions); "" if unknown
        status, user, group, executable, queue, partition: as in the log
        request                   what a job of sacct asks for here (the words of `jobs.request.Request`)
        played                    kinds of requests in it, separated by blanks
        begin_virtual, hold_virtual: virtual seconds from submission to when it may start, or is released; null: at once
        account                   name of the account, of a log in an archive of mirage-capture; null: unknown
        not_played                kinds of requests that no configuration plays (not_played.WORDS), separated by blanks; "": none
    excluded: number of jobs left out before the last selected one, by reason
    notes: number of jobs by kind of change
    limits: number of distinct requested times before, and of distinct time limits in minutes after the preparation, without preset
        jobs. Shrinking reduces it, and backfill schedulers depend on the differences between limits
    shrink_percent: as given
    size_factor: factor of the sizes before rounding
    unread: message about lines of the log that could not be read
    """

    jobs: pl.DataFrame
    excluded: dict[str, int]
    notes: dict[str, int]
    limits: dict[str, int]
    shrink_percent: float
    size_factor: float = 1.0
    unread: str = ""

    def presets(self) -> int:
        """Number of preset jobs; they are the first rows."""
        return self.jobs.filter(pl.col("preset") != "").height

    def to_swf(self) -> pl.DataFrame:
        """The jobs as an SWF frame in virtual seconds; preparing it with SHRINK=100 gives the same jobs.

        The requested time is the limit given to sbatch. The wait of a job to be cancelled is the time until its cancellation minus
        the run time; the wait of other jobs is unknown.
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
    """Prepares the jobs of a log for a cluster.

    selection: see `selection.take`. Unusable are jobs without processors or submission time, and jobs that were not cancelled and
        have a run time of 0 or unknown. Jobs that were cancelled while they waited are submitted and cancelled at the recorded
        time; they are left out if it is unknown
    classes: number of nodes and processors per node of each class of nodes
    slack: virtual seconds that are added to extended limits and to unknown requested times
    shrink_percent: SHRINK
    overrun: "extend" gives a job that would not end within its limit with the slack the limit max(requested, run) + slack; "kill"
        keeps the requested limit
    whole_nodes: whether jobs get whole nodes
    sizes: "keep" keeps the sizes; "fit" leaves out jobs that are larger than the cluster; "scale" multiplies sizes by the
        cluster's processors over those of the log's machine, rounded to the nearest, at least 1, at most the cluster
    preset: "none", or which preset jobs come first (`presets.presets`), in addition to the selection's `jobs`
    depend: "keep" uses the dependencies of a log from sacct; "think" uses SWF's fields 17 and 18: a job is submitted think time
        after the end of its preceding job; "none" uses neither

    Raises WrongUse, which names the knob, for an invalid value, if no job remains, or if a job is larger than the cluster.
    """
    _check_knobs(shrink_percent, overrun, sizes)
    if depend == "think" and trace.format == "sacct":
        raise WrongUse(
            "think is for SWF (fields 17 and 18), and TRACE is sacct's; it may be keep or none", parameter="dependencies"
        )
    available = sum(count * cpus for count, cpus in classes)
    if sizes == "scale":
        trace = replace(trace, frame=trace.frame.drop("request", "impossible", strict=False))
    taken = take(trace, selection, unusable(available if sizes == "fit" else None, trace.frame.columns))
    before, unknown = presets(taken.before, taken.instant, preset)
    window = pl.concat([before, taken.jobs.with_columns(preset=pl.lit(""))])
    window = window.with_columns(processors=requests.processors(), ran=~never_ran()).with_columns(
        requests.memory(), *requests.names(trace)
    )
    size_factor, beyond = 1.0, 0
    if sizes == "scale":
        machine = trace.machine()[0]
        size_factor, (window, beyond) = available / machine, _scale(window, machine, available)
    numbered, repeated = _unique(window)
    timed = _shrink(numbered, shrink_percent / 100, slack)
    limited = limits(timed, shrink_percent / 100, slack, overrun)
    limited, waiting = dependencies.waiting(limited, depend, shrink_percent / 100)
    limited = limited.with_columns(not_played=not_played.of_log(limited))
    _check_width(limited, classes)
    nodes = _enough_nodes(classes) if whole_nodes else pl.lit(None, pl.Int64)
    submitted = limited.select(
        "id", "submit", "processors", nodes.alias("nodes_wanted"), "runtime", "requested", "submit_virtual",
        "runtime_virtual", "limit_minutes", "limit_extended", "cancel_after_virtual", "ran", "preset", "status", "user",
        "group", "executable", "queue", "partition", "dependency", "follows", "think_virtual", "memory", "partition_name",
        "qos_name", "not_played", *(name for name in ("array_job", "array_limit", "account") if name in limited.columns),
        *_asked(limited, shrink_percent / 100),
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
        **(_left_behind(taken) if preset == "none" else {}),
    }
    # The reduced requested times of preset jobs are not requests of users, so they are not counted.
    requested_times = taken.jobs.filter(pl.col("requested_time") > 0)["requested_time"].n_unique()
    return Workload(
        submitted,
        taken.left_out,
        {reason: count for reason, count in notes.items() if count},
        {"before": requested_times, "after": submitted.filter(pl.col("preset") == "")["limit_minutes"].n_unique()},
        shrink_percent,
        size_factor,
        trace.unread.in_words(),
    )


def _left_behind(taken: Taken) -> dict[str, int]:
    """Jobs that ran or waited in the log when the selection begins and are not submitted, and the processors of the running
    ones."""
    before = taken.before.filter(pl.col("wait") >= 0)
    state = presets(before, taken.instant, "all")[0].with_columns(processors=requests.processors().clip(0))
    running = state.filter(pl.col("preset") == RUNNING)
    return {
        "left_running": running.height,
        "left_running_processors": int(running["processors"].sum()),
        "left_queued": state.height - running.height,
    }


def _asked(jobs: pl.DataFrame, factor: float) -> list[pl.Expr]:
    """The columns `request`, `played`, `begin_virtual` and `hold_virtual` of the workload, as far as the log has them."""
    col = pl.col
    columns = [col("request"), col("played").list.join(" ")] if {"request", "played"} <= set(jobs.columns) else []
    for name in (one for one in ("begin", "hold") if one in jobs.columns):
        # Of a preset job, which is submitted when the selection begins, what is left then.
        left = pl.when(col("preset") == "").then(name).otherwise(col("eligible") - col("submit"))
        waits = col(name).is_not_null() & (left > 0) & (col("preset") != RUNNING)
        columns.append((pl.when(waits).then(left) * factor).alias(f"{name}_virtual"))
    return columns


def _check_knobs(shrink_percent: float, overrun: str, sizes: str) -> None:
    if not 0 < shrink_percent < math.inf:
        raise WrongUse(f"{shrink_percent:g} may be any percentage above 0", parameter="shrink")
    if overrun not in ("extend", "kill"):
        raise WrongUse(f"{overrun!r} may be extend or kill", parameter="overrun")
    if sizes not in ("keep", "scale", "fit"):
        raise WrongUse(f"{sizes!r} may be keep, scale or fit", parameter="sizes")


def unusable(widest: int | None, columns: Collection[str]) -> pl.Expr:
    """Expression for the reason why a job cannot be submitted; null if it can. Jobs with over `widest` processors cannot, nor those
    with a reason in the column `impossible`, if it is one of the log's `columns`."""
    col = pl.col
    impossible = col("impossible") if "impossible" in columns else pl.lit(None, pl.String)
    return (
        pl.when(col("submit") < 0).then(pl.lit("no submission time"))
        .when(requests.processors() <= 0).then(pl.lit("no processors"))
        .when(~never_ran() & (col("run_time") <= 0)).then(pl.lit("no run time"))
        .when(never_ran() & (col("wait") < 0)).then(pl.lit("cancelled at an unknown time"))
        .when(impossible.is_not_null()).then(impossible)
        .when(requests.processors() > (math.inf if widest is None else widest)).then(pl.lit("wider than the cluster"))
    )  # fmt: skip


def _scale(window: pl.DataFrame, machine: int, available: int) -> tuple[pl.DataFrame, int]:
    """Scales job sizes from `machine` processors to `available`; returns the number of jobs larger than the machine, too."""
    processors = pl.col("processors")
    beyond = window.filter(processors > machine).height
    # Integer arithmetic rounds half a processor up without errors of floating-point numbers.
    nearest = (2 * processors.clip(upper_bound=machine) * available + machine) // (2 * machine)
    return window.with_columns(processors=nearest.clip(1)), beyond


def _unique(window: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Adds `id`: the job number, or a number above all others if it is not positive or repeated; and the number of new ones."""
    number = pl.col("job_number")
    fresh = (number < 1) | ~number.is_first_distinct()
    free = pl.max_horizontal(number.max(), 0) + fresh.cum_sum().cast(pl.Int64)
    numbered = window.with_columns(id=pl.when(fresh).then(free).otherwise(number))
    return numbered, window.select(fresh.sum()).item()


def _shrink(window: pl.DataFrame, factor: float, slack: float) -> pl.DataFrame:
    """Adds the times in trace seconds, with unknown values filled in, and in virtual seconds."""
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


def limits(window: pl.DataFrame, factor: float, slack: float, overrun: str) -> pl.DataFrame:
    """Adds `limit_minutes` and `limit_extended`, or computes them again. factor: SHRINK/100; slack, overrun: as for `prepare`."""
    col = pl.col

    def minutes(seconds: pl.Expr) -> pl.Expr:
        return pl.max_horizontal((seconds / 60 - _EPSILON).ceil().cast(pl.Int64), 1)

    requested = minutes(col("requested") * factor)
    enough = minutes(pl.max_horizontal("requested", "runtime") * factor + slack)
    reached = col("ran") & (col("runtime_virtual") + slack > requested * 60 + _EPSILON)
    extended = reached if overrun == "extend" else pl.lit(False)
    return window.with_columns(limit_minutes=pl.when(extended).then(enough).otherwise(requested), limit_extended=extended)


def _enough_nodes(classes: Sequence[tuple[int, int]]) -> pl.Expr:
    """Expression for the number of whole nodes that hold a job's processors on any nodes: counted in the smallest nodes."""
    processors = pl.col("processors")
    needed = pl.lit(None, pl.Int64)
    nodes = held = 0
    for count, cpus in sorted(classes, key=lambda node_class: node_class[1]):
        needed = pl.when(processors > held).then(nodes + (processors - held + cpus - 1) // cpus).otherwise(needed)
        nodes, held = nodes + count, held + count * cpus
    return needed


def _check_width(jobs: pl.DataFrame, classes: Sequence[tuple[int, int]]) -> None:
    """Raises WrongUse if the largest job is larger than the cluster; the message says which values would hold it."""
    number, needed = jobs.sort("processors", descending=True, maintain_order=True).select("id", "processors").row(0)
    available = sum(count * cpus for count, cpus in classes)
    if needed > available and len(classes) > 1:
        raise WrongUse(
            f"job {number} needs {needed} processors, the cluster has {available}; more or larger nodes would hold it, "
            "SIZES=fit leaves such jobs out, SIZES=scale makes all of them smaller",
            parameter="classes",
        )
    if needed > available:
        [(nodes, cpus)] = classes
        raise WrongUse(
            f"job {number} needs {needed} processors, the cluster has {cpus * nodes} (NODES={nodes} of "
            f"CPUS={cpus}); NODES={-(-needed // cpus)} or CPUS={-(-needed // nodes)} would hold every job, SIZES=fit leaves "
            "wider ones out, SIZES=scale makes all of them smaller",
            parameter="cpus",
        )
