"""`make metrics`: computes the metrics of a schedule in a file. It needs no cluster."""

from __future__ import annotations

import os

from mirage import PROGRAM
from mirage.commands.offline import Knobs, output, say_notes
from mirage.experiment import campaign, report, sweep
from mirage.experiment.endings import Ending
from mirage.experiment.prepare import machine_of, number_of, selection_of
from mirage.knobs.resolve import resolve
from mirage.knobs.table import BY_NAME
from mirage.metrics import metrics as definitions
from mirage.records import metric_errors
from mirage.records.schedule import Schedule, in_whole_nodes, read_schedule
from mirage.records.shapes import EXPERIMENT_JSON, METRICS_JSON
from mirage.terminal import table
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_json
from slurm_mirage.jobs import sigsleep_log


def metrics(values: Knobs, screen: Screen) -> Ending:
    """Print the metrics of the schedule in TRACE: SWF with waits, output of sacct, jobs.csv of a run or of Batsim, sigsleep's log.

    With RUN: all metrics of a finished run, and all figures of its verdict.
    """
    if values["RUN"]:
        return _of_run(values, screen)
    if not values["TRACE"]:
        raise WrongUse(f"the log is missing; it may be {BY_NAME['TRACE'].may_be}, or sigsleep's log", parameter="trace")
    out = output(values) if values["OUT"] else None
    schedule = read_schedule(str(values["TRACE"]), selection_of(values))
    if schedule.jobs.is_empty():
        raise WrongUse(f"{values['TRACE']} holds no job", parameter="trace")
    say_notes(schedule.notes, schedule.unread, screen)
    if schedule.format == "sigsleep":
        for damage in sigsleep_log.read_log(str(values["TRACE"]))[1]:
            screen.say(f"  {damage.length} bytes at offset {damage.offset}: {damage.reason}")
    for reason, count in schedule.left_out.items():
        screen.say(f"not selected: {count} jobs ({reason})")
    processors, nodes = _machine(schedule, values, screen)
    schedule = in_whole_nodes(schedule, processors, nodes)
    measured = definitions.compute(
        schedule.jobs,
        processors,
        nodes,
        number_of(values["TAU"]),
        suspensions=schedule.suspensions,
        allocations=schedule.allocations,
        executions=schedule.executions,
        fillers=schedule.fillers,
        w2_reading=str(values["W2"]),
        immediate_below=schedule.immediate_below if values["IMMEDIATE"] is None else number_of(values["IMMEDIATE"]),
        warmup_cut=str(values["WARMUP_CUT"]),
        cooldown_cut=str(values["COOLDOWN_CUT"]),
    )
    if measured["settings"]["window"] is None:
        reasons = ", ".join(f"{count} {reason}" for reason, count in measured["excluded"].items())
        raise WrongUse(
            f"{values['TRACE']}: nothing can be measured, no job has a recorded submission, start and end ({reasons}); "
            f"a workload is run by make experiment or {PROGRAM} simulate first",
            parameter="trace",
        )
    measured |= metric_errors.of_schedule(schedule.jobs, measured, schedule.suspensions, schedule.allocations)
    measured["excluded"] = schedule.unread.excluded() | measured["excluded"]
    table.show(measured, screen)
    if (measured["metrics"]["utilisation"] or 0) > 1:
        screen.say("more was in use than the machine has: it was larger (NODES and CPUS say so)")
    if out is not None:
        write_json(out, measured)
    return Ending("ok", f"{schedule.jobs.height} jobs of {values['TRACE']}" + (f", {out}" if out else ""))


def _of_run(values: Knobs, screen: Screen) -> Ending:
    """Print all metrics of the finished run or comparison RUN. Raises WrongUse if it is no such, or another knob is given too."""
    if values["TRACE"]:
        raise WrongUse("is a log, and RUN a run; give one of them", parameter="trace", value=values["TRACE"])
    defaults = resolve({})
    for name in (knob.name for knob in BY_NAME.values() if "metrics" in knob.targets and knob.name != "RUN"):
        if values[name] != defaults[name]:
            what = f"with RUN nothing is measured again; TRACE=results/{values['RUN']}/jobs.csv does so"
            raise WrongUse(what, parameter=name.lower(), value=str(values[name]))
    folder = report.folder_of(values)
    ended = Ending.load(folder)
    if ended is None or not ended.is_final:
        raise WrongUse(f"results/{folder.name} is not finished; it may be a finished run or comparison", parameter="run")
    if (folder / "comparison.json").is_file():
        campaign.show_all(folder, screen)
        return Ending("ok", f"all metrics of the comparison results/{folder.name}")
    if (folder / "sweep.csv").is_file():
        runs = ", ".join(run.name for _, run, _ in sweep.runs_of(folder))
        raise WrongUse(
            f"results/{folder.name} is a sweep, whose metrics are in sweep.csv; it may be one of its runs: {runs}", "run"
        )
    content = read_json(folder / "metrics.json", METRICS_JSON)
    if content is None:
        raise WrongUse(f"results/{folder.name} has no metrics.json; it may be a finished run or comparison", parameter="run")
    table.show(content, screen, read_json(folder / "experiment.json", EXPERIMENT_JSON))
    return Ending("ok", f"{content['jobs']['submitted']} jobs, results/{folder.name}")


def _machine(schedule: Schedule, values: Knobs, screen: Screen) -> tuple[int, int | None]:
    """Processors and nodes: from NODES, CPUS or CLASSES if given, else from the schedule, else from the defaults of the knobs."""
    if schedule.processors is None or any(os.environ.get(name) for name in ("NODES", "CPUS", "CLASSES")):
        machine = machine_of(values)
        screen.say(f"machine: {machine.in_words()} ({'CLASSES' if machine.path else 'NODES, CPUS'})")
        return machine.processors, machine.nodes
    nodes = "nodes not known" if schedule.nodes is None else f"{schedule.nodes} nodes"
    screen.say(f"machine: {schedule.processors} processors, {nodes} ({schedule.machine})")
    return schedule.processors, schedule.nodes
