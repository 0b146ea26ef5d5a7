"""Scheduling metrics of a schedule; definitions, sources and decisions are in docs/metrics.md.

A job has a submission a, a first start s, an end f, processors p, nodes c. Its wait is w = s - a, its
response r = f - a, its run time t = f - s - (time suspended). All in trace seconds.

Worked example: six jobs on four nodes of one processor each (used by tests/unit/test_metrics.py).

    job  a   s   f  suspended  p |  w   t   r  r/t   r/max(10,t)  p*t  p*r  w/t
      1  0   0  10             2 |  0  10  10  1     1             20   20  0
      2  0   0  20             2 |  0  20  20  1     1             40   40  0
      3  5  10  30             2 |  5  20  25  1.25  1.25          40   50  0.25
      4 10  30  50  40 to 44   4 | 20  16  40  2.5   2.5           64  160  1.25
      5 12  50  51             1 | 38   1  39  39    3.9            1   39  (t <= 1: not in W1 to W4)
      6 20  20  30             1 |  0  10  10  1     1             10   10  0

    wait mean 63/6, median 2.5, p90 29, p95 33.5, p99 37.1, max 38; response 144/6; immediate 3/6; makespan 51
    slowdown 45.75/6; bounded 10.65/6; per processor (only job 5 above 1) 8.9/6
    weighted slowdown 319/175 by area, (2 + 2 + 2.5 + 10 + 39 + 1)/12 by processors; utilisation 175/(4*51)
    loss of capacity: 20 to 30 one processor idle, jobs 4 and 5 wait; 40 to 44 all idle, job 5 wants one:
        (1*10 + 1*4)/(4*51)
    busy nodes: 4 for 36 s, 3 for 10 s, 1 for 1 s, none for 4 s; F(3) = 5/51, F(1) = 4/51
    W 63/6; W1 1.5/5; W2 (5/10 + 20/10)/5; W3 (0.25*F(3) + 1.25*F(1))/5; W4 (0.25*3/4 + 1.25*1/4)/5
    suspensions 1/6, time suspended 4/6, share of jobs suspended 1/6
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from .errors import WrongUse
from .sigsleep_log import Record

JOBS_SCHEMA: dict[str, pl.DataType] = {
    "id": pl.Int64(),
    **dict.fromkeys(["submit", "eligible", "start", "end", "suspended"], pl.Float64()),
    **dict.fromkeys(["processors", "nodes"], pl.Int64()),
    **dict.fromkeys(["requested", "runtime"], pl.Float64()),
    **dict.fromkeys(["priority", "partition", "state"], pl.String()),
    "submit_lag": pl.Float64(),
}
"""Columns of jobs.csv: a row a job, trace seconds, null where unknown; `state` is Slurm's word."""

SUSPENSIONS_SCHEMA: dict[str, pl.DataType] = {"job": pl.Int64(), "suspend": pl.Float64(), "resume": pl.Float64()}
"""Columns of suspensions.csv: a row a suspension, trace seconds, null where unknown."""

# Name: unit, meaning. In the order in which they are shown.
MEANINGS = {
    "wait_mean": ("s", "time from submission to first start, mean"),
    "wait_median": ("s", "median"),
    "wait_p90": ("s", "90th percentile"),
    "wait_p95": ("s", "95th percentile"),
    "wait_p99": ("s", "99th percentile"),
    "wait_max": ("s", "longest"),
    "response_mean": ("s", "time from submission to end"),
    "slowdown_mean": ("", "response over run time"),
    "bounded_slowdown_mean": ("", "the same, run times below tau taken as tau, at least 1"),
    "pp_bounded_slowdown_mean": ("", "the same per processor"),
    "weighted_slowdown": ("", "slowdown weighted by processors x run time"),
    "weighted_slowdown_processors": ("", "slowdown weighted by processors"),
    "utilisation": ("", "processors x run time over all that the machine had"),
    "loss_of_capacity": ("", "share of the machine idle although jobs waited that could use it"),
    "makespan": ("s", "first submission to last end"),
    "W": ("s", "mean wait"),
    "W1": ("", "wait over run time"),
    "W2": ("", "wait over the order of the run time"),
    "W3": ("", "W1 with the chance that enough nodes are free"),
    "W4": ("", "W1 with that chance taken as uniform"),
    "immediate_fraction": ("", "share of jobs that started at once"),
    "suspensions_mean": ("", "suspensions of a job"),
    "suspended_mean": ("s", "time for which a job was suspended"),
    "suspended_fraction": ("", "share of jobs suspended at least once"),
}

