"""The speed of Slurm's clock, from its record and from clocks that do not depend on it."""

from __future__ import annotations

import polars as pl
from polars import col

from mirage.records.record import RunRecord
from mirage.verdict.thresholds import Thresholds

MOST_UNCERTAIN = 0.05
"""Relative uncertainty above which the speed counts as not measured."""


def _pairs(record: RunRecord) -> pl.DataFrame:
    """Instants by another clock and by Slurm's: own, slurm; trace seconds.

    They are the acceptances, which the replay's journal has in real time; or, if these are too close together and the ends of jobs
    are not, these ends, which sigsleep has by the clock file.
    """
    table = record.jobs.select("id", accepted=col("submit") + col("submit_lag")).join(
        record.evidence, on="id", maintain_order="left"
    )
    submissions = table.select(own="accepted", slurm="slurm_submit").drop_nulls()
    ends = table.select(own="own_end", slurm="slurm_end").drop_nulls()
    is_enough = _uncertainty(submissions, record) <= MOST_UNCERTAIN
    return submissions if is_enough or _span(ends) <= _span(submissions) else ends


def _span(pairs: pl.DataFrame) -> float:
    return float(pairs.select(col("own").max() - col("own").min()).item() or 0.0)


def _uncertainty(pairs: pl.DataFrame, record: RunRecord) -> float:
    """Relative uncertainty of the speed: Slurm's instants have an error of up to 1 s at both ends."""
    span = _span(pairs)
    return 2 * record.time.second / span if span else float("inf")


def measured(record: RunRecord) -> float | None:
    """The slope of Slurm's instants over those of the other clock, times SPEED; None without two different instants.

    The slope over all jobs is used because each instant of Slurm has an error of up to a second.
    """
    pairs = _pairs(record)
    if not _span(pairs):
        return None
    slope = pairs.select(pl.cov("own", "slurm") / col("own").var()).item()
    return round(float(slope) * record.time.clock.speed, 6)


def judged(record: RunRecord, speed: float | None, thresholds: Thresholds) -> tuple[list[str], list[str]]:
    """Reasons why the run is invalid, and why it is inconclusive, from the result of `measured`.

    At SPEED=1 Slurm uses the host's own clock, whose speed is not in doubt. On the event clock the other clock is that of
    the replay, which has to be the same.
    """
    requested, pairs = record.time.clock.speed, _pairs(record)
    uncertain, manager = _uncertainty(pairs, record), record.names.manager
    allowed = max(thresholds.clock_speed_share, min(uncertain, MOST_UNCERTAIN))
    if speed is not None and uncertain <= MOST_UNCERTAIN and abs(speed / requested - 1) > allowed:
        other = "the replay's" if record.event_clock.is_used else "real time"
        return [f"{manager}'s clock ran {speed:.4g} times as fast as {other}, not {requested:g} times (to {allowed:.2%})"], []
    if requested != 1 and uncertain > MOST_UNCERTAIN:
        least = 2 * record.time.second / MOST_UNCERTAIN
        why = f"submissions and ends of jobs are within {_span(pairs):.3g} trace s, less than {least:.3g} s"
        return [], [f"the speed of {manager}'s clock could not be measured: {why}: take more jobs, or longer ones"]
    return [], []
