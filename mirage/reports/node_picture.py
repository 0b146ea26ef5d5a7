"""Draws the use of the nodes over time: a rectangle per job on small machines, a raster of shades on large ones."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

import polars as pl

from mirage.records.node_lists import node_lists
from mirage.reports import node_map
from mirage.reports.node_map import Boxes
from mirage.reports.run_data import Run
from mirage.reports.timeline import ACROSS, DOWN, Panel, Timeline, grey_png
from mirage.text.words import counted, duration, number, percent

# Above these numbers rectangles of jobs would be too small, and the page too large.
MOST_NODES, MOST_JOBS, MOST_BOXES = 300, 2000, 12_000
# Size of the raster.
_ROWS, _COLUMNS = 300, 1500
# Fill colours of jobs; they also differ in brightness.
_FILLS = ("#0072b2", "#e69f00", "#56b4e9", "#8c8c8c", "#004a73")
_TICKS = 4


def panel(run: Run, frame: Timeline) -> Panel | None:
    """The picture of the nodes for the timeline `frame`; None if no job ran."""
    started = run.schedule.jobs.filter(pl.col("end") > pl.col("start")).drop_nulls(["start", "end", "processors"])
    parts = node_map.stretches(started, run.schedule.suspensions, run.schedule.allocations)
    if parts.is_empty():
        return None
    nodes, names = len(run.machine.processors), run.folder.manager.names
    by = names.manager
    lists = node_lists(run.folder, run.name)
    is_few = nodes <= MOST_NODES and started.height <= MOST_JOBS
    if lists is None or lists.is_empty():
        boxes, source = node_map.lowest_first(parts, run.machine), "assigned"
    else:
        boxes, source = node_map.recorded(parts, lists, run.machine, apart=is_few), "recorded"
    notes = [
        "The run's files do not record the nodes of the jobs: jobs are drawn on the free processors with the lowest numbers."
        if source == "assigned"
        else f"Jobs are drawn on the nodes that {by} allocated ({names.hosts}; of requeued jobs those of the last start)."
    ]
    if source == "recorded" and is_few and max(run.machine.processors) > 1:
        notes.append("The processors of a job on a shared node are not recorded: jobs are drawn on the lowest free ones.")
    if run.population.resized is not None:
        notes.append(
            "Jobs changed their sizes while they ran: each interval is drawn where its size fits."
            if source == "assigned"
            else "Jobs changed their sizes while they ran. Which nodes of its list a job had at which time is not recorded: its "
            "processors are drawn as spread over all of them."
        )
    if run.schedule.executions is not None and not run.schedule.executions.is_empty():
        again = counted(run.schedule.executions.height, "execution")
        notes.append(f"{again} before a job's last one, whose work was lost, are not drawn; processors in use include them.")
    if boxes.missing:
        notes.append(f"{counted(boxes.missing, 'job')} cannot be drawn.")
    if is_few and boxes.job.size <= MOST_BOXES:
        body, explanation = _rectangles(boxes, parts, run, frame), "Each rectangle is a job; colours have no meaning."
    else:
        body, explanation = _raster(boxes, nodes, frame), _raster_words(nodes, frame)
    ticks = _ticks(nodes)
    utilisation = run.values.get("utilisation")
    wasted = run.values.get("wasted_fraction") or 0.0
    of_it = f", and {percent(wasted)} of it was lost work (goodput is {percent(run.values.get('goodput'))})" if wasted else ""
    description = f"{counted(nodes, 'node')} from top to bottom; utilisation is {percent(utilisation)}{of_it}. {explanation}"
    return Panel(
        "nodes",
        "Nodes",
        description,
        body,
        ticks,
        notes=" ".join(notes),
        height=min(420, max(150, nodes * (4 if nodes < 80 else 3))),
    )


def _raster_words(nodes: int, frame: Timeline) -> str:
    each = f"{nodes / _ROWS:.3g} nodes" if nodes > _ROWS else "1 node"
    return f"White is idle, the darkest shade is all processors in use. A point is {each} for {duration(frame.length / _COLUMNS)}."


def _ticks(nodes: int) -> list[tuple[float, str]]:
    """Ticks of the y axis: node numbers at the middle of their row."""
    step = max(1, round(nodes / _TICKS, -max(0, len(str(nodes)) - 2)) or 1)
    numbers = [1, *(place for place in range(int(step), nodes + 1, int(step)) if place > step / 3)]
    return [((place - 0.5) / nodes, number(place)) for place in dict.fromkeys(numbers)]


def _rectangles(boxes: Boxes, parts: pl.DataFrame, run: Run, frame: Timeline) -> str:
    """SVG of the boxes: a group per job with a path and a title."""
    nodes = len(run.machine.processors)
    left, right = frame.x(boxes.begin), frame.x(boxes.end)
    top, bottom = boxes.first * DOWN / nodes, boxes.last * DOWN / nodes
    paths: dict[int, list[str]] = {}
    for place, job in enumerate(boxes.job.tolist()):
        width, height = max(right[place] - left[place], ACROSS / 20_000), bottom[place] - top[place]
        paths.setdefault(job, []).append(f"M{left[place]:.6g} {top[place]:.5g}h{width:.5g}v{height:.5g}h-{width:.5g}z")
    held = parts.group_by("id").agg(pl.col("begin").min(), pl.col("end").max(), pl.col("processors").sort_by("begin"))
    spans = {job: (begin, end) for job, begin, end, _ in held.iter_rows()}
    sizes = {job: [size for size, _ in groupby(processors)] for job, _, _, processors in held.iter_rows()}
    jobs = {row["id"]: row for row in run.schedule.jobs.iter_rows(named=True)}
    drawn = []
    for order, (job, path) in enumerate(paths.items()):
        begin, end = frame.x(spans[job])
        drawn.append(
            f'<g data-job="{job}" data-at="{begin:.6g} {end:.6g}"><title>{escape(_job_text(jobs[job], sizes[job]))}</title>'
            f'<path style="fill:{_FILLS[order % len(_FILLS)]}" d="{"".join(path)}"/></g>'
        )
    return "".join(drawn)


def _job_text(job: dict[str, float], sizes: Sequence[int]) -> str:
    """Describes a job: number, processors, wait, run time and time suspended. sizes: processors that it held, one after another."""
    suspended = job["suspended"] or 0.0
    ran = job["end"] - job["start"] - suspended
    size = ", then ".join([counted(sizes[0], "processor"), *map(number, sizes[1:])])
    facts = [size, f"waited {duration(job['start'] - job['submit'])}", f"ran {duration(ran)}"]
    if suspended > 0:
        facts.append(f"suspended {duration(suspended)}")
    return f"job {job['id']}, {', '.join(facts)}"


def _raster(boxes: Boxes, nodes: int, frame: Timeline) -> str:
    shares = node_map.raster(boxes, (frame.begin, frame.end), nodes, min(nodes, _ROWS), _COLUMNS)
    size = f'width="{ACROSS}" height="{DOWN}" preserveAspectRatio="none"'
    return f'<image {size} href="{grey_png(shares)}"/>'