_COUNTED = {
    "completed": ["COMPLETED"],
    "failed": ["FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED"],
    "cancelled": ["CANCELLED"],
    "timeout": ["TIMEOUT"],
    "lost": ["LOST"],
}
_PARTIAL = "PARTIAL"
_DIGITS = 6  # of a run time in seconds: what is left of subtracting equal times in floats is no run time
_SWF_STATES = {0: "FAILED", 1: "COMPLETED", 2: _PARTIAL, 3: _PARTIAL, 4: _PARTIAL, 5: "CANCELLED"}


def compute(
    jobs: pl.DataFrame,
    processors: int,
    nodes: int | None = None,
    tau: float = 10.0,
    *,
    suspensions: pl.DataFrame | None = None,
    w2_reading: str = "magnitude",
    resolution: float = 1.0,
) -> dict[str, Any]:
    """The members "jobs", "metrics", "null_reasons", "settings" and "excluded" of metrics.json.

    jobs: columns of `JOBS_SCHEMA`; processors, nodes: of the machine (nodes None: unknown); tau: seconds;
    suspensions: columns job, suspend, resume (suspensions.csv), all of them, or None if not known;
    w2_reading: "magnitude" (w / 10^floor(log10 t)) or "log" (w / ln t); resolution: seconds, a wait below
    it counts as none. A metric that cannot be computed is null, with its reason. Raises WrongUse for a
    setting out of range.
    """
    _check_settings(processors, nodes, tau, w2_reading)
    lines = jobs.filter(pl.col("state").fill_null("") != _PARTIAL)
    judged = lines.with_columns(reason=_reason())
    measured = _with_quantities(judged.filter(pl.col("reason").is_null()), processors, nodes)
    excluded = dict(judged["reason"].drop_nulls().value_counts().sort("reason").iter_rows())
    excluded["partial execution"] = jobs.height - lines.height
    excluded["run time of 0: not in the slowdowns"] = measured.filter(pl.col("t") <= 0).height
    excluded["run time up to 1 s: not in W1 to W4"] = measured.filter(pl.col("t") <= 1).height
    values = _means(measured, tau, resolution)
    values |= _over_runtime(measured)
    values |= _over_machine(measured, processors)
    values |= _w_indices(measured, nodes, w2_reading)
    values |= _suspensions(measured, suspensions)
    values |= _from_profile(measured, judged, processors, nodes, suspensions)
    return {
        "jobs": _counts(lines),
        "metrics": {name: None if isinstance(values[name], str) else values[name] for name in MEANINGS},
        "null_reasons": {name: values[name] for name in MEANINGS if isinstance(values[name], str)},
        "settings": {
            "tau": tau,
            "w2_reading": w2_reading,
            "processors": processors,
            "nodes": nodes,
            "warmup_cut": 0.0,
            "cooldown_cut": 0.0,
            "percentiles": "linear",
            "immediate_below": resolution,
            "job_nodes": _job_nodes(measured, nodes),
        },
        "excluded": {reason: count for reason, count in excluded.items() if count},
    }


def table(metrics: dict[str, Any]) -> list[tuple[str, float | None, str, str]]:
    """Rows (name, value, unit, meaning) of `compute`'s result for the terminal; for a null, the reason."""
    values, reasons = metrics["metrics"], metrics["null_reasons"]
    return [(name, values[name], unit, reasons.get(name, meaning)) for name, (unit, meaning) in MEANINGS.items()]


