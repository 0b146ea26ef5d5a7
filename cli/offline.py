"""`make workload` and `make metrics`: what needs no cluster."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

from slurm_mirage import metrics as definitions
from slurm_mirage import models, sigsleep_log, swf
from slurm_mirage import workload as selection
from slurm_mirage.errors import WrongUse
from slurm_mirage.files import write_json
from slurm_mirage.trace import read_schedule, read_trace

from . import table
from .endings import Ending
from .knobs import BY_NAME, Value, parse
from .prepare import SLACK, machine_of, number_of, whole_of
from .screen import Screen

Knobs = dict[str, Value]
# Jobs of a generated workload when JOBS says nothing.
DEFAULT_JOBS = 1000


def _output(values: Knobs) -> Path:
    """OUT, which must name a file in a folder that is there."""
    path = Path(str(values["OUT"]))
    if not values["OUT"]:
        raise WrongUse("OUT: the file to write is missing; it may be any path, as in OUT=w.swf")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise WrongUse(f"OUT: {path} cannot be written; it may be a file in a folder that is there")
    return path


def workload(values: Knobs, screen: Screen) -> Ending:
    """Write the SWF file OUT: a generated workload, or what is selected from TRACE."""
    out = _output(values)
    if values["TRACE"]:
        frame, header = _converted(values, screen)
    else:
        count = DEFAULT_JOBS if values["JOBS"] is None else whole_of(values["JOBS"])
        machine = machine_of(values)
        frame = models.generate(str(values["MODEL"]), count, whole_of(values["SEED"]), machine.processors)
        note = f"model {values['MODEL']}, seed {values['SEED']}"
        header = {"MaxProcs": str(machine.processors), "MaxNodes": str(machine.nodes), "Note": note}
    swf.write_swf(frame, header, out)
    return Ending("ok", f"{frame.height} jobs in {out}")


def _converted(values: Knobs, screen: Screen) -> tuple[pl.DataFrame, dict[str, str]]:
    trace = read_trace(str(values["TRACE"]))
    _say_notes(trace.notes, screen)
    plain = ("JOBS", "OFFSET", "MIN_RUNTIME", "SHRINK")
    if all(values[name] == parse(name, BY_NAME[name].default) for name in plain):
        return trace.frame, trace.header
    shrinks = values["SHRINK"]
    assert isinstance(shrinks, tuple)
    if len(shrinks) > 1:
        raise WrongUse("SHRINK: a workload has one shrink factor; a sweep is for make experiment")
    chosen = selection.prepare(
        trace.frame,
        # The machine of the log: nothing is to be run, so nothing is too wide.
        classes=[(1, max(trace.machine()[0], _widest(trace.frame)))],
        slack=SLACK,
        jobs=None if values["JOBS"] is None else whole_of(values["JOBS"]),
        offset=whole_of(values["OFFSET"]),
        min_runtime=number_of(values["MIN_RUNTIME"]),
        shrink_percent=float(shrinks[0]),
    )
    for reason, count in chosen.excluded.items():
        screen.say(f"left out: {count} jobs ({reason})")
    still_true = ("Computer", "Installation", "Acknowledge", "MaxProcs", "MaxNodes")
    return chosen.to_swf(), {label: trace.header[label] for label in still_true if label in trace.header}


def _widest(frame: pl.DataFrame) -> int:
    widest = frame.select(pl.max_horizontal("allocated_processors", "requested_processors").max()).item()
    return max(1, int(widest or 1))


def _say_notes(notes: dict[str, int], screen: Screen) -> None:
    for oddity, count in notes.items():
        screen.say(f"in the log: {count}: {oddity.replace('_', ' ')}")


def metrics(values: Knobs, screen: Screen) -> Ending:
    """Print the metrics of the schedule in TRACE: SWF with waits, sacct's output, a run's jobs.csv, sigsleep's log."""
    if not values["TRACE"]:
        raise WrongUse(f"TRACE: the log is missing; it may be {BY_NAME['TRACE'].may_be}, or sigsleep's log")
    out = _output(values) if values["OUT"] else None
    schedule = read_schedule(str(values["TRACE"]))
    _say_notes(schedule.notes, screen)
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
