"""Why the jobs of a run waited: the wait of each job in spans of one cause each (docs/why.md).

What happened to a job over time is put together from layers, each a table of instants and values that hold until the next instant:
whether it waited, was held, could run at all, what the manager said and whether its backfilling reached the job (reasons.csv), and
whether others were before it. The cause follows from their values, and of the next job of a queue from the state of the machine
(`machine_room`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.metrics.classes import RUNTIMES, sizes
from mirage.metrics.jobs_frame import WAITS_SCHEMA as WAITS_SCHEMA
from mirage.records.machine_room import NEEDS_SCHEMA, NEVER, SLOTS, Room, condensed, during, node_states, places_of, room
from mirage.records.record import RunRecord
from mirage.records.run_records import NS, read_text
from mirage.records.time_map import TimeMap
from mirage.text.words import counted, duration
from slurm_mirage.jobs import arrays
from slurm_mirage.jobs import cluster_events as actions
from slurm_mirage.jobs.plan import PlanRow
from slurm_mirage.jobs.request import Request
from slurm_mirage.rm.api import Records
from slurm_mirage.rm.evidence import Layout, Scheduling, WaitWord

Floats = NDArray[np.float64]

SUBMISSION, PRIORITY, RESOURCES, FRAGMENTATION, BACKFILL = "submission", "priority", "resources", "fragmentation", "backfill"
CYCLE, UNEXPLAINED = "cycle", "unexplained"
CAUSES = {
    PRIORITY: "other jobs were before it",
    RESOURCES: "not enough processors or nodes were free",
    FRAGMENTATION: "enough processors were free, but not on nodes that fit",
    BACKFILL: "the backfill scheduler did not reach it",
    WaitWord.RESERVATION.value: "nodes were reserved",
    WaitWord.NODES.value: "nodes were out of service",
    WaitWord.DEPENDENCY.value: "it depended on other jobs",
    WaitWord.BEGIN.value: "it was not to begin before",
    WaitWord.HELD.value: "it was held",
    WaitWord.ARRAY.value: "so many tasks of its array ran already",
    WaitWord.USER.value: "a limit of its user",
    WaitWord.ACCOUNT.value: "a limit of its account",
    WaitWord.QOS.value: "a limit of its QOS",
    WaitWord.PARTITION.value: "a limit of its partition, or the partition was down",
    WaitWord.LICENCE.value: "licences were missing",
    CYCLE: "it could start, and the scheduler's next cycle was to come",
    SUBMISSION: "the replay had not submitted it yet",
    UNEXPLAINED: "not explained",
}
"""The causes, each with what it means."""
_LIMITS = {WaitWord.USER, WaitWord.ACCOUNT, WaitWord.QOS, WaitWord.PARTITION}
_TOLD = {WaitWord.RESERVATION, WaitWord.NODES, WaitWord.ARRAY, WaitWord.LICENCE, *_LIMITS}
"""Words of the manager that are causes of themselves."""
_FOR_NODES = (WaitWord.RESERVATION.value,)
"""Causes of jobs that wait for nodes and keep those behind them from these, beside what the machine's state says."""
_ENDED_BY_JOBS = (WaitWord.ACCOUNT, WaitWord.QOS, WaitWord.LICENCE, WaitWord.ARRAY, WaitWord.RESERVATION, WaitWord.NODES)
"""Words for what ends with other jobs, or with an event; that of a user's limit ends with jobs of this user."""
_NOT_OF_USE = r"(?i)minutes|mins|wall|per ?(job|node)|min tres|Min[A-Z]|requesting more|^account max$|time limit"
"""Limits of one job, or of the use of a longer time: no end of a job ends them."""
_WINDOW = "bf_window"
"""The setting that keeps no job with room from starting: backfilling looks at the job, and reserves nothing for it."""
MOST_USERS = 20
_LEAST_LAG = 0.001
"""Trace seconds: a job that was submitted later than due by less was not late."""
_NAMED, _LEAST_NAMED = 4, 0.005
"""Causes that the sentence about a job names, of at least that share of its wait."""
LONGEST = 10


