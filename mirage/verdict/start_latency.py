"""How long jobs waited that need not have waited: the start latency, the part of each wait that the scheduler did not decide.

A job need not have waited if, when Slurm accepted it, processors that it could use were idle for it and for all waiting jobs:

- in its partition: all jobs of partitions that have nodes in common with it count as waiting or running there;
- with a request for memory, or for whole nodes: whole idle nodes, of which those with the least memory are assumed to be left;
- with other requests, or with one for memory or whole nodes: what `room_at_acceptance` says;
- where limits of accounts and QOS hold: Slurm's log says of no limit that the job waited for it (docs/why.md), or without such a
  log nothing else ran or waited; with licences: Slurm's log does not say so of them.

Jobs with a dependency, an instant of begin, or a hold, tasks of an array that lets only some run at once, and jobs of a partition
with limits of its own, are left out: nothing tells what they waited for. So are jobs that Slurm requeued: their start is the last
one.

Where jobs beside the workload's take what is idle, a job waits until they have left its nodes, which is a delay by Slurm's
configuration: the latency counts from then on. Others are left out, unless none of those ran when they were accepted: they waited
for what Slurm planned around them.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from polars import col

from mirage.records.record import RunRecord
from mirage.verdict import events, room_at_acceptance
from slurm_mirage.rm.evidence import Layout


def start_latencies(record: RunRecord, layout: Layout) -> pl.Series:
    """Trace seconds from acceptance (or eligibility, if later) to start of the jobs that need not have waited.

    An empty queue would be a simpler condition, but if launches are slow compared with the intervals between submissions, the queue
    is never empty, which this figure has to show.
    """
    jobs = _jobs(record, layout)
    pauses = record.tables.suspensions.drop_nulls().join(
        jobs.select("id", "width", "most_nodes", "partition"), left_on="job", right_on="id"
    )
    changes = changes_of_size(record.tables.allocations, jobs)
    latencies = [
        _judged(
            jobs.filter(own),
            jobs.filter(shared),
            pauses.filter(shared),
            changes.filter(shared),
            events.taken(record, layout, layout.partitions.get(partition, layout.nodes)),
            layout,
            partition,
        )
        for partition, own, shared in _parts(jobs, layout)
    ]
    counted = pl.concat([*latencies, pl.Series("id", [], pl.Int64)])
    ids = pl.concat([counted, _with_room(jobs.filter(~col("id").is_in(counted.implode())), jobs, record, layout)])
    started = jobs.drop_nulls("start").filter(col("id").is_in(ids.implode()))
    since = ["accepted", "eligible"]
    if (beside := record.beside) is not None:
        since.append("vacated")
        started = started.filter((col("vacated") >= col("accepted")).fill_null(False) | ~_filled(started, beside))
    return started.select(latency=col("start") - pl.max_horizontal(since)).to_series()


def _with_room(others: pl.DataFrame, jobs: pl.DataFrame, record: RunRecord, layout: Layout) -> pl.Series:
    """Ids of those of the other jobs of which the nodes tell that they need not have waited."""
    is_told = record.manager.limits_told | ~col("request").str.contains("licences=", literal=True)
    asks = (col("request") != "") | col("memory").is_not_null() | col("whole_nodes")
    known = [name for name in layout.partitions if name not in layout.limited]
    is_late = col("request").str.contains(r"(^| )(begin|hold)=")
    candidates = others.filter(asks & is_told & ~is_late & ~col("left_out") & ~col("limited") & col("partition").is_in(known))
    if candidates.is_empty():
        return candidates["id"]
    return room_at_acceptance.with_room(candidates, jobs, record, layout, events.SLACK * record.time.second)


def _filled(jobs: pl.DataFrame, beside: pl.DataFrame) -> pl.Series:
    """Whether any job beside the workload's ran when each job was accepted. beside: their executions"""
    accepted = jobs["accepted"].to_numpy()
    begun, ended = (np.sort(beside[name].drop_nulls().to_numpy()) for name in ("start", "end"))
    return pl.Series(np.searchsorted(begun, accepted, "right") > np.searchsorted(ended, accepted, "right"))


