"""Computes preset jobs: the remainders of the jobs that were running or waiting on the recorded machine when a selection begins.

A replay that starts with an empty machine and an empty queue has too short waits until both have filled. RM-Replay (Martinasso et
al., SC 2018) therefore first submits the jobs that were submitted and started before the window, and calls them preset jobs.
"""

from __future__ import annotations

import polars as pl

from slurm_mirage.base.errors import WrongUse

CANCELLED = 5
RUNNING, QUEUED = "running", "queued"


def never_ran() -> pl.Expr:
    """Whether a job of an SWF frame was cancelled while it waited."""
    return (pl.col("status") == CANCELLED) & (pl.col("run_time") <= 0)


def presets(before: pl.DataFrame, instant: float, which: str) -> tuple[pl.DataFrame, int]:
    """The preset jobs of a selection that begins at `instant` (seconds of the trace), and the number of jobs with unknown wait.

    before: SWF frame of the usable jobs before the selection
    which: "none", "running", or "all" (running or waiting)

    The result has the columns of `before` and `preset`: first the running jobs in the order of their starts, then the queued jobs
    in the order of their submissions. All are submitted at `instant`.

    running  run time: the remainder; requested time: the remainder, at least 1 s, since 0 would mean unknown; wait: 0
    queued   run time and requested time: unchanged; wait: counted from `instant`

    If a log has the total time of suspensions but not their instants, the longest possible remainder is used. Jobs whose wait, and
    therefore state, is unknown are left out and counted. Raises WrongUse if no job has a wait.
    """
    col = pl.col
    if which == "none" or before.is_empty():
        return before.clear().with_columns(preset=pl.lit("", pl.String)), 0
    known = before.filter(col("wait") >= 0)
    if known.is_empty():
        raise WrongUse(f"PRESET: {which} needs recorded waits, and the log has none; it may be none")
    suspended = col("suspended").fill_null(0) if "suspended" in before.columns else pl.lit(0.0)
    start, run = col("submit") + col("wait"), pl.when(never_ran()).then(0.0).otherwise("run_time")
    remaining = pl.min_horizontal(run, start + run + suspended - instant)
    requested = pl.when(col("requested_time") > 0).then(pl.max_horizontal(col("requested_time") - (run - remaining), 1.0))
    running = (
        known.filter(~never_ran() & (start <= instant) & (remaining > 0))
        .sort(start, maintain_order=True)
        .with_columns(
            submit=pl.lit(instant),
            wait=pl.lit(0.0),
            run_time=remaining,
            requested_time=requested.otherwise("requested_time"),
            preset=pl.lit(RUNNING),
        )
    )
    queued = known.filter(start > instant).with_columns(submit=pl.lit(instant), wait=start - instant, preset=pl.lit(QUEUED))
    return pl.concat([running, queued] if which == "all" else [running]), before.height - known.height
