"""Executions of jobs whose work was lost: the processors that they held, and the time between them, in which their job waited.

A job that is requeued begins again: what it executed before is lost. Its run time is that of its last execution. The earlier ones
used processors, so they count in utilisation, as wasted processor time.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from mirage.metrics.allocations import holdings


@dataclass(frozen=True)
class Lost:
    """Executions whose work was lost, of jobs of the schedule.

    earlier: columns id, begin, end, p: a row for each earlier execution of a job
    held: columns id, begin, end, p, c: intervals in which earlier executions held p processors and c nodes
    of_last: the same columns: those of last executions that ended in one of `states.LOST`
    """

    earlier: pl.DataFrame
    held: pl.DataFrame
    of_last: pl.DataFrame

    @property
    def jobs(self) -> pl.Series:
        """Numbers of their jobs."""
        return pl.concat([self.earlier["id"], self.of_last["id"]]).unique()


def lost_executions(
    jobs: pl.DataFrame,
    last: pl.DataFrame,
    executions: pl.DataFrame | None,
    suspensions: pl.DataFrame | None,
    resized: pl.DataFrame | None,
) -> Lost | None:
    """None if no work was lost.

    jobs: columns id, p, c of the jobs whose earlier executions count
    last: columns id, s, f, p, c of the last executions that are lost
    executions: columns job, start, end (executions.csv); suspensions: job, suspend, resume; None if not known
    resized: columns id, begin, end, p, c: what jobs held that changed their size in their last execution
    """
    begun = pl.DataFrame(schema={"job": pl.Int64, "start": pl.Float64, "end": pl.Float64}) if executions is None else executions
    earlier = begun.join(jobs, left_on="job", right_on="id").select("job", "p", "c", s="start", f="end").sort("job", "s")
    if earlier.is_empty() and last.is_empty():
        return None
    of_last = _held(last.select("p", "c", "s", "f", job="id"), suspensions)
    if resized is not None:
        changed = resized.join(last, on="id", how="semi")
        of_last = pl.concat([of_last.join(changed, on="id", how="anti"), changed.select(of_last.columns)])
    return Lost(earlier.select("p", id="job", begin="s", end="f"), _held(earlier, suspensions), of_last)


def _held(runs: pl.DataFrame, suspensions: pl.DataFrame | None) -> pl.DataFrame:
    """The intervals in which executions held processors: columns id (of the job), begin, end, p, c.

    runs: columns job, s, f, p, c
    """
    numbered = runs.with_row_index("id").with_columns(pl.col("id").cast(pl.Int64))
    stops = None
    if suspensions is not None:
        # Executions of a job follow each other: a suspension is one of the last that had begun.
        begun = (
            suspensions.drop_nulls()
            .sort("suspend")
            .join_asof(numbered.sort("s"), left_on="suspend", right_on="s", by="job", strategy="backward", check_sortedness=False)
        )
        stops = begun.filter(pl.col("suspend") < pl.col("f")).select("suspend", "resume", job="id")
    held = holdings(numbered, stops, None)
    return held.join(numbered.select("id", "job"), on="id").select("begin", "end", "p", "c", id="job")
