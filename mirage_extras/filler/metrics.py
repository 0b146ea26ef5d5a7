"""Metrics of filler jobs (README.md): what they took of the machine while the workload lasted, and how much of it was useful.

An execution of a filler counts in the part of it that lies in the window; its useful work, and what it lost, in proportion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from mirage.metrics.formulas import OfSchedule, Value
from mirage.metrics.metric import FEWER, SMALLER, Metric
from mirage.metrics.usage_over_time import MeasuredSchedule, utilisation
from mirage_extras.filler.figures import FILLERS_FILE as FILLERS_FILE
from slurm_mirage.extras.filler.words import Filler

if TYPE_CHECKING:
    from mirage_extras.filler.simulation import Filled

FILLERS_SCHEMA: dict[str, pl.DataType] = {
    **dict.fromkeys(("filler", "execution"), pl.Int64()),
    "node": pl.String(),
    "processors": pl.Int64(),
    **dict.fromkeys(("start", "ready", "end", "useful", "lost", "saving", "restoring", "waiting"), pl.Float64()),
    **dict.fromkeys(("saves", "failed_saves"), pl.Int64()),
    **dict.fromkeys(("work", "progress"), pl.Float64()),
    "outcome": pl.String(),
}
"""Columns of fillers.csv: one row per execution of a filler. Times in trace seconds, null where unknown.

start, ready, end: instants of the start, of the end of restoring, and of the end
useful, lost, saving, restoring, waiting: seconds; their sum is end - start. useful: work that was saved; lost: what was computed
after the last save; waiting: after the last save until the end
saves, failed_saves: numbers
work: useful work in seconds of a filler of speed 1; progress: the same of the filler from its beginning on
outcome: one of `OUTCOMES`
"""
COMPLETED, SLOT, REQUEST, PREEMPTED = "completed", "slot", "request", "preempted"
LIMIT, CANCELLED, FAILED, RUNNING = "limit", "cancelled", "failed", "running"
OUTCOMES = (COMPLETED, SLOT, REQUEST, PREEMPTED, LIMIT, CANCELLED, FAILED, RUNNING)
"""How an execution ended: the filler's work was done; at the end of its slot; it saved on request and left; Slurm took the node for
another job; at its time limit; cancelled, as all are at the end of the run; for another reason; not at all."""


def simulated_executions(simulated: Filled, words: Filler) -> pl.DataFrame:
    """The executions of simulated fillers, with the columns of `FILLERS_SCHEMA`. Processors are nodes 1, 2, ...; so are fillers."""
    from mirage_extras.filler import simulation

    outcomes = {
        simulation.COMPLETED: COMPLETED,
        simulation.SLOT: SLOT,
        simulation.PREEMPTED: PREEMPTED,
        simulation.STOPPED: CANCELLED,
    }
    executions = pl.DataFrame(simulated.executions, schema=list(simulation.COLUMNS), orient="row").with_columns(
        pl.col("filler") + 1,
        node=(pl.col("processor") + 1).cast(pl.Int64).cast(pl.String),
        processors=pl.lit(1),
        ready=pl.when(pl.col("restoring") >= words.restore).then(pl.col("start") + pl.col("restoring")),
        failed_saves=pl.lit(0),
        work=pl.col("useful") * words.speed,
        outcome=pl.col("outcome").cast(pl.Int64).replace_strict(outcomes, return_dtype=pl.String),
    )
    return executions.select(pl.col(name).cast(kind) for name, kind in FILLERS_SCHEMA.items())


def filler_load(schedule: MeasuredSchedule) -> Value:
    """Share of the machine's processors that fillers occupied over the window."""
    return _share(schedule, pl.lit(1.0))


def total_load(schedule: MeasuredSchedule) -> Value:
    """Share of the machine's processors that jobs of the workload used, or fillers occupied."""
    of_jobs, of_fillers = utilisation(schedule), filler_load(schedule)
    if isinstance(of_jobs, str):
        return of_jobs
    return of_fillers if isinstance(of_fillers, str) else of_jobs + of_fillers


