"""How a schedule uses the GPUs of its machine: the member `gpus` of metrics.json (docs/metrics.md)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from mirage.metrics.measured_jobs import Population
from slurm_mirage.jobs.request import Request, counts_of, gpus_of

ANY = ""
"""All types together, and the type of a request that names none."""
GPU = "gpu"
_COLUMNS = {"type": pl.String(), "gpus": pl.Int64(), **dict.fromkeys(("eligible", "start", "end"), pl.Float64())}


def asked_by(request: Request, processors: int, nodes: int) -> dict[str, int]:
    """GPUs of a whole job by type, ANY for those of any type."""
    found: dict[str, int] = {}
    for name, count in counts_of(request.gres):
        if name.partition(":")[0] == GPU:
            kind = name.partition(":")[2]
            found[kind] = found.get(kind, 0) + count * nodes
    tasks = request.tasks or processors // max(1, request.cpus_per_task)
    for listed, times in ((request.gpus, 1), (request.gpus_per_task, tasks)):
        for kind, count in gpus_of(listed):
            found[kind] = found.get(kind, 0) + count * times
    return found


def gpu_use(population: Population, requests: Mapping[int, Request], machine: Mapping[str, int]) -> list[dict[str, Any]]:
    """A row for all GPUs together (`type` ANY), and one for each type of which the machine has some if there are several.

    requests: what jobs ask for, by their ids
    machine: GPUs by type

    Members: `gpus` of the machine; `jobs` that ask for this type; `wait_mean` from when they were eligible to their starts, of
    those that were submitted in the window; `utilisation`, share of the GPUs' time in the window; `idle_while_asked`, share of
    it in which GPUs were idle while a job waited that asks for no more than were idle in all. None where there is nothing to
    measure. Jobs of any type are in the row ANY alone.
    """
    window, total = population.window, sum(machine.values())
    if window is None or not total:
        return []
    columns = {"q": "eligible", "s": "start", "f": "end", "p": "p", "c": "c", "id": "id"}
    waited = population.unstarted.select("id", "q", "p", "c", f=pl.lit(math.inf), s=pl.coalesce("f", pl.lit(math.inf)))
    jobs = pl.concat([population.measured.select(list(columns)), waited.select(list(columns))], how="vertical_relaxed")
    asked = _asked(jobs, requests)
    inside = set(population.inside["id"])
    rows = []
    for kind, count in [(ANY, total), *(machine.items() if len(machine) > 1 else ())]:
        of_kind = asked if kind == ANY else asked.filter(pl.col("type") == kind)
        jobs_of_kind = of_kind.group_by("id", maintain_order=True).agg(
            pl.col("gpus").sum(), *(pl.col(name).first() for name in ("eligible", "start", "end"))
        )
        started = jobs_of_kind.filter(pl.col("id").is_in(inside) & pl.col("end").is_finite())
        used, idle = _over_time(jobs_of_kind, count, window.begin, window.end)
        whole = count * window.length
        rows.append(
            {
                "type": kind,
                "gpus": count,
                "jobs": jobs_of_kind.height,
                "wait_mean": started.select((pl.col("start") - pl.col("eligible")).mean()).item(),
                "utilisation": used / whole if whole else None,
                "idle_while_asked": idle / whole if whole else None,
            }
        )
    return rows


def _asked(jobs: pl.DataFrame, requests: Mapping[int, Request]) -> pl.DataFrame:
    """A row for each job and type that it asks for, with the columns `_COLUMNS` and its id."""
    rows = [
        (row["id"], kind, count, row["q"], row["s"], row["f"])
        for row in jobs.iter_rows(named=True)
        if row["id"] in requests and row["q"] is not None
        for kind, count in asked_by(requests[row["id"]], row["p"] or 1, row["c"] or 1).items()
    ]
    return pl.DataFrame(rows, {"id": pl.Int64(), **_COLUMNS}, orient="row")


def _over_time(jobs: pl.DataFrame, count: int, begin: float, end: float) -> tuple[float, float]:
    """GPU seconds from `begin` to `end` that jobs used, and those in which GPUs were idle although a job that waited asks for no
    more than were idle."""
    used = idle = 0.0
    in_use, at = 0, begin
    waiting: list[tuple[int, float]] = []
    for instant, change, asks in [*_changes(jobs.iter_rows(named=True)), (math.inf, 0, None)]:
        while waiting and waiting[0][1] <= at:
            heapq.heappop(waiting)
        until = min(max(instant, begin), end)
        while at < until:
            # The one that asks for the fewest GPUs may start before the next change.
            while waiting and waiting[0][1] <= at:
                heapq.heappop(waiting)
            part = min(until, waiting[0][1]) if waiting else until
            free = max(0, count - in_use)
            used += min(in_use, count) * (part - at)
            if waiting and waiting[0][0] <= free:
                idle += free * (part - at)
            at = part
        in_use += change
        if asks is not None:
            heapq.heappush(waiting, asks)
    return used, idle


def _changes(jobs: Iterable[dict[str, Any]]) -> Iterator[tuple[float, int, tuple[int, float] | None]]:
    """In order of time: the instant, by how many the GPUs in use change, and what begins to be asked for: GPUs, and until when."""
    changes: list[tuple[float, int, tuple[int, float] | None]] = []
    for job in jobs:
        if math.isfinite(job["end"]):
            changes += [(job["start"], job["gpus"], None), (job["end"], -job["gpus"], None)]
        if job["eligible"] < job["start"]:
            changes.append((job["eligible"], 0, (job["gpus"], job["start"])))
    return iter(sorted(changes, key=lambda change: (change[0], change[1])))
