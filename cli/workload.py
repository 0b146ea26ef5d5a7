"""`make workload`: a generated workload, or one that is selected from a log."""

from __future__ import annotations

import polars as pl

from slurm_mirage import models, swf
from slurm_mirage import workload as selection
from slurm_mirage.errors import WrongUse
from slurm_mirage.trace import read_trace

from .endings import Ending
from .knobs import BY_NAME, parse
from .offline import Knobs, output, say_notes
from .prepare import SLACK, machine_of, number_of, whole_of
from .screen import Screen

# Jobs of a generated workload when JOBS says nothing.
DEFAULT_JOBS = 1000


def workload(values: Knobs, screen: Screen) -> Ending:
    """Write the SWF file OUT: a generated workload, or what is selected from TRACE."""
    out = output(values)
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
    say_notes(trace.notes, screen)
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