def waits(
    record: RunRecord,
    plan: Sequence[PlanRow],
    jobs: pl.DataFrame,
    reasons: pl.DataFrame,
    layout: Layout,
    scheduling: Scheduling,
    interval: float,
) -> pl.DataFrame:
    """The spans of all jobs whose wait has ended, columns of WAITS_SCHEMA, by job and time. The spans of a job are disjoint, and
    cover the time from its submission to its last start, or to its cancellation in the queue, but for executions that were lost.

    jobs: columns of JOBS_SCHEMA; reasons: result of `read_reasons`; interval: trace seconds between two backfill cycles
    """
    known = _jobs(record, plan, jobs)
    queued = known.filter(col("leave") > col("submit"))
    ended = queued.filter(col("leave").is_finite())
    if ended.is_empty():
        return pl.DataFrame(schema=WAITS_SCHEMA)
    pause = (scheduling.start_delay + 1.0) * record.time.second + (interval if scheduling.backfills else 0.0)
    last = _last_changes(known, queued, record)
    layers = [
        *_waiting(queued, record),
        *_own_times(known, queued, record),
        *_words(queued, reasons, record, pause),
        _conflicts(ended, record),
        last.unpivot(index="job", value_name="time").select("job", "time", changed=pl.lit(1)),
    ]
    if scheduling.by_submission:
        layers.append(_ahead(known))
    intervals = _intervals(queued, layers).with_columns(
        order_known=pl.lit(scheduling.by_submission),
        conflict=col("conflicts") > 0,
        asks_more=col("asks_more").fill_null(False),
    )
    intervals = intervals.join(last, on="job", maintain_order="left")
    intervals = intervals.with_columns(pl.when(_is_over()).then(pl.lit("")).otherwise(name).alias(name) for name in _WORDS)
    told = [word.value for word in _TOLD]
    spans = intervals.with_columns(cause=_cause())
    asks = known.select("job", col("partition").fill_null(""), "processors", limit=col("limit").fill_null(np.inf))
    leaders = spans.filter(
        (col("cause") == _ROOM) | col("cause").is_in(_FOR_NODES) | ((col("cause") == _UNSAID) & (col("reason") != ""))
    )
    spans = spans.filter(col("leave").is_finite()).with_columns(
        reason=pl.when(col("cause").is_in(told) | (col("word") == WaitWord.NODES.value))
        .then("reason")
        .when((col("cause") == _UNREACHED) | (col("unreached") == _WINDOW))
        .then("unreached")
        .otherwise(pl.lit(""))
    )
    leaders = leaders.select("job", "begin", "to").join(asks, on="job", maintain_order="left").sort("begin")
    spans = _joined(spans, "word", "conflict", "asks_more").join(asks, on="job", maintain_order="left")
    spans = _led(spans, leaders, layout, pause)
    running = record.tables.placements.drop_nulls(["start", "processors"]).select("job", "start", "end", width="processors")
    running = running.join(asks, on="job", maintain_order="left").with_columns(
        col("end").fill_null(np.inf), until=col("start") + col("limit").fill_null(np.inf)
    )
    states = node_states(layout, record.tables.placements, record.tables.suspensions, record.events)
    spans = _with_room(spans, ended, states, layout, pause)
    could_start = col("is_free") & col("had_room") & col("led") & (col("cause") == _UNREACHED)
    delaying = _delaying(spans.filter(could_start), leaders, running, layout)
    spans = spans.with_columns(delays=col("row").is_in(delaying.implode())).with_columns(final=_final_cause())
    has_reason = (col("cause") != _UNREACHED) | (col("final") == BACKFILL)
    spans = spans.with_columns(cause="final", reason=pl.when(has_reason).then("reason").otherwise(pl.lit("")))
    spans = _joined(spans.select("job", "begin", "to", "cause", "reason"))
    return spans.select("job", col("begin").alias("from"), "to", "cause", "reason")


