"""`make simulate`: simulates a simple scheduler on a workload, without Slurm, and prints the metrics of its schedule."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from mirage.aspects import offers
from mirage.commands.offline import logged, output
from mirage.experiment import aspects
from mirage.experiment.endings import Ending
from mirage.experiment.prepare import DEFAULT_MODEL, SLACK, selection_of_any
from mirage.knobs.knobs import Knobs, MetricKnobs, WorkloadKnobs
from mirage.metrics import metrics as definitions
from mirage.metrics.jobs_frame import executions_from_log
from mirage.simulation import batsim
from mirage.terminal import table
from mirage.terminal.screen import Screen
from mirage.traces import swf
from mirage.traces.trace import Trace
from mirage.verdict import metric_errors
from mirage.workloads.models import estimates
from mirage.workloads.workload import Workload, prepare
from slurm_mirage.base.errors import WrongUse

# Labels of a log's header that are also correct for another schedule of its jobs.
KEPT_LABELS = ("Computer", "Installation", "Acknowledge", "UnixStartTime", "TimeZone", "TimeZoneString", "Queue", "Queues")
NAMES = {"fcfs": "first come first served", "easy": "EASY backfilling", "conservative": "conservative backfilling"}


@dataclass(frozen=True)
class Shape:
    """The simulated machine. classes: count and processors of each class of nodes. nodes: their number, or None if unknown."""

    classes: tuple[tuple[int, int], ...]
    nodes: int | None

    @property
    def processors(self) -> int:
        return sum(count * cpus for count, cpus in self.classes)

    def header(self) -> dict[str, str]:
        """Labels of the machine in an SWF header."""
        return {"MaxProcs": str(self.processors), **({"MaxNodes": str(self.nodes)} if self.nodes else {})}


@dataclass(frozen=True)
class Simulated:
    """A simulated schedule with what an aspect adds to it: the function `simulated` of its module `simulate`.

    frame: as of `played`; tables: of the aspect, by the names of a run's files; sentences: function from the member "metrics" of
    metrics.json to sentences that are printed
    """

    frame: pl.DataFrame
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    sentences: Callable[[Mapping[str, float | None]], Sequence[str]] = lambda _: ()


def simulate(knobs: Knobs, screen: Screen) -> Ending:
    """Print the metrics of the simulated and of the recorded schedule, and write the simulated one to OUT."""
    out = output(knobs.output.out) if knobs.output.out else None
    if out is not None and not out.name.endswith((".swf", ".swf.gz", ".csv")):
        raise WrongUse(f"{out} may be a name that ends in .swf or .swf.gz (SWF), or in .csv (Batsim's columns)", parameter="out")
    trace = _trace(knobs, screen)
    shape = _shape(knobs, trace, screen)
    aspects.check_words(knobs)
    workload, policy = knobs.workload, knobs.scheduler.policy
    chosen = prepare(
        replace(trace, frame=estimates.replace(trace.frame, workload.estimates, workload.seed)),
        selection_of_any(workload),
        classes=shape.classes,
        slack=SLACK,
        sizes=knobs.jobs.sizes,
        preset=knobs.jobs.preset,
    )
    for done, counts in (("left out", chosen.excluded), ("prepared", chosen.notes)):
        for reason, count in counts.items():
            screen.say(f"{done}: {count} jobs ({reason.replace('_', ' ')})")
    by_limits = workload.estimates == "keep"
    frame = played(chosen, shape.processors, policy, by_limits=by_limits)
    of_aspects = [of(knobs, chosen, shape.processors, policy, by_limits, frame) for of in offers("simulate", "simulated")]
    played_with = next((one for one in of_aspects if one is not None), Simulated(frame))
    frame = played_with.frame
    simulated = _metrics(jobs_of(frame), shape.processors, shape.nodes, knobs.metrics, played_with.tables)
    of_selection = frame.filter(pl.col("preset").is_null())
    _show(_recorded(of_selection, trace, knobs), simulated, screen)
    for sentence in played_with.sentences(simulated["metrics"]):
        screen.say(sentence)
    if out is not None:
        _write(out, frame, trace, shape, workload, policy)
    summary = f"{of_selection.height} jobs under {NAMES[policy]}, simulated, without Slurm"
    return Ending("ok", summary + (f", {out}" if out else ""))


def played(chosen: Workload, processors: int, policy: str, *, by_limits: bool) -> pl.DataFrame:
    """Simulate the policy on prepared jobs (SHRINK=100). Returns an SWF frame with waits, `preset`, and `saving`: how much of the
    wait jobs beside the workload's took to leave. Seconds of the trace.

    by_limits: the scheduler plans with the time limits that sbatch would get, otherwise with the requested times. Jobs are
    cancelled at the recorded times, as in an experiment.
    """
    return schedule(chosen, processors, policy, by_limits, 0.0)[0]


def schedule(
    chosen: Workload, processors: int, policy: str, by_limits: bool, grace: float
) -> tuple[pl.DataFrame, NDArray[np.float64]]:
    """Simulate the scheduler. Returns the schedule in columns of SWF with `preset` and `saving`, and the instants from which the
    jobs hold their processors.

    grace: most seconds between such an instant and the start of the job, in which jobs beside the workload's leave its processors
    """
    from mirage.simulation import simulation  # numba takes a moment to load

    jobs = chosen.jobs
    plan = jobs["limit_minutes"] * 60 if by_limits else jobs["requested"]
    submit = jobs["submit"].to_numpy()
    cancel = jobs.select(pl.col("submit") + pl.col("cancel_after_virtual").fill_null(float("inf"))).to_series()
    runtime = jobs["runtime"].to_numpy()
    start, hold = simulation.delayed(
        submit, jobs["processors"].to_numpy(), runtime, plan.to_numpy(), processors, policy, grace, cancel=cancel.to_numpy()
    )
    began = pl.Series(start, nan_to_null=True)
    # A job that is cancelled while others leave its processors ends when it starts.
    ran = pl.min_horizontal("runtime", pl.col("cancel") - pl.col("began")).clip(0)
    waited = pl.col("began").is_null()
    times = jobs.select("submit", "runtime", cancel=cancel, began=began, plan=plan).select(
        "submit",
        wait=pl.coalesce("began", "cancel") - pl.col("submit"),
        run_time=pl.when(waited).then(-1.0).otherwise(ran),
        requested_time=pl.col("plan").cast(pl.Float64),
    )
    return chosen.to_swf().with_columns(*times, preset=jobs["preset"].replace("", None), saving=pl.Series(start - hold)), hold


def jobs_of(frame: pl.DataFrame) -> pl.DataFrame:
    """Convert the SWF frame of `played` to a jobs frame (`metrics.JOBS_SCHEMA`), without suspensions."""
    return definitions.frame_from_swf(frame.with_columns(suspended=pl.lit(0.0))).with_columns(frame["preset"])


def _trace(knobs: Knobs, screen: Screen) -> Trace:
    """The log or the generated workload, with unique job numbers."""
    trace = logged(knobs, screen)
    numbers = trace.frame["job_number"]
    if numbers.is_unique().all() and (trace.frame.is_empty() or (numbers > 0).all()):
        return trace
    screen.say("the log repeats job numbers: jobs are numbered by their lines")
    lines = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
    return replace(trace, frame=trace.frame.with_columns(job_number=lines))


def _shape(knobs: Knobs, trace: Trace, screen: Screen) -> Shape:
    """The machine of NODES, CPUS or CLASSES if one of them is given, otherwise that of the log."""
    if knobs.workload.trace and not any(os.environ.get(name) for name in ("NODES", "CPUS", "CLASSES")):
        processors, nodes = trace.machine()
        screen.say(f"machine: {processors} processors ({trace.machine_source()})")
        return Shape(((1, processors),), nodes)
    machine = knobs.nodes.machine
    screen.say(f"machine: {machine.in_words()} ({'CLASSES' if machine.path else 'NODES, CPUS'})")
    return Shape(tuple((item.count, item.cpus) for item in machine.classes), machine.nodes)


def _metrics(
    jobs: pl.DataFrame,
    processors: int,
    nodes: int | None,
    settings: MetricKnobs,
    tables: Mapping[str, pl.DataFrame] | None = None,
    lost: pl.DataFrame | None = None,
) -> dict[str, Any]:
    measured = definitions.compute(
        jobs,
        processors,
        nodes,
        float(settings.tau),
        tables=tables,
        executions=lost,
        w2_reading=settings.w2,
        immediate_below=1.0 if settings.immediate is None else float(settings.immediate),
        warmup_cut=settings.warmup_cut,
        cooldown_cut=settings.cooldown_cut,
    )
    return measured | metric_errors.of_schedule(jobs, measured)


def _recorded(frame: pl.DataFrame, trace: Trace, knobs: Knobs) -> dict[str, Any] | None:
    """Metrics of the recorded schedule of the same jobs on the log's machine; None if the log has no waits."""
    same = trace.frame.join(frame, on="job_number", how="semi")
    if not knobs.workload.trace or not (same["wait"] >= 0).any():
        return None
    return _metrics(definitions.frame_from_swf(same), *trace.machine(), knobs.metrics, lost=executions_from_log(same))


