"""The section of a run's page with processors, queue, nodes, suspensions, scheduler and host over time."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from mirage.aspects import offers
from mirage.records.run_clock import EVENT, speed_of_records
from mirage.reports import node_picture, run_events
from mirage.reports.page import Part, Section, Table
from mirage.reports.run_data import EMULATION, LOG, Run
from mirage.reports.theme import COLOURS
from mirage.reports.timeline import Panel, Steps, Timeline
from mirage.text.words import counted, duration, number, percent
from mirage.verdict.event_clock import charges
from slurm_mirage.rm.managers import DEFAULT

# Rows of the data table.
_INTERVALS = 24
_ABOVE_CAPACITY = (
    " Values can briefly exceed the machine's processors where a job started as another was suspended or ended, because of the "
    "limited resolution of these instants (docs/records.md)."
)


def over_time(run: Run) -> Section:
    """The section, with a common time axis for all pictures."""
    window = run.window
    if window is None or window.length <= 0:
        return Section(
            "Over time", lacks=["No job has a recorded submission, start and end, so that nothing can be drawn over time."]
        )
    busy, waiting = run.levels()
    log = run.log_levels()
    end = max([window.end] + [float(level.times[-1]) for level in log or ()])
    frame = Timeline(window.begin, end)
    panels = [
        _levels(frame, "busy", "Processors in use", busy, log and log[0], run.processors),
        _levels(frame, "waiting", "Processors requested by waiting jobs", waiting, log and log[1], None),
        *(panel(run, frame, busy) for panel in offers("page", "panel")),
        node_picture.panel(run, frame),
        _suspended(run, frame),
        _shares(run, frame),
        *_samples(run, frame),
    ]
    words = "Time is trace time since the first submission." + (" Lines of the log show the same jobs only." if log else "")
    drawn = Timeline(frame.begin, frame.end, run_events.marked(run, frame, panels))
    return Section("Over time", [Part(words, timeline=drawn, table=_means(frame, busy, waiting, log), is_wide=True)])


def _levels(frame: Timeline, name: str, title: str, own: Steps, log: Steps | None, top: float | None) -> Panel:
    series = [Steps(EMULATION, own.times, own.values)] + ([Steps(LOG, log.times, log.values)] if log else [])
    summaries = [
        f"{steps.name}: {number(round(steps.mean(frame.begin, float(steps.times[-1])), 1))} on average, "
        f"{number(float(steps.values.max()))} at most"
        for steps in series
        if steps.values.size
    ]
    note = "" if top is None or own.values.size == 0 or float(own.values.max()) <= top else _ABOVE_CAPACITY
    return frame.lines(name, title, f"{'; '.join(summaries)}.{note}", series, "processors", top=top)


def _means(frame: Timeline, busy: Steps, waiting: Steps, log: tuple[Steps, Steps] | None) -> Table:
    """Means over equal intervals, for readers who do not see the pictures."""
    length = frame.length / _INTERVALS
    series = [busy, waiting, *(log or ())]
    rows = []
    for place in range(_INTERVALS):
        begin = frame.begin + place * length
        means = (number(round(steps.mean(begin, begin + length), 1)) for steps in series)
        rows.append((duration(place * length) if place else "0", *means))
    of_log = ("in use, log", "waiting, log") if log else ()
    caption = f"Processors in use, and requested by waiting jobs, means over intervals of {duration(length)}"
    return Table(caption, ("from", "in use", "waiting", *of_log), rows)


def _suspended(run: Run, frame: Timeline) -> Panel | None:
    """Number of suspended jobs over time; None if no job was suspended."""
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
    return frame.lines("suspended", "Suspended jobs", f"{counted(known.height, 'suspension')} in total.", [series], "jobs")


def _shares(run: Run, frame: Timeline) -> Panel | None:
    """Fair-share factors of the accounts with the largest usage; None without samples of them."""
    sampled = run.folder.shares
    if not {"virtual", "account", "share", "usage", "factor"} <= set(sampled.columns):
        return None
    used = sampled.group_by("account").agg(pl.col("usage").mean()).filter(pl.col("usage") > 0)
    largest = used.sort("usage", "account", descending=[True, False])["account"].to_list()[: len(COLOURS)]
    series, words = [], []
    for account in largest:
        own = run.timed(sampled.filter(pl.col("account") == account))
        if own.height > 1:
            series.append(_sampled(own, "factor", account))
            last = own.row(-1, named=True)
            words.append(f"{account} {percent(last['share'])} and {percent(last['usage'])}")
    if not series:
        return None
    which = "all accounts that used the machine" if len(largest) == used.height else f"the {len(largest)} accounts of most usage"
    text = (
        f"Mean factor of the users of an account (sshare), of {which}, in {sampled['virtual'].n_unique()} samples. "
        f"Their parts of all shares and of all usage at the last one: {'; '.join(words)}."
    )
    return frame.lines("shares", "Fair-share factors", text, series, "", top=1.0)


def _samples(run: Run, frame: Timeline) -> Iterable[Panel]:
    """Samples of the scheduler's diagnostics and of the host during the run."""
    diagnostics, host = run.timed(run.folder.diagnostics), run.timed(run.folder.samples)
    second = 100 / float(run.experiment["inputs"]["SHRINK"])
    if {"backfill_last_cycle_us", "backfill_queue_length"} <= set(diagnostics.columns) and diagnostics.height > 1:
        speed = speed_of_records(run.experiment)
        cycles = diagnostics.with_columns(cycle=pl.col("backfill_last_cycle_us") / 1e6 * second)
        longest = run.metrics["validity"].get("backfill_cycle_max")
        names, is_other = run.folder.manager.names, run.folder.manager_name != DEFAULT
        words = (
            f"Length of the last {names.cycle} in each of {diagnostics.height} samples of {names.diagnostics}, in seconds of the "
            f"trace; the longest cycle of the run took {duration(longest)}."
        )
        if (run.experiment.get("clock") or {}).get("speed") == EVENT:
            counts = charges(run.metrics["validity"])
            words += (
                f" {names.manager}'s computing counts in them (CHARGE=yes)."
                if counts
                else f" {names.manager}'s computing takes nearly no time in them."
            )
        if speed * second != 1:
            words += f" In real time cycles are {number(speed * second)} times shorter."
        yield frame.lines("cycle", f"{names.cycle.capitalize()}s, seconds", words, [_sampled(cycles, "cycle", "last cycle")], "s")
        depth = [
            _sampled(
                diagnostics, "backfill_queue_length", "queue of the scheduler" if is_other else "queue of the backfill scheduler"
            )
        ]
        if "server_threads" in diagnostics.columns:
            depth.append(_sampled(diagnostics, "server_threads", "server threads"))
        of_what = (
            "Jobs that waited when a cycle began."
            if is_other
            else "Jobs in the backfill scheduler's queue, and server threads of slurmctld."
        )
        yield frame.lines("depth", f"Load of {names.controller}", of_what, depth, "")
    if "cpu_busy" in host.columns and host.height > 1:
        busy = host.with_columns(busy=pl.col("cpu_busy") * 100)
        mean = run.metrics["validity"].get("host_cpu")
        words = (
            f"Processors of the host that runs the emulation, not of the emulated machine: {percent(mean)} were busy on average."
        )
        yield frame.lines(
            "host", "Busy processors of the host, %", words, [_sampled(busy, "busy", "processors busy")], "%", top=100
        )


def _sampled(frame: pl.DataFrame, column: str, name: str) -> Steps:
    """Samples as a step function: each holds until the next one."""
    known = frame.drop_nulls(column)
    return Steps(name, known["time"].to_numpy(), known[column].cast(pl.Float64).to_numpy()[:-1])
