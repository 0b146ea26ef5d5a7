"""Writes a schedule in the format of Batsim's jobs.csv, for tools that read Batsim's output, such as evalys.

The columns are documented in Batsim's documentation, "Output files", "Jobs". Column `allocated_resources` lists the processors of a
job. The records of a run have only their number, so the list is generated: at its start a job gets the free processors with the
lowest numbers. The number of processors is real, and no two jobs have the same processor at the same time; the numbers themselves
have no meaning.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from mirage.text import output_file
from slurm_mirage.base.errors import WrongUse

_Whole = npt.NDArray[np.int64]
_Real = npt.NDArray[np.float64]

# With at least this many jobs, compiling the assignment takes less time than it saves.
_COMPILED_FROM = 20_000

# Number of jobs converted to text at a time; the text needs far more memory than the numbers.
_ROWS = 200_000

# Slurm's job states as Batsim's.
_FINAL_STATES = {
    "COMPLETED": "COMPLETED_SUCCESSFULLY",
    **dict.fromkeys(["TIMEOUT", "DEADLINE"], "COMPLETED_WALLTIME_REACHED"),
    **dict.fromkeys(["CANCELLED", "PREEMPTED"], "COMPLETED_KILLED"),
    **dict.fromkeys(["FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "LAUNCH_FAILED", "LOST"], "COMPLETED_FAILED"),
}


def write_batsim(jobs: pl.DataFrame, path: Path | str, workload_name: str) -> None:
    """Writes a schedule (columns id, submit, start, end, processors, requested, state of `metrics.JOBS_SCHEMA`) as CSV.

    The file has a row per job in the same order; times are in seconds with at most six decimals; unknown values are empty. As in
    Batsim, the execution time is end - start, including suspensions. The final state is REJECTED for a job that never started,
    RUNNING for one that has not ended, and empty if unknown. The stretch of a job of 0 s is empty.

    The file is written atomically. Raises WrongUse if it cannot be written.
    """
    path = Path(path)
    intervals = _intervals(jobs)
    buffer = io.BytesIO()
    for start in range(0, max(1, jobs.height), _ROWS):
        table = _table(jobs.slice(start, _ROWS), workload_name, _texts(intervals, start, min(start + _ROWS, jobs.height)))
        table.write_csv(buffer, include_header=start == 0)
    try:
        output_file.write(path, buffer.getvalue())
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
    """The values rounded to six decimals, as integers if all are whole, so that 5 is not written as 5.0."""
    values = values.round(6)
    return values.cast(pl.Int64) if (values == values.floor()).all() else values


class _Intervals(NamedTuple):
    """Intervals of processors: those of job i are low[k] to high[k] for k from first[i] to after[i] - 1."""

    first: _Whole
    after: _Whole
    low: _Whole
    high: _Whole


def _intervals(jobs: pl.DataFrame) -> _Intervals:
    """Assigns processors to the jobs; jobs that did not run or have an unknown number of processors get none."""
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
    """The intervals of the jobs in rows begin to end - 1 as text in Batsim's form (`0-3 7`)."""
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
    """Assigns to each job, at its start, the free processors with the lowest numbers; returns the members of `_Intervals`.

    starts: indices of the jobs in order of their starts
    ends: indices of the jobs with a duration above 0 in order of their ends; a job that ends at the instant at which another starts
        releases its processors first
    start, end, count: start, end and number of processors of each job

    Free processors are disjoint, not adjacent intervals in descending order, so that the lowest is the last; the highest has no
    upper bound. The function uses arrays only, so that it also runs compiled by numba.
    """
    first, after = np.zeros(len(count), np.int64), np.zeros(len(count), np.int64)
    low, high = np.empty(1024, np.int64), np.empty(1024, np.int64)
    free_low, free_high = np.empty(1024, np.int64), np.empty(1024, np.int64)
    free_low[0], free_high[0] = 0, 1 << 62
    last = used = done = 0
    for job in starts:
        while done < len(ends) and end[ends[done]] <= start[job]:
            for i in range(first[ends[done]], after[ends[done]]):
                # Binary search for the next lower free interval in free_low[1 : last + 1], which is in descending order.
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
                place -= 1  # a job without duration: its processors stay free
            elif low[used - 1] + taken > free_high[place]:
                place -= 1
                last -= 1
            else:
                free_low[place] += taken
        after[job] = used
    return first, after, low[:used], high[:used]