def _jobs(record: RunRecord, layout: Layout) -> pl.DataFrame:
    """The jobs that are in any record, with accepted, width (processors that they take), most_nodes (on which they may be), memory
    (MiB per processor), limited, and left_out."""
    known = ["whole_nodes", "memory", "limited", "dependent", "restarts", "request", "array", "at_once", "limit"]
    known += ["vacated"] if record.beside is not None else []
    jobs = record.jobs.filter(col("state") != "LOST").join(record.evidence.select("id", *known), on="id", maintain_order="left")
    sizes = {name: max((layout.nodes[node].processors for node in nodes), default=1) for name, nodes in layout.partitions.items()}
    largest = col("partition").replace_strict(
        sizes, default=max((node.processors for node in layout.nodes.values()), default=1), return_dtype=pl.Int64
    )
    count = len(layout.nodes)
    width = pl.max_horizontal("processors", pl.when("whole_nodes").then(col("nodes") * largest).otherwise(0))
    # The nodes of a job that has started are known; a waiting one may get a node for each processor.
    nodes = pl.when("whole_nodes").then("nodes").otherwise(pl.min_horizontal(pl.max_horizontal("nodes", 1), count))
    waiting_nodes = pl.when("whole_nodes").then("nodes").otherwise(pl.min_horizontal("processors", count))
    return jobs.with_columns(
        accepted=col("submit") + col("submit_lag"),
        left=pl.coalesce("start", "end"),
        width=width,
        most_nodes=pl.when(col("start").is_null()).then(waiting_nodes).otherwise(nodes),
        waiting_nodes=waiting_nodes,
        partition=col("partition").fill_null(""),
        limited=col("limited") & (layout.enforces_limits and not record.manager.limits_told),
        left_out=col("dependent")
        | (col("restarts") > 0)
        | col("at_once").is_not_null()
        | (col("limited") & record.manager.limits_told),
    ).with_columns(left_out=col("left_out") | events.left_out_of_latency(record, layout))


