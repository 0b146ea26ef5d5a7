"""What a run's page shows of filler jobs: the load of the machine over time, what the fillers did, and the bound of their gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from mirage.reports.page import Part, Section, Table
from mirage.reports.run_data import Run
from mirage.reports.timeline import Panel, Steps, Timeline
from mirage.text.words import counted, duration, number, percent
from mirage_extras.filler.metrics import CANCELLED, COMPLETED, FAILED, FILLERS_FILE, LIMIT, PREEMPTED, REQUEST, RUNNING, SLOT

TITLE = "Filler jobs"
_OUTCOMES = {
    COMPLETED: "their work was done",
    SLOT: "saved at the end of a slot, and put back in the queue",
    REQUEST: "saved on request, and put back in the queue",
    PREEMPTED: "ended by Slurm for a job of the workload",
    LIMIT: "ended at their time limit",
    CANCELLED: "cancelled at the end of the run",
    FAILED: "failed",
    RUNNING: "not ended",
}
_WHY = {
    "not_filled": "idle processors without a filler",
    "lost": "work after the last save of fillers that were ended",
    "beyond_t": "saving, restoring and waiting beyond t",
}


def panel(run: Run, frame: Timeline, busy: Steps) -> Panel | None:
    """Processors of the workload's jobs, and of these and the fillers together; None for a run without fillers.

    busy: processors in use by the workload's jobs
    """
    fillers = run.schedule.tables.get(FILLERS_FILE)
    if fillers is None or busy.values.size == 0:
        return None
    ended = fillers.with_columns(end=pl.coalesce("end", pl.lit(frame.end)))
    jobs = pl.DataFrame({"time": busy.times, "by": np.diff(np.concatenate([[0.0], busy.values, [0.0]]))})
    processors = pl.col("processors").cast(pl.Float64)
    moves = pl.concat([jobs, ended.select(time="start", by=processors), ended.select(time="end", by=-processors)])
    course = moves.sort("time").with_columns(pl.col("by").cum_sum()).unique("time", keep="last", maintain_order=True)
    total = Steps("jobs and fillers", course["time"].to_numpy(), course["by"].to_numpy()[:-1])
    own = Steps("jobs of the workload", busy.times, busy.values)
    values = run.values
    words = (
        f"Fillers took {percent(values.get('filler_load'))} of the machine beside the {percent(values.get('utilisation'))} of the "
        "jobs; what is above both lines is idle."
    )
    series = [own, total]
    return frame.lines("fillers", "Processors of jobs and of fillers", words, series, "processors", top=run.processors)


def section(run: Run) -> Section | None:
    """What the fillers did, and the bound of their gain; None for a run without fillers."""
    member = run.metrics.get("fillers")
    if not member:
        return None
    words = (
        f"{counted(member['fillers'], 'filler')} of variant {member['variant']} ran {counted(member['executions'], 'time')}, saved "
        f"{counted(member['saves'], 'time')}, and failed to save {counted(member['failed_saves'], 'time')}. Their useful work is "
        f"{duration(member['work'])} of one processor at the speed of a bare process. Fillers are in no other table or picture."
    )
    outcomes = [
        (text, number(member["outcomes"][outcome])) for outcome, text in _OUTCOMES.items() if member["outcomes"].get(outcome)
    ]
    parts = [Part(words, table=Table("How executions ended", ("execution", "number"), outcomes))]
    if (bound := member.get("bound")) is not None:
        parts.append(Part(_about_bound(member), table=_bound_table(bound), is_wide=True))
    if member["over_time"]:
        parts.append(Part("", table=_loads(member["over_time"], 0.0 if run.window is None else run.window.begin), is_wide=True))
    return Section(TITLE, parts, [f"{fault}." for fault in member["faults"]])


def _about_bound(found: Mapping[str, Any]) -> str:
    slot = "a slot" if found["variant"] == "slots" else "an execution, in the mean"
    return (
        "The bound idle (1 - t) c is what fillers add at least if all idle processors are filled and nothing is lost "
        f"(mirage_extras/filler/README.md). t = {found['t']:.3g}: a start takes {duration(found['restore_mean'])} and a save "
        f"{duration(found['save_mean'])} of {slot}, {duration(found['slot'])}. c = {found['c']:g}. Shares of the machine; ± half "
        f"the 95 % interval, for other times like these, from {len(found['over_time'])} equal parts of the time."
    )


def _bound_table(bound: Mapping[str, Any]) -> Table:
    rows = [
        ("idle without fillers", _with_error(bound["idle"])),
        ("bound of the gain", _with_error(bound["value"])),
        ("gain: useful work of fillers", _with_error(bound["gain"])),
        ("gain less bound", _with_error(bound["difference"])),
        *((f"lacks because of: {_WHY[name]}", _share(value)) for name, value in bound["because"].items()),
    ]
    return Table("The gain beside its bound", ("", "share of the machine"), rows)


def _loads(parts: Sequence[Mapping[str, Any]], begin: float) -> Table:
    names = ("main", "filler", "idle", "useful", "lost", "overhead")
    rows = [
        (duration(part["begin"] - begin) if place else "0", *(_share(part[name]) for name in names))
        for place, part in enumerate(parts)
    ]
    headings = ("from", "jobs", "fillers", "idle", "useful work", "lost", "overhead")
    return Table("Load of the machine over time, shares of the processors", headings, rows)


def _with_error(value: Sequence[float]) -> str:
    return f"{_share(value[0])} ± {100 * value[1]:.2g} %"


def _share(value: float) -> str:
    return f"{100 * value:.2f} %"