def frame_from_swf(trace: pl.DataFrame) -> pl.DataFrame:
    """The schedule that a log records, as a jobs frame. An SWF frame, with `suspended` if sacct gave it.

    A wait of -1 is unknown (and so is the start); other negative waits are kept, for `compute` to report. A
    cancelled job (status 5) without a run time never started; its end is when it was cancelled.
    """
    col, when = pl.col, pl.when
    unused = (col("status") == 5) & (col("run_time") <= 0)
    waited = when(col("wait") != -1).then(col("submit") + col("wait"))
    suspended = col("suspended") if "suspended" in trace.columns else pl.lit(None, pl.Float64)
    columns = {
        "id": col("job_number"),
        "submit": when(col("submit") >= 0).then("submit"),
        "start": when(~unused).then(waited),
        "end": when(unused).then(waited).when(col("run_time") >= 0).then(waited + col("run_time") + suspended.fill_null(0)),
        "suspended": suspended,
        "processors": when(col("allocated_processors") > 0)
        .then("allocated_processors")
        .when(col("requested_processors") > 0)
        .then("requested_processors"),
        "requested": when(col("requested_time") > 0).then("requested_time"),
        "runtime": when(col("run_time") >= 0).then("run_time"),
        "partition": when(col("partition") >= 0).then("partition"),
        "state": col("status").replace_strict(_SWF_STATES, default=None, return_dtype=pl.String),
    }
    return trace.select(columns.get(c, pl.lit(None)).cast(kind).alias(c) for c, kind in JOBS_SCHEMA.items())


def frame_from_sigsleep(records: Sequence[Record]) -> pl.DataFrame:
    """The schedule in sigsleep's records (`sigsleep_log.read_log`), as a jobs frame, in seconds of its clock.

    Instants count from the first submission. Records of one submission (the job was requeued) make one row:
    first start, last end; the time in between counts as suspended. A job that did not complete is
    CANCELLED: the log cannot tell a cancellation from a time limit.
    """
    if not records:
        return pl.DataFrame(schema=JOBS_SCHEMA)
    col, seconds = pl.col, 1e9
    between = col("end").max() - col("start").min() - col("executed").sum()
    stopped = pl.when(pl.len() > 1).then(between).otherwise(col("suspended").sum())
    ended = pl.when(col("completed").last()).then(pl.lit("COMPLETED")).otherwise(pl.lit("CANCELLED"))
    submissions = _runs(records).sort("restart").group_by("key", maintain_order=True)
    rows = submissions.agg(
        id=col("id").first(),
        submit=col("submit").first() / seconds,
        start=col("start").min() / seconds,
        end=col("end").max() / seconds,
        suspended=stopped / seconds,
        processors=col("cores").last(),
        runtime=col("runtime").last() / seconds,
        priority=col("priority").last(),
        state=ended,
    )
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in JOBS_SCHEMA.items()
    ).sort("submit", "id")


def suspensions_from_sigsleep(records: Sequence[Record]) -> pl.DataFrame:
    """The suspensions in sigsleep's records: job, suspend, resume, as in suspensions.csv; null where unknown.

    Seconds of the clock from the first submission, as in `frame_from_sigsleep`.
    """
    origin = min((record.submission_ns for record in records), default=0)
    rows = [
        (record.id, *((instant - origin) / 1e9 if instant else None for instant in period))
        for record in records
        for period in record.suspensions
    ]
    return pl.DataFrame(rows, schema=SUSPENSIONS_SCHEMA, orient="row")