def _show(recorded: dict[str, Any] | None, simulated: dict[str, Any], screen: Screen) -> None:
    """Print the metrics of the simulated schedule, next to those of the recorded one if there is one."""
    if recorded is None:
        table.show(simulated, screen)
        return
    rows = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    rows.add_column("metric", no_wrap=True)
    for schedule in ("recorded", "simulated"):
        rows.add_column(schedule, justify="right", no_wrap=True)
    rows.add_column("meaning")
    kinds = table.kinds_of_errors(simulated)
    pairs = zip(definitions.table(recorded), definitions.table(simulated), strict=True)
    for (name, before, unit, _), (_, after, _, meaning) in pairs:
        values = ((recorded, before), (simulated, after))
        rows.add_row(name, *(_text(value, unit) + table.errors_text(of, name, kinds) for of, value in values), meaning)
    left_out = [
        f"left out, {schedule}: {count} ({reason})"
        for schedule, measured in (("recorded", recorded), ("simulated", simulated))
        for reason, count in measured["excluded"].items()
    ]
    legend = "recorded: what the log says, of the real machine and its scheduler; simulated: the same jobs under POLICY"
    table.print_all(screen, "", legend, rows, *([table.about_errors(kinds)] if kinds else []), *left_out)


def _text(value: float | None, unit: str) -> str:
    """A value as in the table of one schedule, but seconds are not converted to minutes or days, to save width."""
    return f"{value:.2f} s" if value is not None and unit == "s" else table.value_text(value, unit)


def _write(out: Path, frame: pl.DataFrame, trace: Trace, shape: Shape, knobs: WorkloadKnobs, policy: str) -> None:
    load = f", load {knobs.load}" if knobs.load else ""
    generated = f"model {knobs.model or DEFAULT_MODEL}, seed {knobs.seed}{load}"
    source = Path(knobs.trace).name if knobs.trace else generated
    if out.suffix == ".csv":
        batsim.write_batsim(jobs_of(frame), out, source)
        return
    kept = {label: trace.header[label] for label in KEPT_LABELS if label in trace.header}
    note = f"waits are simulated: {NAMES[policy]}, estimates {knobs.estimates}; jobs of {source}"
    if count := frame["preset"].count():
        note += f"; the first {count} are presets"
    swf.write_swf(frame, {**kept, **shape.header(), "Note": note}, out)