def changes_of_size(allocations: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """By how much running jobs changed their size, and when: id, partition, time, width, most_nodes. At its end a job gives up its
    size at the start, as all jobs do, and the sum of its changes."""
    known = jobs.drop_nulls("start").select("id", "partition", "end", first="processors", first_nodes="nodes")
    table = allocations.sort("job", "from").join(known, left_on="job", right_on="id", maintain_order="left").rename({"job": "id"})
    before, nodes_before = (
        col(name).shift(1).over("id").fill_null(col(first)) for name, first in (("processors", "first"), ("nodes", "first_nodes"))
    )
    moves = table.select(
        "id", "partition", "end", time="from", width=col("processors") - before, most_nodes=col("nodes") - nodes_before
    )
    sums = moves.group_by("id", "partition", maintain_order=True).agg(
        time=col("end").first(), **{name: -col(name).sum() for name in ("width", "most_nodes")}
    )
    return pl.concat([moves.drop("end"), sums.drop_nulls("time")], how="vertical_relaxed")


def _parts(jobs: pl.DataFrame, layout: Layout) -> list[tuple[str, pl.Expr, pl.Expr]]:
    """Of each partition with jobs: its name, which jobs are its own, and which may use its nodes.

    A partition whose nodes are not known is taken to have all of them if all jobs are in it; else its jobs are left out.
    """
    names = jobs["partition"].unique().sort().to_list()
    parts = []
    for name in names:
        if name in layout.limited or (name not in layout.partitions and len(names) > 1):
            continue
        nodes = layout.partitions.get(name, frozenset(layout.nodes))
        apart = [other for other in names if other in layout.partitions and not layout.partitions[other] & nodes]
        parts.append((name, col("partition") == name, ~col("partition").is_in(apart)))
    return parts


def _judged(
    own: pl.DataFrame,
    shared: pl.DataFrame,
    pauses: pl.DataFrame,
    changes: pl.DataFrame,
    absences: pl.DataFrame,
    layout: Layout,
    partition: str,
) -> pl.Series:
    """Ids of the jobs in `own` that need not have waited.

    shared: all jobs that may use the nodes of the partition, `own` among them; pauses, changes: their suspensions and changes of
        size; absences: `events.taken` of the partition's nodes
    """
    nodes = [layout.nodes[name] for name in layout.partitions.get(partition, layout.nodes)]
    processors = sum(node.usable(0) for node in nodes)
    state = _state_at_acceptance(shared, pauses, changes, absences).join(
        own.select("id"), on="id", how="semi", maintain_order="left"
    )
    state = state.join(
        own.select("id", "processors", "nodes", "whole_nodes", "memory", "limited", "left_out"),
        on="id",
        maintain_order="left",
    )
    # A job that asks for more may have no room, and hold those behind it back.
    fits = (col("width") <= processors) & (col("asking") == 0)
    apart = ~col("limited") | (col("others") == 0)
    simple = state.filter(~col("left_out") & fits & apart & col("memory").is_null() & ~col("whole_nodes"))
    whole = state.filter(~col("left_out") & fits & apart & (col("memory").is_not_null() | col("whole_nodes")))
    kept = [simple["id"]]
    for (memory,), part in whole.group_by(pl.col("memory").fill_null(0), maintain_order=True):
        # The fewest processors that a number of idle nodes can have: the nodes with most processors may be the busy ones.
        usable = np.sort([node.usable(int(memory)) for node in nodes])
        at_least = np.concatenate([[0], np.cumsum(usable)])
        idle = (len(nodes) - part["nodes_taken"].to_numpy()).clip(0)
        has_nodes = ~part["whole_nodes"].to_numpy() | (idle >= part["nodes"].to_numpy())
        kept.append(part.filter(pl.Series(has_nodes & (at_least[idle] >= part["processors"].to_numpy())))["id"])
    return pl.concat(kept)


def _state_at_acceptance(jobs: pl.DataFrame, pauses: pl.DataFrame, changes: pl.DataFrame, absences: pl.DataFrame) -> pl.DataFrame:
    """Of each job when it was accepted: id; width, processors of all running and waiting jobs, itself included, and of nodes out of
    service; nodes_taken, on which the others may be, or which are out of service; others, their number; asking, how many of those
    that wait, itself included, ask for more than processors and memory."""

    def change(table: pl.DataFrame, time: str, sign: int, nodes: str, counted: int) -> pl.DataFrame:
        accepted = col("id") if time == "accepted" else pl.lit(None, pl.Int64)
        amounts = {"width": sign * col("width"), "nodes_taken": sign * col(nodes), "others": pl.lit(sign * counted)}
        amounts["asking"] = sign * (col("request") != "").cast(pl.Int64) if time in ("accepted", "left") else pl.lit(0)
        events = table.select(time=time, id=accepted, own_nodes=nodes, **amounts)
        return events.drop_nulls("time")

    ran = jobs.drop_nulls("start")
    events = pl.concat(
        [
            change(jobs, "accepted", 1, "waiting_nodes", 1),
            change(jobs, "left", -1, "waiting_nodes", 1),
            change(ran, "start", 1, "most_nodes", 1),
            change(ran, "end", -1, "most_nodes", 1),
            # Memory stays taken while a job is suspended, and so do its nodes.
            change(pauses.with_columns(most_nodes=0), "suspend", -1, "most_nodes", 0),
            change(pauses.with_columns(most_nodes=0), "resume", 1, "most_nodes", 0),
            change(changes, "time", 1, "most_nodes", 0),
            change(absences, "time", 1, "most_nodes", 0),
        ],
        how="vertical_relaxed",
    )
    # At the same instant, changes of processors in use come before submissions.
    events = events.sort("time", col("id").is_not_null(), maintain_order=True)
    sums = events.with_columns(col("width", "nodes_taken", "others", "asking").cum_sum())
    return sums.drop_nulls("id").select(
        "id", "width", "asking", nodes_taken=col("nodes_taken") - col("own_nodes"), others=col("others") - 1
    )
