"""`make metrics`: the metrics of a schedule that is recorded in a file, without any cluster."""

from __future__ import annotations

import os

import polars as pl

from slurm_mirage import metrics as definitions
from slurm_mirage import sigsleep_log
from slurm_mirage.errors import WrongUse
from slurm_mirage.files import write_json
from slurm_mirage.schedule import read_schedule

from . import table
from .endings import Ending
from .knobs import BY_NAME
from .offline import Knobs, output, say_notes
from .prepare import machine_of, number_of, whole_of
from .screen import Screen


def metrics(values: Knobs, screen: Screen) -> Ending:
    """Print the metrics of the schedule in TRACE: SWF with waits, sacct's output, a run's jobs.csv, sigsleep's log."""
    if not values["TRACE"]:
        raise WrongUse(f"TRACE: the log is missing; it may be {BY_NAME['TRACE'].may_be}, or sigsleep's log")
    out = output(values) if values["OUT"] else None
    schedule = read_schedule(str(values["TRACE"]))
    say_notes(schedule.notes, screen)
    if schedule.format == "sigsleep":
        for damage in sigsleep_log.read_log(str(values["TRACE"]))[1]:
            screen.say(f"  {damage.length} bytes at offset {damage.offset}: {damage.reason}")
    jobs = _selected(schedule.jobs, values)
    processors, nodes = schedule.processors, schedule.nodes
    if processors is None or any(os.environ.get(name) for name in ("NODES", "CPUS", "CLASSES")):
        machine = machine_of(values)
        processors, nodes = machine.processors, machine.nodes
        screen.say(f"machine: {machine.in_words()} ({'CLASSES' if machine.path else 'NODES, CPUS'})")
    measured = definitions.compute(jobs, processors, nodes, suspensions=schedule.suspensions)
    table.show(measured, screen)
    if out is not None:
        write_json(out, measured)
    return Ending("ok", f"{jobs.height} jobs of {values['TRACE']}" + (f", {out}" if out else ""))


def _selected(jobs: pl.DataFrame, values: Knobs) -> pl.DataFrame:
    """JOBS, OFFSET and MIN_RUNTIME, applied to a recorded schedule."""
    offset, shortest = whole_of(values["OFFSET"]), number_of(values["MIN_RUNTIME"])
    if jobs.is_empty():
        raise WrongUse(f"TRACE: {values['TRACE']} holds no job")
    if offset >= jobs.height:
        raise WrongUse(f"OFFSET: {offset} may be up to {jobs.height - 1}, the log has {jobs.height} jobs")
    chosen = jobs.sort("submit", maintain_order=True).slice(offset)
    if shortest > 0:
        chosen = chosen.filter(pl.col("runtime").fill_null(0) >= shortest)
    if values["JOBS"] is not None:
        chosen = chosen.head(whole_of(values["JOBS"]))
    if chosen.is_empty():
        raise WrongUse(f"MIN_RUNTIME: none of the log's jobs from OFFSET={offset} on ran for {shortest:g} s")
    return chosen