def filler_preemptions(schedule: MeasuredSchedule) -> Value:
    """Number of executions of fillers that ended within the window for another job: by Slurm, or by themselves on request."""
    if (fillers := schedule.tables.get(FILLERS_FILE)) is None:
        return 0.0
    ended = fillers.filter(pl.col("outcome").is_in([REQUEST, PREEMPTED]), pl.col("end").is_between(*_ends(schedule)))
    return float(ended.height)


def _ends(schedule: MeasuredSchedule) -> tuple[float, float]:
    return schedule.window.begin, schedule.window.end


def _share(schedule: MeasuredSchedule, quantity: pl.Expr, *, per_length: bool = False) -> Value:
    """Processor seconds of the fillers within the window, over those of the machine.

    quantity: of a second of an execution; per_length: of the whole execution
    """
    if (fillers := schedule.tables.get(FILLERS_FILE)) is None:
        return 0.0
    if schedule.window.length == 0:
        return "the schedule has no length"
    begin, end = _ends(schedule)
    until = pl.coalesce("end", pl.lit(end))
    inside = (pl.min_horizontal(until, pl.lit(end)) - pl.max_horizontal("start", pl.lit(begin))).clip(0)
    length = until - pl.col("start")
    amount = pl.when(length > 0).then(quantity / length).otherwise(0.0) if per_length else quantity
    seconds = fillers.select((inside * amount * pl.col("processors")).sum()).item()
    return float(seconds) / schedule.capacity


METRICS: tuple[Metric, ...] = (
    Metric(
        "filler_load",
        "",
        "share of the machine that filler jobs occupied",
        "processor time of executions of fillers within the window over P makespan",
        "",
        OfSchedule(filler_load),
        better="neither",
        noun="load of filler jobs",
        is_share=True,
        main_if="filler_load",
    ),
    Metric(
        "total_load",
        "",
        "utilisation and load of filler jobs together",
        "utilisation + filler_load",
        "",
        OfSchedule(total_load),
        better="higher",
        noun="total load",
        explained="processors that jobs of the workload used or filler jobs occupied, over all that the machine had",
        is_share=True,
        main_if="filler_load",
    ),
    Metric(
        "filler_useful",
        "",
        "work of filler jobs that was saved",
        "saved work of fillers (c times the time in which it was done) over P makespan",
        "Polyakov and Dubenskaya 2018",
        OfSchedule(lambda schedule: _share(schedule, pl.col("work"), per_length=True)),
        better="higher",
        noun="useful work of filler jobs",
        explained="saved work of filler jobs, over all that the machine could have done",
        is_share=True,
        main_if="filler_load",
    ),
    Metric(
        "filler_lost",
        "",
        "computed by filler jobs after their last save",
        "processor time after the last save of fillers that were ended without one, over P makespan",
        "",
        OfSchedule(lambda schedule: _share(schedule, pl.col("lost"), per_length=True)),
        noun="lost time of filler jobs",
        comparative=SMALLER,
        explained="time in which filler jobs computed what they had not saved when they ended, over all that the machine had",
        is_share=True,
        main_if="filler_load",
    ),
    Metric(
        "filler_overhead",
        "",
        "saving, restoring, and waiting of filler jobs for their ends",
        "processor time in which fillers saved, restored, or waited after their last save, over P makespan",
        "",
        OfSchedule(lambda schedule: _share(schedule, pl.col("saving") + pl.col("restoring") + pl.col("waiting"), per_length=True)),
        noun="overhead of filler jobs",
        comparative=SMALLER,
        explained="time in which filler jobs saved, restored, or waited for their ends, over all that the machine had",
        is_share=True,
        main_if="filler_load",
    ),
    Metric(
        "filler_preemptions",
        "",
        "executions of filler jobs that ended for another job",
        "number of executions of fillers that ended within the window for a job of the workload, by Slurm or on request",
        "",
        OfSchedule(filler_preemptions),
        better="neither",
        noun="preemptions of filler jobs",
        comparative=FEWER,
        main_if="filler_load",
    ),
)
