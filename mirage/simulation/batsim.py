"""Writing a schedule as Batsim writes it, so that tools made for Batsim's output (evalys among them) read it.

The columns are those of Batsim's jobs.csv (Batsim's documentation, "Output files", "Jobs"). One of them,
`allocated_resources`, says on which processors a job ran. A run knows only how many they were, so the numbers are
made up here: at its start a job is given the lowest processors that are free then. They are consistent, for no two jobs
have one at the same time, and their count is real; which they are means nothing.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_atomically

_Whole = npt.NDArray[np.int64]
_Real = npt.NDArray[np.float64]

# From so many jobs on, compiling the assignment takes less time than it saves.
_COMPILED_FROM = 20_000

# So many jobs are made text at a time: the text takes far more memory than the numbers.
_ROWS = 200_000

# Slurm's words for how a job ended in Batsim's words.
_FINAL_STATES = {
    "COMPLETED": "COMPLETED_SUCCESSFULLY",
    **dict.fromkeys(["TIMEOUT", "DEADLINE"], "COMPLETED_WALLTIME_REACHED"),
    **dict.fromkeys(["CANCELLED", "PREEMPTED"], "COMPLETED_KILLED"),
    **dict.fromkeys(["FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "LAUNCH_FAILED", "LOST"], "COMPLETED_FAILED"),
}


def write_batsim(jobs: pl.DataFrame, path: Path | str, workload_name: str) -> None:
    """Writes a schedule (columns id, submit, start, end, processors, requested, state of `metrics.JOBS_SCHEMA`) as CSV.

    A row a job, in the same order; times in seconds with at most six decimals, nothing where unknown. As in Batsim a
    job's execution lasts from its start to its end, with what time it was suspended. A job that never started is
    REJECTED, one that has not ended RUNNING; both have nothing in the columns that they have no value for, nor has the
    stretch of a job of 0 s. A job that ended, nobody knows how, has no final state.

    The file appears complete or not at all. Raises WrongUse if it cannot be written.
    """
    path = Path(path)
    intervals = _intervals(jobs)
    buffer = io.BytesIO()
    for start in range(0, max(1, jobs.height), _ROWS):
        table = _table(jobs.slice(start, _ROWS), workload_name, _texts(intervals, start, min(start + _ROWS, jobs.height)))
        table.write_csv(buffer, include_header=start == 0)
    try:
        write_atomically(path, buffer.getvalue())
    except OSError as error:
        raise WrongUse(f"{path}: cannot be written ({error.strerror})", parameter="out") from error


def _table(jobs: pl.DataFrame, workload_name: str, allocated: pl.Series) -> pl.DataFrame:
    col, when = pl.col, pl.when
    started, ended = col("start").is_not_null(), col("start").is_not_null() & col("end").is_not_null()
    end = when(ended).then(col("end"))
    state = (
        when(~started)
        .then(pl.lit("REJECTED"))
        .when(~ended)
        .then(pl.lit("RUNNING"))
        .otherwise(col("state").replace_strict(_FINAL_STATES, default=None, return_dtype=pl.String))
    )
    execution, turnaround = end - col("start"), end - col("submit")
    table = jobs.select(
        job_id="id",
        workload_name=pl.lit(workload_name),
        profile="id",
        submission_time="submit",
        requested_number_of_resources="processors",
        requested_time="requested",
        success=(state == "COMPLETED_SUCCESSFULLY").cast(pl.Int8),
        final_state=state,
        starting_time="start",
        execution_time=execution,
        finish_time=end,
        waiting_time=col("start") - col("submit"),
        turnaround_time=turnaround,
        stretch=when(execution > 0).then(turnaround / execution),
        allocated_resources=allocated,
        consumed_energy=when(started).then(-1),
        metadata=pl.lit(None, pl.String),
    )
    return table.with_columns(_shortest(table[name]) for name, kind in table.schema.items() if kind == pl.Float64)


def _shortest(values: pl.Series) -> pl.Series:
    """Numbers as whole ones, if they all are, so that 5 is not written as 5.0."""
    values = values.round(6)
    return values.cast(pl.Int64) if (values == values.floor()).all() else values


class _Intervals(NamedTuple):
    """Of each job those from `first` to before `after` in `low` and `high`, its lowest and highest processors."""

    first: _Whole
    after: _Whole
    low: _Whole
    high: _Whole


def _intervals(jobs: pl.DataFrame) -> _Intervals:
    """The processors of each job; none for jobs that did not run or whose number of processors is unknown."""
    ran = (pl.col("end") >= pl.col("start")) & (pl.col("processors") > 0)
    count = jobs.select(pl.when(ran).then("processors").fill_null(0)).to_series().to_numpy()
    start, end = (jobs[name].to_numpy() for name in ("start", "end"))
    starts = np.flatnonzero(count)
    starts = starts[np.argsort(start[starts], kind="stable")]
    ends = starts[end[starts] > start[starts]]
    ends = ends[np.argsort(end[ends], kind="stable")]
    assign: Callable[..., tuple[_Whole, _Whole, _Whole, _Whole]] = _assign
    if len(starts) >= _COMPILED_FROM:
        import numba

        assign = numba.njit()(_assign)
    return _Intervals(*assign(starts, ends, start, end, count))


def _texts(intervals: _Intervals, begin: int, end: int) -> pl.Series:
    """The intervals of the jobs in rows from begin to before end, as Batsim writes them (`0-3 7`)."""
    first, after = intervals.first[begin:end], intervals.after[begin:end]
    several = after - first
    row = np.repeat(np.arange(end - begin), several)
    place = np.arange(len(row)) - np.repeat(np.cumsum(several) - several - first, several)
    low, high = pl.col("low"), pl.col("high")
    return (
        pl.LazyFrame({"row": row, "low": intervals.low[place], "high": intervals.high[place]})
        .with_columns(text=pl.when(low == high).then(low.cast(pl.String)).otherwise(pl.format("{}-{}", low, high)))
        .group_by("row")
        .agg(pl.col("text").str.join(" "))
        .join(pl.LazyFrame({"row": np.arange(end - begin)}), on="row", how="right", maintain_order="right")
        .collect()["text"]
    )


def _assign(starts: _Whole, ends: _Whole, start: _Real, end: _Real, count: _Whole) -> tuple[_Whole, _Whole, _Whole, _Whole]:
    """The members of `_Intervals`.

    starts: the jobs in the order in which they start; ends: those with a duration, in the order in which they end; a
    job that ends when another starts has given its processors back by then. start, end, count: of each job.

    What is free are intervals too, kept from the highest to the lowest, none touching another: the lowest is the last,
    from which is taken. The highest goes on for ever. Runs as it is or compiled by numba, hence no other containers.
    """
    first, after = np.zeros(len(count), np.int64), np.zeros(len(count), np.int64)
    low, high = np.empty(1024, np.int64), np.empty(1024, np.int64)
    free_low, free_high = np.empty(1024, np.int64), np.empty(1024, np.int64)
    free_low[0], free_high[0] = 0, 1 << 62
    last = used = done = 0
    for job in starts:
        while done < len(ends) and end[ends[done]] <= start[job]:
            for i in range(first[ends[done]], after[ends[done]]):
                # The place of the next free interval below, in free_low[1 : last + 1], which falls.
                lower, upper = 1, last + 1
                while lower < upper:
                    middle = (lower + upper) // 2
                    if free_low[middle] < low[i]:
                        upper = middle
                    else:
                        lower = middle + 1
                joins_below = lower <= last and free_high[lower] + 1 == low[i]
                joins_above = free_low[lower - 1] == high[i] + 1
                if joins_below and joins_above:
                    free_low[lower - 1] = free_low[lower]
                    for j in range(lower, last):
                        free_low[j], free_high[j] = free_low[j + 1], free_high[j + 1]
                    last -= 1
                elif joins_below:
                    free_high[lower] = high[i]
                elif joins_above:
                    free_low[lower - 1] = low[i]
                else:
                    if last + 2 > len(free_low):
                        free_low, free_high = np.append(free_low, free_low), np.append(free_high, free_high)
                    for j in range(last, lower - 1, -1):
                        free_low[j + 1], free_high[j + 1] = free_low[j], free_high[j]
                    free_low[lower], free_high[lower] = low[i], high[i]
                    last += 1
            done += 1
        first[job], needed, place = used, count[job], last
        while needed > 0:
            if used == len(low):
                low, high = np.append(low, low), np.append(high, high)
            taken = min(needed, free_high[place] - free_low[place] + 1)
            low[used], high[used] = free_low[place], free_low[place] + taken - 1
            needed -= taken
            used += 1
            if end[job] == start[job]:
                place -= 1  # it has them for no time: they stay free
            elif low[used - 1] + taken > free_high[place]:
                place -= 1
                last -= 1
            else:
                free_low[place] += taken
        after[job] = used
    return first, after, low[:used], high[:used]