def _runs(records: Sequence[Record]) -> pl.DataFrame:
    """A row a record, in nanoseconds from the first submission; `suspended` as far as its instants tell."""
    origin = min((record.submission_ns for record in records), default=0)

    def suspended(record: Record) -> int:
        if record.overflowed or any(not (a and b) for a, b in record.suspensions):
            return record.end_ns - record.start_ns - record.executed_ns
        return sum(resume - suspend for suspend, resume in record.suspensions)

    return pl.DataFrame(
        {
            "key": [f"{record.id} {record.slurm_job_id} {record.submission_ns}" for record in records],
            "restart": [record.restart for record in records],
            "id": [record.id for record in records],
            "submit": [record.submission_ns - origin for record in records],
            "start": [record.start_ns - origin for record in records],
            "end": [record.end_ns - origin for record in records],
            "executed": [record.executed_ns for record in records],
            "suspended": [suspended(record) for record in records],
            "cores": [record.cores for record in records],
            "runtime": [record.runtime_ns for record in records],
            "priority": [record.priority for record in records],
            "completed": [record.completed for record in records],
        }
    )


def _check_settings(processors: int, nodes: int | None, tau: float, w2_reading: str) -> None:
    if processors < 1:
        raise WrongUse(f"processors: {processors} may be 1 or more")
    if nodes is not None and not 1 <= nodes <= processors:
        raise WrongUse(f"nodes: {nodes} may be from 1 to the number of processors, {processors}")
    if not tau > 0:
        raise WrongUse(f"tau: {tau:g} may be any number of seconds above 0")
    if w2_reading not in ("magnitude", "log"):
        raise WrongUse(f"w2_reading: {w2_reading!r} may be magnitude or log")


def _reason() -> pl.Expr:
    """Why a job is left out of all metrics; null: it is not."""
    col, lit = pl.col, pl.lit
    return (
        pl.when(col("state") == "LOST").then(lit("lost"))
        .when(col("submit").is_null()).then(lit("no submission time"))
        .when((col("state") == "CANCELLED") & col("start").is_null()).then(lit("cancelled before start"))
        .when(col("start").is_null()).then(lit("no start"))
        .when(col("start") < col("submit")).then(lit("negative wait"))
        .when(col("end").is_null()).then(lit("no end"))
        .when(col("end") < col("start")).then(lit("end before start"))
        .when(col("processors").fill_null(0) < 1).then(lit("no processors"))
        .when((col("end") - col("start") - col("suspended")).round(_DIGITS) < 0).then(lit("suspended for longer than it ran"))
    )  # fmt: skip


def _with_quantities(measured: pl.DataFrame, processors: int, nodes: int | None) -> pl.DataFrame:
    """Adds w, r, t, p and c. Nodes that are not recorded: as few as hold the processors."""
    col = pl.col
    packed = (col("processors") * (nodes or 0) / processors).ceil().cast(pl.Int64)
    return measured.with_columns(
        w=col("start") - col("submit"),
        r=col("end") - col("submit"),
        t=(col("end") - col("start") - col("suspended").fill_null(0)).round(_DIGITS),
        p=col("processors"),
        c=pl.coalesce("nodes", packed),
    )


def _counts(lines: pl.DataFrame) -> dict[str, int]:
    """Jobs by how they ended; `other`: none of these (not ended, or not recorded)."""
    state = pl.col("state").fill_null("")
    counts = {name: lines.filter(state.is_in(states)).height for name, states in _COUNTED.items()}
    return {"submitted": lines.height, **counts, "other": lines.height - sum(counts.values())}


_Values = dict[str, Any]  # a metric's value, or as text the reason why it has none
_NOBODY = "no job has a recorded submission, start and end"
_NO_TIME = "the schedule has no length"
_NO_NODES = "the machine's number of nodes is not known"
_NO_W = "no job ran for more than 1 s"
_NO_INSTANTS = "jobs were suspended, and it is not recorded when"


def _select(population: pl.DataFrame, reason: str, **metrics: pl.Expr) -> _Values:
    """The metrics over the jobs, or the reason for all of them if there are no jobs."""
    if population.height == 0:
        return dict.fromkeys(metrics, reason)
    return population.select(**metrics).row(0, named=True)