def read_reasons(path: Path, time: TimeMap, records: Records, ids: pl.DataFrame) -> pl.DataFrame:
    """reasons.csv in its order: job, time (trace seconds), and word and reason (as written) that hold from then on, or unreached,
    the setting because of which no backfill cycle reached the job, empty if one did. Torn lines and other jobs are left out; there
    are no rows without the file.

    ids: id and slurm_id of the jobs
    """
    schema = {"virtual": pl.Float64, "job_id": pl.Int64, "about": pl.String, "reason": pl.String}
    lines = read_text(path).split("\n")[1:-1] if path.exists() else []
    fields = [parts for line in lines if len(parts := line.split(",")) == len(schema)]
    text = pl.DataFrame(fields, schema=dict.fromkeys(schema, pl.String), orient="row").with_row_index()
    frame = text.with_columns(col(name).cast(schema[name], strict=False) for name in ("virtual", "job_id")).drop_nulls()
    words = {reason: records.wait_word(reason).value for reason in frame["reason"].unique()}
    tasks = ids.filter(col("slurm_id") >= arrays.STEP).select(job="id", job_id=-(col("slurm_id") // arrays.STEP))
    named = pl.concat([ids.drop_nulls().select(job="id", job_id="slurm_id"), tasks])
    about_backfill = col("about") == "backfill"
    return (
        frame.join(named, on="job_id", maintain_order="left")
        .sort("index", "job")
        .select(
            "job",
            time=time.trace((col("virtual") * NS).round().cast(pl.Int64)),
            word=pl.when(~about_backfill).then(col("reason").replace_strict(words, default="", return_dtype=pl.String)),
            reason=pl.when(~about_backfill).then("reason"),
            unreached=pl.when(about_backfill).then("reason"),
        )
    )


def with_told_limits(record: RunRecord, reasons: pl.DataFrame) -> RunRecord:
    """The records in which those jobs are `limited` of which the manager has said that they wait for a limit, or for licences. Of
    the tasks of an array it says so of one.

    reasons: as `read_reasons` gives them; without any nothing changes, as the manager may not have told
    """
    if reasons.is_empty():
        return record
    words = [word.value for word in (*_LIMITS, WaitWord.LICENCE)]
    told = col("id").is_in(reasons.filter(col("word").is_in(words))["job"].unique().implode())
    of_array = col("array").is_not_null() & told.any().over("array")
    limited = record.evidence.with_columns(limited=told | of_array)
    return replace(record, evidence=limited, manager=replace(record.manager, limits_told=True))


# ---- the jobs ----


def _jobs(record: RunRecord, plan: Sequence[PlanRow], jobs: pl.DataFrame) -> pl.DataFrame:
    """The jobs that were accepted, in order of their arrival in the queue: job, submit, accepted, arrival, leave (infinite if the
    wait has no known end), partition, owner, limit, needs (columns of NEEDS_SCHEMA), dependent, asks_more, array, at_once,
    begin_after, hold_for (virtual seconds)."""
    rows = [_asked(row) for row in plan]
    asked = pl.DataFrame(rows, schema=_ASKED, orient="row")
    known = record.evidence.select("id", "limit")
    table = jobs.filter(col("submit").is_not_null() & (col("state") != "LOST")).join(known, on="id", maintain_order="left")
    table = table.join(asked, on="id", maintain_order="left", suffix="_asked")
    stopped = pl.when(col("start").is_null()).then("end")
    lag = col("submit_lag").fill_null(0.0)
    accepted = col("submit") + pl.when(lag >= _LEAST_LAG).then(lag).otherwise(0.0)
    return (
        table.with_columns(accepted=accepted, leave=pl.coalesce("start", stopped).fill_null(np.inf))
        .with_columns(arrival=pl.max_horizontal("accepted", col("eligible").fill_null(-np.inf)))
        .rename({"id": "job"})
        .sort("arrival", "job")
    )


_ASKED = {
    "id": pl.Int64,
    **{name: NEEDS_SCHEMA[name] for name in ("kind", "each", "count")},
    "owner": pl.String,
    "dependent": pl.Boolean,
    "asks_more": pl.Boolean,
    "hold_for": pl.Float64,
    "begin_after": pl.Float64,
    "array": pl.Int64,
    "at_once": pl.Int64,
}


def _asked(row: PlanRow) -> tuple[Any, ...]:
    """A row of _ASKED."""
    request = Request.parse(row.request)
    more = request.constraint or request.gres or request.gpus or request.gpus_per_task or request.licences or request.switches
    limits = bool(more or request.contiguous or request.memory_per_node or request.memory_per_gpu or row.memory)
    waits_for = row.dependency != ""
    places = places_of(row.processors, row.nodes, request)
    return (row.id, *places, row.owner, waits_for, limits, request.hold, request.begin, row.array, row.at_once)


# ---- the layers: job, time, and a value each ----


def _waiting(ended: pl.DataFrame, record: RunRecord) -> list[pl.DataFrame]:
    """Whether the job waited: not while executions ran that were lost."""
    lost = record.tables.executions.join(ended.select("job", "leave"), on="job", maintain_order="left")
    lost = lost.filter((col("end") <= col("leave")) & (col("end") > col("start")))
    return [
        ended.select("job", time="submit", waiting=pl.lit(1)),
        lost.select("job", time="end", waiting=pl.lit(1)),
        lost.select("job", time="start", waiting=pl.lit(0)),
        ended.select("job", time="leave", waiting=pl.lit(0)),
    ]


def _own_times(known: pl.DataFrame, ended: pl.DataFrame, record: RunRecord) -> list[pl.DataFrame]:
    """Whether the job was submitted, could run by its dependencies and its instant of begin, had to begin later, and was held."""
    second = record.time.second
    begins = ended.filter(col("begin_after") > 0)
    holds = ended.filter(col("hold_for") > 0)
    events = [
        (int(event.target), event.played, int(event.action == actions.HOLD))
        for event in record.events.done(actions.HOLD, actions.RELEASE_JOB)
        if event.target.isdigit() and event.played is not None
    ]
    by_events = pl.DataFrame(events, schema={"job": pl.Int64, "time": pl.Float64, "held": pl.Int32}, orient="row")
    return [
        ended.select("job", time="accepted", accepted=pl.lit(1)),
        ended.drop_nulls("eligible").select("job", time="eligible", eligible=pl.lit(1)),
        begins.select("job", time="submit", later=pl.lit(1)),
        begins.select("job", time=col("accepted") + col("begin_after") * second, later=pl.lit(0)),
        holds.select("job", time="submit", held=pl.lit(1)),
        holds.select("job", time=col("submit") + col("hold_for") * second, held=pl.lit(0)),
        by_events.join(ended, on="job", how="semi", maintain_order="left"),
        _throttled(known),
        ended.select("job", "partition").join(_closed(record), on="partition", maintain_order="left").drop("partition"),
    ]


def _throttled(known: pl.DataFrame) -> pl.DataFrame:
    """Whether as many tasks of an array ran as may run at once, for each of its tasks."""
    tasks = known.drop_nulls("at_once").select("job", "array", "at_once", "start", "end")
    changes = [tasks.select("array", "at_once", time=name, step=pl.lit(step)) for name, step in (("start", 1), ("end", -1))]
    running = pl.concat(changes).drop_nulls("time").sort("array", "time", "step", maintain_order=True)
    running = running.with_columns(throttled=(col("step").cum_sum().over("array") >= col("at_once")).cast(pl.Int64))
    return tasks.join(running, on="array", maintain_order="left").select("job", "time", "throttled")


def _closed(record: RunRecord) -> pl.DataFrame:
    """Whether events let no jobs start in a partition: partition, time, closed."""
    changes = []
    for event in record.events.done(actions.SET):
        kind, _, name = event.target.partition(" ")
        state = re.search(r"(?i)\bState=(\w+)", event.argument)
        if kind == "partition" and state is not None and event.played is not None:
            changes.append((name, event.played, int(state[1].upper() in ("DOWN", "INACTIVE"))))
    return pl.DataFrame(changes, schema={"partition": pl.String, "time": pl.Float64, "closed": pl.Int32}, orient="row")


def _words(queued: pl.DataFrame, reasons: pl.DataFrame, record: RunRecord, pause: float) -> list[pl.DataFrame]:
    """What the manager said and when, of a job that was put back in the queue nothing until it says something again, and whether
    backfilling reached the job. A first word that came within `pause` after the job's arrival holds since then."""
    known = reasons.join(queued.select("job", "arrival"), on="job", maintain_order="left")
    known = known.filter(col("arrival").is_not_null())
    is_at_once = col("job").is_first_distinct() & (col("time") <= col("arrival") + pause)
    said = known.drop_nulls("word").with_columns(said="time", time=pl.when(is_at_once).then(-np.inf).otherwise("time"))
    again = record.tables.executions.join(queued, on="job", how="semi", maintain_order="left")
    nothing = again.select("job", time="end", word=pl.lit(""), reason=pl.lit(""), unreached=pl.lit(""))
    return [
        nothing,
        said.select("job", "time", "word", "reason", "said"),
        known.drop_nulls("unreached").select("job", "time", "unreached"),
    ]


def _last_changes(known: pl.DataFrame, queued: pl.DataFrame, record: RunRecord) -> pl.DataFrame:
    """The last changes before each job left the queue, -inf if there was none: by_event, an event or a border of a reservation,
    by_user, one of these or the end of a job of its user, and by_any, of any job.

    A job counts that ended within a second after: the records of its end and of the start that it made possible are separate.
    """
    ends = pl.concat(
        [
            known.select("job", "end"),
            *(table.select("job", "end") for table in (record.tables.executions, record.tables.placements)),
        ]
    )
    ends = ends.drop_nulls().join(known.select("job", "owner"), on="job", maintain_order="left").select("owner", time="end")
    played = [event.played for event in record.events.events if event.played is not None]
    windows = [time for one in record.events.reservations for time in (one.begin, one.end)]
    events = pl.DataFrame({"time": [*played, *windows]}, schema={"time": pl.Float64})
    table = queued.select("job", "owner", until=col("leave") + record.time.second).sort("until")
    for name, changes, by in (("by_event", events, None), ("by_user", ends, "owner"), ("by_any", ends, None)):
        columns = ["time"] if by is None else [by, "time"]
        right = changes.select(columns).sort("time").with_columns(col("time").alias(name))
        table = table.join_asof(right, left_on="until", right_on="time", by=by, check_sortedness=False).drop("time", strict=False)
    table = table.with_columns(col("by_event", "by_user", "by_any").fill_null(-np.inf))
    return table.select(
        "job",
        "by_event",
        pl.max_horizontal("by_event", "by_user").alias("by_user"),
        pl.max_horizontal("by_event", "by_any").alias("by_any"),
    )


def _conflicts(ended: pl.DataFrame, record: RunRecord) -> pl.DataFrame:
    """How many announced reservations begin before the job would end, if it started and ran to its limit."""
    coming = [(one.announced, one.begin) for one in record.events.reservations if one.nodes and one.announced < one.begin]
    windows = pl.DataFrame(coming, schema={"announced": pl.Float64, "begins": pl.Float64}, orient="row")
    pairs = ended.select("job", "submit", "leave", col("limit").fill_null(np.inf)).join(windows, how="cross")
    pairs = pairs.with_columns(since=pl.max_horizontal("announced", col("begins") - col("limit")))
    pairs = pairs.filter(col("since") < pl.min_horizontal("begins", "leave"), col("begins") > col("submit"))
    steps = pl.concat(
        [
            pairs.select("job", time="since", step=pl.lit(1)),
            pairs.select("job", time="begins", step=pl.lit(-1)),
        ]
    ).sort("job", "time", "step", maintain_order=True)
    return steps.select("job", "time", conflicts=col("step").cum_sum().over("job"))


def _ahead(known: pl.DataFrame) -> pl.DataFrame:
    """Whether jobs that came earlier waited in the same partition, where jobs wait in order of arrival."""
    before = known.select("job", "arrival", ended=col("leave").cum_max().shift(1).over("partition").fill_null(-np.inf))
    return pl.concat(
        [
            before.select("job", time="arrival", ahead=pl.lit(1)),
            before.filter(col("ended").is_finite() | (col("ended") < 0)).select(
                "job", time=pl.max_horizontal("arrival", "ended"), ahead=pl.lit(0)
            ),
        ]
    )


# ---- the spans ----

_WORDS = ("word", "reason")
_VALUES: Mapping[str, Any] = {
    **dict.fromkeys(
        ("waiting", "accepted", "eligible", "later", "held", "conflicts", "ahead", "closed", "throttled", "changed"), 0
    ),
    **dict.fromkeys((*_WORDS, "unreached"), ""),
    "said": np.inf,
}
"""The values of the layers, with those before the first instant of a job."""


def _intervals(ended: pl.DataFrame, layers: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The times of each job in the queue in which no layer changes: job, begin, to, the values of the layers, and dependent,
    asks_more and has_hold of the job."""
    kinds = {name: {str: pl.String, int: pl.Int64, float: pl.Float64}[type(value)] for name, value in _VALUES.items()}
    tables = [
        layer.with_columns(col("time").cast(pl.Float64), *(col(name).cast(kinds[name]) for name in kinds if name in layer.columns))
        for layer in layers
    ]
    table = pl.concat(tables, how="diagonal").sort("job", "time", maintain_order=True)
    about = ended.select("job", "submit", "leave", "dependent", "asks_more", has_hold=col("hold_for").fill_null(0.0) > 0)
    table = table.join(about, on="job", maintain_order="left").with_columns(time=pl.max_horizontal("time", "submit"))
    table = table.filter(col("time") <= col("leave"))
    missing = [pl.lit(None, kinds[name]).alias(name) for name in _VALUES if name not in table.columns]
    filled = table.with_columns(missing).with_columns(col(name).forward_fill().over("job") for name in _VALUES)
    filled = filled.with_columns(col(name).fill_null(value) for name, value in _VALUES.items())
    # Of several rows of one instant the last one has the values of all.
    held = filled.unique(["job", "time"], keep="last", maintain_order=True).with_columns(to=col("time").shift(-1).over("job"))
    return held.filter((col("waiting") == 1) & (col("to") > col("time"))).rename({"time": "begin"})


def _joined(spans: pl.DataFrame, *same: str) -> pl.DataFrame:
    """The spans (job, begin, to, cause, reason) with neighbours joined that have the same of everything."""
    names = ["job", "cause", "reason", *same]
    alike = pl.all_horizontal(*(col(name) == col(name).shift(1) for name in names), col("begin") == col("to").shift(1))
    runs = spans.with_columns(run=(~alike.fill_null(False)).cum_sum())
    return runs.group_by("run", maintain_order=True).agg(col(*names, "begin").first(), col("to").last()).drop("run")


def _is_over() -> pl.Expr:
    """Whether what the manager said is over: since the last change that could end what the word is about, it said nothing, and
    nothing else changed before the job left the queue."""
    in_use = ~col("reason").str.contains(_NOT_OF_USE)
    last = (
        pl.when((col("word") == WaitWord.USER.value) & in_use)
        .then("by_user")
        .when(col("word").is_in([word.value for word in _ENDED_BY_JOBS]) & in_use)
        .then("by_any")
        .when(col("word") == WaitWord.PARTITION.value)
        .then("by_event")
    )
    return ((col("begin") >= last) & (col("said") < last) & (last < col("leave"))).fill_null(False)


def _led(spans: pl.DataFrame, leaders: pl.DataFrame, layout: Layout, pause: float) -> pl.DataFrame:
    """The spans, with those of jobs behind others (_BEHIND, _UNREACHED) split by whether there were such (led).

    leaders: spans of jobs that waited for nodes; such a job is before those of partitions with the same nodes, and between two of
    them lies a time of up to `pause`
    """
    is_behind = col("cause").is_in([_BEHIND, _UNREACHED])
    parts = [spans.filter(~is_behind).with_columns(led=pl.lit(False))]
    for (partition,), own in spans.filter(is_behind).with_row_index("key").group_by("partition", maintain_order=True):
        before = leaders.filter(_shares_nodes(leaders, layout.partitions.get(str(partition)), layout))
        begin, end = before["begin"].to_numpy(), np.maximum.accumulate(before["to"].to_numpy())
        is_first = np.concatenate([[True], begin[1:] > end[:-1] + pause])[: len(begin)]
        edges = np.stack([begin[is_first], np.append(end[:-1][is_first[1:]], end[-1:])], 1).ravel()
        times, codes = np.append(NEVER, edges), np.arange(len(edges) + 1) % 2
        asked = own.select(col("key").cast(pl.Int64), "begin", end="to")
        found = condensed(during(asked, times, codes), asked, ["room"])
        found = found.rename({"time": "begin", "room": "led"}).sort("key", "begin")
        found = found.with_columns(to=col("begin").shift(-1).over("key"), led=col("led") == 1, key=col("key").cast(pl.UInt32))
        split = own.rename({"begin": "_", "to": "end"}).join(found, on="key").with_columns(to=pl.coalesce("to", "end"))
        parts.append(split)
    return pl.concat([part.select(*spans.columns, "led") for part in parts]).sort("job", "begin")


def _delaying(starts: pl.DataFrame, leaders: pl.DataFrame, running: pl.DataFrame, layout: Layout) -> pl.Series:
    """The rows of those of `starts` (row, begin, partition, processors, limit) that would have delayed a job before them: by the
    time limits this one could start before they had to end, and not beside them. Processors are counted, not nodes; where enough
    were free for the one before, it is not known when it could start.

    leaders, running: spans and placements of jobs, with partition, processors and limit
    """
    found: list[int] = []
    for (name,), own in starts.group_by("partition", maintain_order=True):
        members = layout.partitions.get(str(name))
        total = sum(node.processors for host, node in layout.nodes.items() if members is None or host in members)
        before, ran = (table.filter(_shares_nodes(table, members, layout)) for table in (leaders, running))
        since, to, needed = (before[column].to_numpy() for column in ("begin", "to", "processors"))
        start, end, until, width = (ran[column].to_numpy() for column in ("start", "end", "until", "width"))
        for row, begin, processors, limit in own.select("row", "begin", "processors", "limit").iter_rows():
            runs = (start <= begin) & (end > begin)
            order = np.argsort(until[runs], kind="stable")
            ends = until[runs][order]
            free = total - width[runs].sum() + np.append(0, np.cumsum(width[runs][order]))
            for wanted in np.unique(needed[(since <= begin) & (to > begin)]):
                place = int(np.searchsorted(free, wanted))
                if 0 < place <= len(ends) and begin + limit > ends[place - 1]:
                    beside = free[np.searchsorted(ends, ends[place - 1], "right")] - wanted
                    if processors > beside:
                        found.append(row)
                        break
    return pl.Series(found, dtype=pl.UInt32)


def _shares_nodes(table: pl.DataFrame, members: frozenset[str] | None, layout: Layout) -> pl.Expr:
    """Whether the partition of a row has one of these nodes."""
    names = table["partition"].unique()
    return col("partition").is_in([name for name in names if _overlap(layout.partitions.get(name), members)])


def _overlap(one: frozenset[str] | None, other: frozenset[str] | None) -> bool:
    """Whether partitions have nodes in common; None: of all nodes."""
    return one is None or other is None or not one.isdisjoint(other)


def _with_room(spans: pl.DataFrame, ended: pl.DataFrame, states: pl.DataFrame, layout: Layout, pause: float) -> pl.DataFrame:
    """The spans, numbered by row, with those of _OPEN split by what room there was: of_room, the cause that follows; is_free,
    whether it is _FREE; had_room, whether there was room for longer than `pause` while nothing but room and order could keep
    the job; is_long, whether the spans with is_free last longer.

    spans: also word, conflict, asks_more and led; pause: seconds for which the scheduler may leave a job that could start
    """
    spans = spans.with_row_index("key").with_columns(col("key").cast(pl.Int64))
    needs = ended.with_columns(col("kind").fill_null(SLOTS), col("each").fill_null(1), pl.coalesce("count", "processors"))
    is_open = col("cause").is_in(_OPEN) & ~((col("cause") == _BEHIND) & col("led"))
    asked = spans.filter(is_open).drop_nulls("processors").rename({"to": "end"})
    asked = asked.join(needs.select("job", "kind", "each", "count"), on="job", maintain_order="left")
    found = room(asked.select(NEEDS_SCHEMA.keys()), layout, states, pause)
    table = spans.join(found, on="key", how="left", maintain_order="left").sort("key", "time", maintain_order=True)
    table = table.with_columns(begin=pl.coalesce("time", "begin"), to=pl.coalesce(col("time").shift(-1).over("key"), "to"))
    table = table.with_columns(is_open=col("cause").is_in(_OPEN), of_room=pl.when(is_open).then(_cause_of_room()))
    table = table.with_columns(is_free=(col("of_room") == _FREE).fill_null(False)).with_row_index("row")
    begin, to = _run_of("is_open")
    had_room = pl.min_horizontal(to, "free_until") - pl.max_horizontal(begin, "free_since") > pause
    begin, to = _run_of("is_free")
    is_long = pl.min_horizontal(to - begin, col("free_until") - col("free_since")) > pause
    return table.with_columns(had_room=had_room, is_long=is_long)


def _run_of(name: str) -> tuple[pl.Expr, pl.Expr]:
    """Begin and end of the time of a job around each span in which the flag holds without a break."""
    is_same = col(name) & col(name).shift(1) & (col("job") == col("job").shift(1)) & (col("begin") == col("to").shift(1))
    run = (~is_same.fill_null(False)).cum_sum()
    return col("begin").min().over(run), col("to").max().over(run)


_ROOM, _BEHIND, _UNREACHED, _UNTESTED, _UNSAID, _FREE = "room", "behind", "unreached", "untested", "unsaid", "free"
"""Causes that the machine's state says: of the next job; of one behind others; of one of these that the backfill scheduler did not
reach; of one that no scheduler has looked at; of one of which nothing is said; of one that had room."""
_OPEN = (_ROOM, _BEHIND, _UNREACHED, _UNTESTED, _UNSAID)


def _cause() -> pl.Expr:
    """The cause that follows from the values of the layers."""
    word, can_run = col("word"), col("eligible") == 1

    def says(*words: WaitWord) -> pl.Expr:
        return word.is_in([one.value for one in words])

    unreached = ~col("unreached").is_in(["", _WINDOW])
    ahead = says(WaitWord.AHEAD) | (~says(WaitWord.NO_ROOM) & (col("ahead") == 1))
    cases = [
        (col("accepted") == 0, SUBMISSION),
        ((col("held") == 1) | (says(WaitWord.HELD) & ~col("has_hold")), WaitWord.HELD.value),
        (~can_run & says(WaitWord.DEPENDENCY), WaitWord.DEPENDENCY.value),
        ((col("later") == 1) | (~can_run & says(WaitWord.BEGIN)), WaitWord.BEGIN.value),
        (~can_run & col("dependent").fill_null(False), WaitWord.DEPENDENCY.value),
        (col("closed") == 1, WaitWord.PARTITION.value),
        (col("throttled") == 1, WaitWord.ARRAY.value),
        *((says(one), one.value) for one in WaitWord if one in _TOLD and one is not WaitWord.NODES),
        (says(WaitWord.NODES), _ROOM),
        (ahead & unreached, _UNREACHED),
        (ahead, _BEHIND),
        (says(WaitWord.NO_ROOM) | col("order_known"), _ROOM),
        (says(WaitWord.UNTESTED), _UNTESTED),
    ]
    return _chain(cases, _UNSAID)


def _final_cause() -> pl.Expr:
    """The cause of a span of `_with_room`; delays: whether the job would have delayed one before it."""
    is_free, cause = col("is_free"), col("cause")
    cases: list[tuple[pl.Expr, str | pl.Expr]] = [
        (is_free & col("had_room") & ~col("delays") & cause.is_in([_UNREACHED, _UNTESTED]), BACKFILL),
        (cause.is_in([_BEHIND, _UNREACHED]) & col("led"), PRIORITY),
        (is_free, pl.when("is_long").then(pl.lit(UNEXPLAINED)).otherwise(pl.lit(CYCLE))),
    ]
    return _chain(cases, pl.coalesce("of_room", "cause"))


def _cause_of_room() -> pl.Expr:
    """The cause that follows from the room, _FREE if there was some."""

    def lies(*rooms: Room) -> pl.Expr:
        return col("room").is_in([int(one) for one in rooms]).fill_null(False)

    free = lies(Room.FREE) | (lies(Room.FREE_UNTIL_RESERVED) & ~col("conflict"))
    no_room, nodes = (col("word") == word.value for word in (WaitWord.NO_ROOM, WaitWord.NODES))
    cases = [
        (lies(Room.RESERVED) | (lies(Room.FREE_UNTIL_RESERVED) & col("conflict")), WaitWord.RESERVATION.value),
        (nodes | lies(Room.ABSENT), WaitWord.NODES.value),
        (lies(Room.SCATTERED), FRAGMENTATION),
        (lies(Room.FULL), RESOURCES),
        (free & ~(no_room & col("asks_more")), _FREE),
        (no_room, RESOURCES),
    ]
    return _chain(cases, UNEXPLAINED)


def _chain(cases: Iterable[tuple[pl.Expr, str | pl.Expr]], otherwise: str | pl.Expr) -> pl.Expr:
    chain: Any = pl
    for condition, cause in cases:
        chain = chain.when(condition).then(pl.lit(cause) if isinstance(cause, str) else cause)
    expression: pl.Expr = chain.otherwise(pl.lit(otherwise) if isinstance(otherwise, str) else otherwise)
    return expression


# ---- the summary ----


def summary(spans: pl.DataFrame, jobs: pl.DataFrame, users: pl.DataFrame, processors: int, *, has_reasons: bool) -> dict[str, Any]:
    """The member "wait_causes" of metrics.json: total waiting time, shares of it by cause, and the same of each class of sizes and
    of run times, user and partition; the longest waits with the seconds of each cause.

    users: id and user of the jobs; has_reasons: whether the manager's reasons were recorded
    """
    about = jobs.join(users, on="id", maintain_order="left")
    widest = max(processors, int(about.select(col("processors").max()).item() or 1))
    table = spans.with_columns(length=col("to") - col("from")).join(about, left_on="job", right_on="id", maintain_order="left")
    table = table.with_columns(
        size=_class_of("processors", list(sizes(widest).items())),
        long=_class_of("runtime", [(name, most) for name, most in RUNTIMES.items()]),
        user=col("user").cast(pl.String).fill_null("unknown"),
        partition=col("partition").fill_null("unknown"),
    )
    total = float(table["length"].sum())
    shares = _shares(table)
    by_user = _groups(table, "user")
    longest = table.group_by("job").agg(col("length").sum()).sort("length", "job", descending=[True, False]).head(LONGEST)
    return {
        "jobs": table["job"].n_unique(),
        "waited": round(total, 6),
        "reasons_recorded": has_reasons,
        "unexplained": shares.get(UNEXPLAINED, 0.0),
        "causes": shares,
        "by_size": _groups(table, "size", list(sizes(widest))),
        "by_runtime": _groups(table, "long", list(RUNTIMES)),
        "by_user": by_user[:MOST_USERS],
        "users": len(by_user),
        "by_partition": _groups(table, "partition"),
        "longest": [_of_job(table.filter(col("job") == job)) for job in longest["job"]],
    }


def _class_of(name: str, classes: Sequence[tuple[str, int | None]]) -> pl.Expr:
    chain: Any = pl
    for label, most in classes:
        chain = chain.when(pl.lit(True) if most is None else col(name) <= most).then(pl.lit(label))
    expression: pl.Expr = chain.otherwise(pl.lit("unknown"))
    return pl.when(col(name).is_null()).then(pl.lit("unknown")).otherwise(expression)


def _shares(table: pl.DataFrame) -> dict[str, float]:
    """Shares of the waiting time by cause, in the order of CAUSES."""
    total = table["length"].sum()
    seconds = dict(table.sort("job", "from").group_by("cause", maintain_order=True).agg(col("length").sum()).iter_rows())
    return {cause: round(seconds[cause] / total, 9) for cause in CAUSES if cause in seconds and total > 0}


def _groups(table: pl.DataFrame, name: str, order: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Groups of jobs, in the given order, otherwise by waiting time, most first."""
    parts = {str(key[0]): part for key, part in table.group_by(name, maintain_order=True)}
    found = [
        {"name": key, "jobs": part["job"].n_unique(), "waited": round(float(part["length"].sum()), 6), "causes": _shares(part)}
        for key, part in parts.items()
    ]
    places = {key: place for place, key in enumerate(order)}
    return sorted(found, key=lambda one: (places.get(one["name"], len(places)), -one["waited"], one["name"]))


def _of_job(spans: pl.DataFrame) -> dict[str, Any]:
    first = spans.row(0, named=True)
    seconds = dict(
        spans.group_by("cause", maintain_order=True).agg(col("length").sum()).sort("length", descending=True).iter_rows()
    )
    return {
        "job": first["job"],
        "waited": round(float(spans["length"].sum()), 6),
        "processors": first["processors"],
        "user": first["user"],
        "partition": first["partition"],
        "causes": {cause: round(length, 6) for cause, length in seconds.items()},
    }


def sentence(one: Mapping[str, Any]) -> str:
    """One sentence about the wait of a job, a member of "longest"."""
    shown = [(cause, length) for cause, length in one["causes"].items() if length >= _LEAST_NAMED * one["waited"]][:_NAMED]
    named = [f"{duration(length)}: {CAUSES.get(cause, cause)}" for cause, length in shown]
    left = one["waited"] - sum(length for _, length in shown)
    rest = [f"{duration(left)}: other causes"] if left >= _LEAST_NAMED * one["waited"] else []
    where = ", ".join(
        [
            *([counted(one["processors"], "processor")] if one.get("processors") else []),
            *(f"{name} {one[name]}" for name in ("user", "partition") if one.get(name) not in (None, "unknown")),
        ]
    )
    about = f" ({where})" if where else ""
    return f"Job {one['job']}{about} waited {duration(one['waited'])}. {'; '.join([*named, *rest])}."


def of_job(spans: pl.DataFrame, jobs: pl.DataFrame, job: int) -> dict[str, Any]:
    """The member of "longest" of any job that waited. spans: waits.csv; jobs: jobs.csv"""
    own = spans.filter(col("job") == job).with_columns(length=col("to") - col("from"), user=pl.lit(None, pl.String))
    return _of_job(own.join(jobs.select("id", "processors", "partition"), left_on="job", right_on="id", maintain_order="left"))
