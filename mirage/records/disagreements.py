"""Disagreements between the two records of a run: what sigsleep and the resource manager say of the same jobs; docs/records.md."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from polars import col

from mirage.records.run_records import NS, Schema
from mirage.records.time_map import TimeMap
from slurm_mirage.rm.api import RESIZING, Records

# Real seconds from Slurm's start of a job to sigsleep's, and from sigsleep's end to Slurm's, beyond which one of the records is
# wrong, whatever the launches of a run took.
LAUNCH_ALLOWANCE = 1.0
# A launch may take as long as the median of the run's launches and this number of robust standard deviations, each of which is at
# least LEAST_SPREAD real seconds. Of 1,200 launches of ten runs on a busy host the slowest took 19 deviations.
SPREADS = 20
LEAST_SPREAD = 0.01
FEWEST_LAUNCHES = 20  # with fewer launches their spread is unknown
# Real seconds by which sigsleep's start may precede Slurm's: time(2) can be a kernel tick (up to 0.01 s) behind clock_gettime(2),
# and clocks of several hosts differ by less.
CLOCK_STEP = 0.02

STRUCTURAL = frozenset(
    {
        "in sigsleep's record only",
        "state",
        "sizes",
        "ran under another job number too",
        "ran again after its end",
        "no job of this run",
    }
)
"""Kinds of disagreements that are not about a time: one record has something that the other lacks. Also `in_record_only`."""

SCHEMA: Schema = {"id": pl.Int64, "kind": pl.String, "seconds": pl.Float64}
"""Columns of a table of disagreements."""

_JOB = ["id", "slurm_id"]


def _longest(took: pl.Expr, joined: pl.DataFrame, time: TimeMap) -> float:
    """Real seconds that a launch, or an end, of this run may take before the records contradict each other; LAUNCH_ALLOWANCE if
    there were few. `took`: virtual nanoseconds of each.

    By the median and the median absolute deviation from it, which slow ones hardly change. The second that the manager's record
    cuts off is part of both.
    """
    known = joined.filter("recorded").select((took / NS / time.clock.speed).alias("took")).drop_nulls()
    if known.height < FEWEST_LAUNCHES:
        return LAUNCH_ALLOWANCE
    middle, spread = known.select(col("took").median(), spread=1.4826 * (col("took") - col("took").median()).abs().median()).row(0)
    return float(min(LAUNCH_ALLOWANCE, max(0.0, middle) + SPREADS * max(LEAST_SPREAD, spread)))


def of_damage(kinds: Sequence[str]) -> pl.DataFrame:
    """The table of disagreements of these kinds, which are not about a job."""
    return pl.DataFrame({"id": None, "kind": list(kinds), "seconds": None}, schema=SCHEMA)


def in_record_only(manager: str) -> str:
    """The kind of a job that only the record of the resource manager has."""
    return f"in {manager}'s record only"


def contradictions(
    joined: pl.DataFrame,
    time: TimeMap,
    manager: Records,
    held: float = 0.0,
    told_late: Sequence[int] = (),
    *,
    is_event: bool = False,
) -> pl.DataFrame:
    """Disagreements between the records of a job beyond their resolution: id, kind, seconds.

    held: virtual seconds for which a scheduling cycle of this run may have kept a launch or an end waiting; told_late: ids of jobs
    whose ends the manager learned late because of an event; is_event: the run was on the event clock

    An instant that the manager's record should have and does not, or that cannot be, is a disagreement too.

    An end may be as late as a launch; where the record ends a job when its processors are free, as late as the ends of the run. A
    program may begin before the record's start by as much as a launch takes where that is written when the node has taken the job.
    """
    late = (time.clock.real_to_virtual(_longest(col("r_start") - col("s_start"), joined, time)) + held) * NS
    late_end = late
    if manager.frees_at_end:
        late_end = time.clock.real_to_virtual(_longest(col("s_end") - col("r_end"), joined, time)) * NS
    late_end += 0.0 if is_event else manager.end_delay * NS
    step = time.clock.real_to_virtual(CLOCK_STEP) * NS
    early = late if manager.starts_when_accepted else step
    is_told_late = col("id").is_in(told_late)
    start, end = col("r_start") - col("s_start"), col("s_end") - col("r_end")
    stopped = col("r_stopped") - col("c_suspended")
    # The submission of a job that the replay found in Slurm after an interruption is unknown.
    adopted = col("v_began") == col("v_accepted")
    submission = col("s_submit").is_between(col("v_began") - NS - step, col("v_accepted") + step)
    completed, cancelled = col("state") == "COMPLETED", col("state") == "CANCELLED"
    at_limit = (col("state") == "TIMEOUT") & (col("s_end") - col("s_start") >= col("limit_minutes") * 60 * NS)
    both = col("recorded") & col("s_state").is_not_null()
    nothing = pl.lit(None, pl.Int64)
    is_backwards = col("s_ran") & (col("s_end") < col("s_start"))
    kinds: list[tuple[str, pl.Expr, pl.Expr]] = [
        (in_record_only(manager.names.manager), completed & ~col("recorded"), nothing),
        ("in sigsleep's record only", col("r_start").is_not_null() & col("s_state").is_null(), nothing),
        # A job may complete while it is being cancelled or ended at its limit.
        ("state", both & (completed != col("completed")) & ~(cancelled | at_limit), nothing),
        ("submission", ~submission & ~adopted | col("submit_untold"), _unless("submit_untold", col("s_submit") - col("v_submit"))),
        ("start", both & ~start.is_between(-early, NS + late) | col("start_untold"), _unless("start_untold", start)),
        # Slurm records the suspension as the end of a job that is cancelled while it is suspended.
        (
            "end",
            both & ~end.is_between(-NS - late, late_end) & ~(cancelled & (col("r_pauses") > 0)) & ~(is_told_late & (end > 0))
            | is_backwards
            | col("end_untold"),
            _unless("end_untold", end),
        ),
        (
            "suspended",
            both & (col("restarts") == 0) & (stopped.abs() > (NS + late) * col("r_pauses").clip(1)),
            stopped,
        ),
        ("sizes", both & completed & (col("s_sizes") != col("r_sizes")), nothing),
        ("a suspension that sigsleep could not record", col("unsure"), nothing),
    ]
    return pl.concat(
        joined.filter(wrong.fill_null(False)).select("id", kind=pl.lit(kind), seconds=time.length(by)) for kind, wrong, by in kinds
    )


def _unless(untold: str, seconds: pl.Expr) -> pl.Expr:
    """By how much the records differ; null if one of them has no instant."""
    return pl.when(~col(untold).fill_null(False)).then(seconds)


def strays(submitted: pl.DataFrame, lines: pl.DataFrame, aftermath: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """Executions that used processors but do not belong to a submission of the plan: id, kind, seconds (null)."""
    ran = pl.concat([lines.filter("s_ran").select(_JOB), records.select(_JOB)]).drop_nulls("id")
    others = ran.unique(maintain_order=True).join(submitted, on=_JOB, how="anti", maintain_order="left")
    ours = col("id").is_in(submitted["id"].implode())
    twice, foreign = pl.lit("ran under another job number too"), pl.lit("no job of this run")
    again = aftermath.filter(col("s_ran") & (col("s_state") != RESIZING)).select("id", kind=pl.lit("ran again after its end"))
    table = others.select("id", kind=pl.when(ours).then(twice).otherwise(foreign))
    return pl.concat([table, again]).with_columns(seconds=pl.lit(None, pl.Float64))
