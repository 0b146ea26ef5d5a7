"""`make metrics`: computes the metrics of a schedule in a file. It needs no cluster."""

from __future__ import annotations

import os

from mirage import PROGRAM
from mirage.campaign import conclusion, sweep_table
from mirage.commands.offline import output, say_notes
from mirage.experiment import report
from mirage.experiment.endings import Ending
from mirage.experiment.prepare import selection_of
from mirage.knobs.knobs import Knobs, NodeKnobs
from mirage.knobs.table import BY_NAME
from mirage.metrics import metrics as definitions
from mirage.records.file_names import COMPARISON_FILE, SWEEP_FILE
from mirage.records.run_folder import RunFolder
from mirage.records.schedule import Schedule, in_whole_nodes, read_schedule
from mirage.terminal import table
from mirage.terminal.screen import Screen
from mirage.text import output_file
from mirage.verdict import metric_errors
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import json_text
from slurm_mirage.jobs import sigsleep_log


def metrics(knobs: Knobs, screen: Screen) -> Ending:
    """Print the metrics of the schedule in TRACE: SWF with waits, output of sacct, jobs.csv of a run or of Batsim, sigsleep's log.

    With RUN: all metrics of a finished run, and all figures of its verdict.
    """
    trace, settings = knobs.workload.trace, knobs.metrics
    if knobs.output.run:
        return _of_run(knobs, knobs.output.run, screen)
    if not trace:
        raise WrongUse(f"the log is missing; it may be {BY_NAME['TRACE'].may_be}, or sigsleep's log", parameter="trace")
    out = output(knobs.output.out) if knobs.output.out else None
    schedule = read_schedule(trace, selection_of(knobs.workload))
    if schedule.jobs.is_empty():
        raise WrongUse(f"{trace} holds no job", parameter="trace")
    say_notes(schedule.notes, schedule.unread, screen)
    if schedule.format == "sigsleep":
        for damage in sigsleep_log.read_log(trace)[1]:
            screen.say(f"  {damage.length} bytes at offset {damage.offset}: {damage.reason}")
    for reason, count in schedule.left_out.items():
        screen.say(f"not selected: {count} jobs ({reason})")
    processors, nodes = _machine(schedule, knobs.nodes, screen)
    schedule = in_whole_nodes(schedule, processors, nodes)
    measured = definitions.compute(
        schedule.jobs,
        processors,
        nodes,
        float(settings.tau),
        suspensions=schedule.suspensions,
        allocations=schedule.allocations,
        executions=schedule.executions,
        tables=schedule.tables,
        availability=schedule.availability,
        w2_reading=settings.w2,
        immediate_below=schedule.immediate_below if settings.immediate is None else float(settings.immediate),
        warmup_cut=settings.warmup_cut,
        cooldown_cut=settings.cooldown_cut,
    )
    if measured["settings"]["window"] is None:
        reasons = ", ".join(f"{count} {reason}" for reason, count in measured["excluded"].items())
        raise WrongUse(
            f"{trace}: nothing can be measured, no job has a recorded submission, start and end ({reasons}); "
            f"a workload is run by make experiment or {PROGRAM} simulate first",
            parameter="trace",
        )
    measured |= metric_errors.of_schedule(schedule.jobs, measured, schedule.suspensions, schedule.allocations)
    measured["excluded"] = schedule.unread.excluded() | measured["excluded"]
    table.show(measured, screen)
    if (measured["metrics"]["utilisation"] or 0) > 1:
        screen.say("more was in use than the machine has: it was larger (NODES and CPUS say so)")
    if out is not None:
        output_file.write(out, json_text(measured))
    return Ending("ok", f"{schedule.jobs.height} jobs of {trace}" + (f", {out}" if out else ""))


def _of_run(knobs: Knobs, run: str, screen: Screen) -> Ending:
    """Print all metrics of the finished run or comparison RUN. Raises WrongUse for any other folder, and if another knob is given
    too."""
    if trace := knobs.workload.trace:
        raise WrongUse("is a log, and RUN a run; give one of them", parameter="trace", value=trace)
    for name in (knob.name for knob in BY_NAME.values() if "metrics" in knob.targets and knob.name != "RUN"):
        if not knobs.is_default(name):
            what = f"with RUN nothing is measured again; TRACE=results/{run}/jobs.csv does so"
            raise WrongUse(what, parameter=name.lower(), value=str(knobs.value(name)))
    folder = report.folder_of(run)
    ended = Ending.load(folder)
    if ended is None or not ended.is_final:
        raise WrongUse(f"results/{run} is not finished; it may be a finished run or comparison", parameter="run")
    if (folder / COMPARISON_FILE).is_file():
        conclusion.show_all(folder, screen)
        return Ending("ok", f"all metrics of the comparison results/{run}")
    if (folder / SWEEP_FILE).is_file():
        runs = ", ".join(run.name for _, run, _ in sweep_table.runs_of(folder))
        raise WrongUse(f"results/{run} is a sweep, whose metrics are in sweep.csv; it may be one of its runs: {runs}", "run")
    files = RunFolder(folder)
    if not (content := files.metrics):
        raise WrongUse(f"results/{run} has no metrics.json; it may be a finished run or comparison", parameter="run")
    table.show(content, screen, files.experiment)
    return Ending("ok", f"{content['jobs']['submitted']} jobs, results/{run}")


def _machine(schedule: Schedule, given: NodeKnobs, screen: Screen) -> tuple[int, int | None]:
    """Processors and nodes: from NODES, CPUS or CLASSES if given, else from the schedule, else from the defaults of the knobs."""
    if schedule.processors is None or any(os.environ.get(name) for name in ("NODES", "CPUS", "CLASSES")):
        machine = given.machine
        screen.say(f"machine: {machine.in_words()} ({'CLASSES' if machine.path else 'NODES, CPUS'})")
        return machine.processors, machine.nodes
    nodes = "nodes not known" if schedule.nodes is None else f"{schedule.nodes} nodes"
    screen.say(f"machine: {schedule.processors} processors, {nodes} ({schedule.machine})")
    return schedule.processors, schedule.nodes