def _means(measured: pl.DataFrame, tau: float, resolution: float) -> _Values:
    """Waits, responses and bounded slowdowns, which every measured job has."""
    w, r, p = pl.col("w"), pl.col("r"), pl.col("p")
    bound = pl.max_horizontal("t", pl.lit(tau))
    return _select(
        measured,
        _NOBODY,
        wait_mean=w.mean(),
        wait_median=w.median(),
        **{f"wait_p{percent}": w.quantile(percent / 100, "linear") for percent in (90, 95, 99)},
        wait_max=w.max(),
        response_mean=r.mean(),
        bounded_slowdown_mean=(r / bound).clip(1).mean(),
        pp_bounded_slowdown_mean=(r / (p * bound)).clip(1).mean(),
        W=w.mean(),
        immediate_fraction=(w < resolution).mean(),
    )


def _over_runtime(measured: pl.DataFrame) -> _Values:
    """Slowdowns, of jobs with a run time above 0. Weights: p*t, in which t cancels out, and p."""
    r, t, p = pl.col("r"), pl.col("t"), pl.col("p")
    return _select(
        measured.filter(t > 0),
        "no job has a run time above 0" if measured.height else _NOBODY,
        slowdown_mean=(r / t).mean(),
        weighted_slowdown=(p * r).sum() / (p * t).sum(),
        weighted_slowdown_processors=(p * r / t).sum() / p.sum(),
    )


def _over_machine(measured: pl.DataFrame, processors: int) -> _Values:
    """Makespan and utilisation."""
    used = (pl.col("p") * pl.col("t")).sum()
    span = pl.col("end").max() - pl.col("submit").min()
    values = _select(measured, _NOBODY, makespan=span, utilisation=used / (processors * span))
    if values["makespan"] == 0:
        values["utilisation"] = _NO_TIME
    return values


def _w_indices(measured: pl.DataFrame, nodes: int | None, w2_reading: str) -> _Values:
    """W1, W2 and W4, of jobs that ran for more than a second."""
    w, t, c = pl.col("w"), pl.col("t"), pl.col("c")
    order = t.log()
    if w2_reading == "magnitude":
        # By comparison, because log10(1000) comes out below 3.
        order = pl.lit(1.0)
        for power in range(1, 16):
            order = pl.when(t >= 10.0**power).then(10.0**power).otherwise(order)
    values = _select(
        measured.filter(t > 1),
        _NO_W if measured.height else _NOBODY,
        W1=(w / t).mean(),
        W2=(w / order).mean(),
        W4=(w / t * ((nodes or 0) - c + 1).clip(0, nodes) / (nodes or 1)).mean(),
    )
    if nodes is None and not isinstance(values["W1"], str):
        values["W4"] = _NO_NODES
    return values


def _suspensions(measured: pl.DataFrame, suspensions: pl.DataFrame | None) -> _Values:
    """How often and how long jobs were suspended."""
    suspended = pl.col("suspended")
    names = ("suspensions_mean", "suspended_mean", "suspended_fraction")
    if measured.height == 0:
        return dict.fromkeys(names, _NOBODY)
    if measured["suspended"].null_count() == measured.height:
        return dict.fromkeys(names, "the schedule does not record suspensions")
    values = _select(measured, "", suspended_mean=suspended.mean(), suspended_fraction=(suspended > 0).mean())
    if suspensions is not None:
        of_these = suspensions.join(measured, left_on="job", right_on="id", how="semi")
        return {**values, "suspensions_mean": of_these.height / measured.height}
    never = values["suspended_fraction"] == 0
    return {**values, "suspensions_mean": 0.0 if never else _NO_INSTANTS}


