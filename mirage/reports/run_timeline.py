"""A run over time: processors, queue, nodes, suspensions, scheduler and host, with one axis of time."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from mirage.reports import node_picture
from mirage.reports.page import Part, Section, Table
from mirage.reports.run_data import EMULATION, LOG, Run
from mirage.reports.timeline import Panel, Steps, Timeline
from mirage.reports.words import counted, duration, number, percent
from slurm_mirage.rm.registry import records_of

# Rows of the table beside the pictures.
_STRETCHES = 24
_MORE = (
    " Above what the machine has, for moments: where a job began as another was suspended or ended, these instants are known no "
    "better (docs/validity.md)."
)


def over_time(run: Run) -> Section:
    """Processors, queue, nodes, suspensions, scheduler and host, with one axis of time."""
    window = run.window
    if window is None or window.length <= 0:
        return Section("Over time", lacks=["No job has a recorded submission, start and end: nothing can be drawn over time."])
    busy, waiting = run.levels()
    log = run.log_levels()
    end = max([window.end] + [float(level.times[-1]) for level in log or ()])
    frame = Timeline(window.begin, end)
    panels = [
        _levels(frame, "busy", "Processors in use", busy, log and log[0], run.processors),
        _levels(frame, "waiting", "Processors asked for by waiting jobs", waiting, log and log[1], None),
        node_picture.panel(run, frame),
        _suspended(run, frame),
        *_samples(run, frame),
    ]
    words = (
        "Time counts from the first submission, in the trace's own time. The log's lines are of the same jobs only."
        if log
        else "Time counts from the first submission, in the trace's own time."
    )
    drawn = Timeline(frame.begin, frame.end, [panel for panel in panels if panel])
    return Section("Over time", [Part(words, timeline=drawn, table=_stretches(run, frame, busy, waiting, log), is_wide=True)])


def _levels(frame: Timeline, name: str, title: str, own: Steps, log: Steps | None, top: float | None) -> Panel:
    series = [Steps(EMULATION, own.times, own.values)] + ([Steps(LOG, log.times, log.values)] if log else [])
    told = [
        f"{one.name}: {number(round(one.mean(frame.begin, float(one.times[-1])), 1))} in the mean, "
        f"{number(float(one.values.max()))} at most"
        for one in series
        if one.values.size
    ]
    more = "" if top is None or own.values.size == 0 or float(own.values.max()) <= top else _MORE
    return frame.lines(name, title, f"{'; '.join(told)}.{more}", series, "processors", top=top)


def _stretches(run: Run, frame: Timeline, busy: Steps, waiting: Steps, log: tuple[Steps, Steps] | None) -> Table:
    """Means over equal stretches: the pictures for those who do not see them."""
    length = frame.length / _STRETCHES
    series = [busy, waiting, *(log or ())]
    rows = []
    for place in range(_STRETCHES):
        begin = frame.begin + place * length
        means = (number(round(one.mean(begin, begin + length), 1)) for one in series)
        rows.append((duration(place * length) if place else "0", *means))
    of_log = ("in use, log", "waiting, log") if log else ()
    caption = f"Mean processors in use, and asked for by waiting jobs, in stretches of {duration(length)}"
    return Table(caption, ("from", "in use", "waiting", *of_log), rows)


def _suspended(run: Run, frame: Timeline) -> Panel | None:
    """Jobs suspended over time; none if none was."""
    known = run.schedule.suspensions
    known = None if known is None else known.drop_nulls()
    if known is None or known.is_empty():
        return None
    changes = pl.concat([known.select(time="suspend", change=pl.lit(1)), known.select(time="resume", change=pl.lit(-1))]).sort(
        "time"
    )
    times = [frame.begin, *changes["time"].to_list(), frame.end]
    values = [0, *changes["change"].cum_sum().to_list()]
    series = Steps("suspended jobs", pl.Series(times).to_numpy(), pl.Series(values).cast(pl.Float64).to_numpy())
    return frame.lines("suspended", "Suspended jobs", f"{counted(known.height, 'suspension')} in all.", [series], "jobs")


def _samples(run: Run, frame: Timeline) -> Iterable[Panel]:
    """The scheduler's diagnostics and the host's load during the run."""
    records = records_of(run.folder)
    diagnostics = run.figures(records.diagnostics_file).rename(dict(records.diagnostic_names), strict=False)
    host = run.figures("samples.csv")
    second = 100 / float(run.experiment["inputs"]["SHRINK"])
    if {"backfill_last_cycle_us", "backfill_queue_length"} <= set(diagnostics.columns) and diagnostics.height > 1:
        speed = float((run.experiment.get("clock") or {}).get("speed") or 1.0)
        cycles = diagnostics.with_columns(cycle=pl.col("backfill_last_cycle_us") / 1e6 * second)
        longest = run.metrics["validity"].get("backfill_cycle_max")
        words = (
            f"The last pass of the backfill scheduler at each of {diagnostics.height} looks (sdiag), in seconds of the trace; the "
            f"longest of the run took {duration(longest)}."
        )
        if speed * second != 1:
            words += f" In real time it is {number(speed * second)} times shorter."
        yield frame.lines(
            "cycle", "Passes of the backfill scheduler, seconds", words, [_sampled(cycles, "cycle", "last pass")], "s"
        )
        depth = [_sampled(diagnostics, "backfill_queue_length", "queue of the backfill scheduler")]
        if "server_threads" in diagnostics.columns:
            depth.append(_sampled(diagnostics, "server_threads", "server threads"))
        yield frame.lines(
            "depth", "Work of slurmctld", "Jobs in the backfill scheduler's queue, and threads that serve messages.", depth, ""
        )
    if "cpu_busy" in host.columns and host.height > 1:
        busy = host.with_columns(busy=pl.col("cpu_busy") * 100)
        mean = run.metrics["validity"].get("host_cpu")
        words = f"Of the machine that emulates, not of the emulated one: {percent(mean)} of its processors were busy in the mean."
        yield frame.lines(
            "host", "Busy processors of the host, %", words, [_sampled(busy, "busy", "processors busy")], "%", top=100
        )


def _sampled(frame: pl.DataFrame, column: str, name: str) -> Steps:
    """Each sample holds until the next one."""
    known = frame.drop_nulls(column)
    return Steps(name, known["time"].to_numpy(), known[column].cast(pl.Float64).to_numpy()[:-1])
