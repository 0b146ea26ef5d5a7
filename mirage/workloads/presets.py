"""The state of the recorded machine when a selection begins: jobs that ran or waited then, as far as they were not over.

A replay that starts with an empty machine and queue shows waits that are too short until both have filled. RM-Replay
(Martinasso et al., SC 2018) therefore submits the jobs that had been submitted and started before the window first, and calls
them preset jobs.
"""

from __future__ import annotations

import polars as pl

from slurm_mirage.base.errors import WrongUse

CANCELLED = 5
RUNNING, QUEUED = "running", "queued"


def never_ran() -> pl.Expr:
    """Whether a line of an SWF frame is that of a job that was cancelled while it waited."""
    return (pl.col("status") == CANCELLED) & (pl.col("run_time") <= 0)


def presets(before: pl.DataFrame, instant: float, which: str) -> tuple[pl.DataFrame, int]:
    """Of usable lines of an SWF frame that lie above a selection, those that `which` names, as what was left of them at the
    instant (seconds of the trace) at which the selection begins; and the number of jobs whose wait, and so whose
    state, is not known.

    which: "none", "running", or "all" (running or waiting)

    The result has the columns of `before` and `preset`: first the running ones in the order of their starts, then the
    queued ones in the order of their submissions. All are submitted at the instant:

    running  run time: what was left of it; requested time: less what had passed (at least 1 s: a job that was over its
             time is still not one without any); wait: none
    queued   all of their run time and requested time; wait: from the instant on

    Where a log has suspensions but not when they were, the run time left is the longest possible. Raises WrongUse if no wait is
    known.
    """
    col = pl.col
    nothing = before.clear().with_columns(preset=pl.lit("", pl.String))
    if which == "none" or before.is_empty():
        return nothing, 0
    known = before.filter(col("wait") >= 0)
    if known.is_empty():
        raise WrongUse(f"{which} needs recorded waits, and the log has none; it may be none", parameter="preset")
    suspended = col("suspended").fill_null(0) if "suspended" in before.columns else pl.lit(0.0)
    start, run = col("submit") + col("wait"), pl.when(never_ran()).then(0.0).otherwise("run_time")
    left = pl.min_horizontal(run, start + run + suspended - instant)
    asked = pl.when(col("requested_time") > 0).then(pl.max_horizontal(col("requested_time") - (run - left), 1.0))
    running = (
        known.filter(~never_ran() & (start <= instant) & (left > 0))
        .sort(start, maintain_order=True)
        .with_columns(
            submit=pl.lit(instant),
            wait=pl.lit(0.0),
            run_time=left,
            requested_time=asked.otherwise("requested_time"),
            preset=pl.lit(RUNNING),
        )
    )
    queued = known.filter(start > instant).with_columns(submit=pl.lit(instant), wait=start - instant, preset=pl.lit(QUEUED))
    found = pl.concat([running, queued] if which == "all" else [running])
    return found, before.height - known.height
