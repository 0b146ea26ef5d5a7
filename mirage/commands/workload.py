"""`make workload`: writes a generated workload, or jobs selected from a log, to a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from mirage.commands.offline import MANY_JOBS, SELECTS, logged, output
from mirage.experiment.endings import Ending
from mirage.experiment.prepare import SLACK, header_of, selection_of, selection_of_any
from mirage.experiment.remarks import sizes_and_presets
from mirage.knobs.knobs import Knobs
from mirage.knobs.table import BY_NAME
from mirage.metrics.jobs_frame import frame_from_swf
from mirage.terminal.screen import Screen
from mirage.traces import swf
from mirage.traces.local_time import unix_start
from mirage.traces.trace import Trace
from mirage.workloads.models import estimates
from mirage.workloads.selection import choose
from mirage.workloads.workload import Workload, prepare
from slurm_mirage.base.errors import WrongUse

# Knobs that change jobs. SELECTS are those that select jobs.
CHANGES = ("SIZES", "PRESET", "SHRINK")
# Labels of a log's header that are also correct for a part of the log.
KEPT_LABELS = ("Computer", "Installation", "Acknowledge", "Information", "TimeZone", "TimeZoneString", "Queue", "Partition", "Note")


def workload(knobs: Knobs, screen: Screen) -> Ending:
    """Write OUT: jobs that are generated or selected from TRACE, as SWF; or the recorded schedule of TRACE, as CSV."""
    out = output(knobs.output.out)
    if out.suffix == ".csv":
        return _schedule(knobs, out, screen)
    trace = logged(knobs, screen)
    accuracy = knobs.workload.estimates
    if accuracy != "keep":
        trace = replace(trace, frame=estimates.replace(trace.frame, accuracy, knobs.workload.seed))
    given = [name for name in (*SELECTS, *CHANGES) if _is_given(knobs, name)]
    frame, header = _converted(trace, knobs, screen) if given else (trace.frame, trace.header)
    done = given if accuracy == "keep" else [*given, "ESTIMATES", "SEED"]
    if done:
        note = f"changed by make workload: {' '.join(f'{name}={knobs.text(name)}' for name in done)}"
        header = header | {"Note": "\n".join([*header.get("Note", "").splitlines(), note])}
    if frame.height >= MANY_JOBS:
        screen.say(f"writing {frame.height} jobs")
    swf.write_swf(frame, header, out)
    return Ending("ok", f"{frame.height} jobs in {out}")


def _is_given(knobs: Knobs, name: str) -> bool:
    """Whether a knob differs from its default. JOBS of a generated workload is not a selection, and does not count."""
    return not (knobs.is_default(name) or (name == "JOBS" and not knobs.workload.trace))


def _converted(trace: Trace, knobs: Knobs, screen: Screen) -> tuple[pl.DataFrame, dict[str, str]]:
    """The jobs that an experiment with these knobs would submit, and their SWF header."""
    shrinks = knobs.jobs.shrinks
    if len(shrinks) > 1:
        raise WrongUse("a workload has one shrink factor; a sweep is for make experiment", parameter="shrink")
    processors, nodes = trace.machine()
    # With SIZES=keep the machine is that of the log, and at least as wide as its widest job, because nothing is run.
    classes, machine = [(1, max(processors, _widest(trace.frame)))], {"MaxProcs": str(processors)}
    machine |= {} if nodes is None else {"MaxNodes": str(nodes)}
    if knobs.jobs.sizes != "keep":
        emulated = knobs.nodes.machine
        classes, machine = [(item.count, item.cpus) for item in emulated.classes], header_of(emulated)
    chosen = prepare(
        trace,
        selection_of_any(knobs.workload),
        classes=classes,
        slack=SLACK,
        shrink_percent=float(shrinks[0]),
        sizes=knobs.jobs.sizes,
        preset=knobs.jobs.preset,
    )
    for line in sizes_and_presets(chosen):
        screen.say(line)
    for reason, count in chosen.excluded.items():
        screen.say(f"left out: {count} jobs ({reason})")
    header = {label: trace.header[label] for label in KEPT_LABELS if label in trace.header}
    return chosen.to_swf(), header | machine | _beginning(trace, chosen)


def _beginning(trace: Trace, chosen: Workload) -> dict[str, str]:
    """UnixStartTime of the first job; empty for a shrunk workload, whose times of day have no meaning."""
    start = unix_start(trace)
    if start is None or chosen.shrink_percent != 100:
        return {}
    return {"UnixStartTime": f"{start + chosen.jobs['submit'][0]:.0f}"}


def _widest(frame: pl.DataFrame) -> int:
    widest = frame.select(pl.max_horizontal("allocated_processors", "requested_processors").max()).item()
    return max(1, int(widest or 1))


def _schedule(knobs: Knobs, out: Path, screen: Screen) -> Ending:
    """Write the recorded schedule of the selected lines, with the columns of Batsim's jobs.csv."""
    from mirage.simulation.batsim import write_batsim

    if not knobs.workload.trace:
        raise WrongUse(
            "a CSV holds a schedule, and a generated workload has none; it may be a file .swf, or TRACE be given", parameter="out"
        )
    for name in (*CHANGES, "ESTIMATES"):
        if _is_given(knobs, name):
            message = "a recorded schedule (OUT=*.csv) stays as it is; it may be given with OUT=*.swf"
            raise WrongUse(message, parameter=BY_NAME[name].parameter)
    trace = logged(knobs, screen)
    frame, left_out = choose(trace, selection_of(knobs.workload))
    if not frame.select((pl.col("wait") >= 0).any()).item():
        raise WrongUse(
            f"a CSV holds a schedule, and {knobs.workload.trace} has none (no waits); it may be a file .swf", parameter="out"
        )
    for reason, count in left_out.items():
        screen.say(f"left out: {count} jobs ({reason})")
    write_batsim(frame_from_swf(frame), out, Path(knobs.workload.trace).name)
    return Ending("ok", f"{frame.height} jobs in {out}")