def _from_profile(
    measured: pl.DataFrame,
    judged: pl.DataFrame,
    processors: int,
    nodes: int | None,
    suspensions: pl.DataFrame | None,
) -> _Values:
    """W3 and the loss of capacity, from what was busy and what waited over time."""
    names = ("W3", "loss_of_capacity")
    if measured.height == 0:
        return dict.fromkeys(names, _NOBODY)
    stops = pl.DataFrame(schema=SUSPENSIONS_SCHEMA) if suspensions is None else suspensions.select(*SUSPENSIONS_SCHEMA)
    stopped = measured.join(stops, left_on="id", right_on="job")
    sure = stopped.select("suspend", "resume").null_count().sum_horizontal().item() == 0
    if (measured["suspended"].fill_null(0) > 0).any() and (suspensions is None or not sure):
        return dict.fromkeys(names, _NO_INSTANTS)
    levels = _profile(measured, judged, stopped)
    length = levels["dt"].sum()
    if length == 0:
        return dict.fromkeys(names, _NO_TIME)
    idle = (processors - pl.col("busy")).clip(0)
    lost = levels.select((pl.min_horizontal("waiting", idle) * pl.col("dt")).sum()).item()
    return {"loss_of_capacity": lost / (processors * length), "W3": _w3(measured, levels, nodes)}


def _profile(measured: pl.DataFrame, judged: pl.DataFrame, stopped: pl.DataFrame) -> pl.DataFrame:
    """Stretches of `dt` seconds from the first submission to the last end, in order: processors that
    waiting jobs ask for (`waiting`), processors and nodes in use (`busy`, `busy_nodes`).

    A job cancelled while it waited did wait until then. What a suspended job held is free for others.
    """
    p, c, none = pl.col("processors"), pl.col("c"), pl.lit(0, pl.Int64)

    def change(jobs: pl.DataFrame, at: str, *, waiting: pl.Expr = none, running: int = 0) -> pl.DataFrame:
        held = {"busy": p * running, "busy_nodes": c * running if running else none}
        return jobs.select(pl.col(at).alias("time"), waiting.alias("waiting"), **held)

    unstarted = judged.filter((pl.col("reason") == "cancelled before start") & pl.col("end").is_not_null() & (p > 0))
    changes = [
        change(measured, "submit", waiting=p),
        change(measured, "start", waiting=-p, running=1),
        change(measured, "end", running=-1),
        change(stopped, "suspend", running=-1),
        change(stopped, "resume", running=1),
        change(unstarted, "submit", waiting=p),
        change(unstarted, "end", waiting=-p),
    ]
    first, last = measured.select(pl.col("submit").min(), pl.col("end").max()).row(0)
    time = pl.col("time").clip(first, last)
    return (
        pl.concat(changes)
        .group_by("time")
        .sum()
        .sort("time")
        .select(pl.col("waiting", "busy", "busy_nodes").cum_sum(), dt=(time.shift(-1) - time).fill_null(0))
    )


def _w3(measured: pl.DataFrame, levels: pl.DataFrame, nodes: int | None) -> Any:
    """Mean of (w / t) * F(N - c + 1), F(x) the share of the time in which fewer than x nodes were busy."""
    counted = measured.filter(pl.col("t") > 1)
    if nodes is None:
        return _NO_NODES
    if counted.height == 0:
        return _NO_W
    share = pl.col("dt") / pl.col("dt").sum()
    distribution = (
        levels.group_by(pl.col("busy_nodes").clip(0, nodes))
        .agg(pl.col("dt").sum())
        .sort("busy_nodes")
        .select("busy_nodes", chance=share.cum_sum())
    )
    fitting = counted.select(pl.col("w") / pl.col("t"), free=nodes - pl.col("c")).sort("free")
    # Fewer than N - c + 1 busy nodes are N - c at most.
    joined = fitting.join_asof(distribution, left_on="free", right_on="busy_nodes")
    return joined.select((pl.col("w") * pl.col("chance").fill_null(0)).mean()).item()


def _job_nodes(measured: pl.DataFrame, nodes: int | None) -> str | None:
    """Where the nodes of jobs come from: the record, or as few as hold their processors, or some of both."""
    missing = measured["nodes"].null_count()
    if nodes is None or measured.height == 0:
        return None
    return "recorded" if missing == 0 else "packed" if missing == measured.height else "mixed"
