"""Metrics over the measured jobs of a schedule: means and order statistics."""

from __future__ import annotations

from typing import Any

import polars as pl

NO_W = "no job ran for more than 1 s"
NO_INSTANTS = "jobs were suspended, and it is not recorded when"
_NO_RUNTIME = "no job has a run time above 0"
_POWERS = [10.0**power for power in range(16)]

Values = dict[str, Any]
"""Metrics by name: the value, or as text the reason why there is none."""


def over_jobs(
    jobs: pl.DataFrame, suspensions: pl.DataFrame | None, tau: float, immediate_below: float, w2_reading: str
) -> tuple[Values, dict[str, int]]:
    """All metrics but those over time, of one job at least, and how many are left out of some of them, by reason.

    jobs: columns of `Population.inside`; the rest as for `metrics.compute`.
    """
    means, narrower = _means(jobs, tau, immediate_below, w2_reading)
    return means | _waits(jobs) | _suspensions(jobs, suspensions), narrower


def _means(jobs: pl.DataFrame, tau: float, immediate_below: float, w2_reading: str) -> tuple[Values, dict[str, int]]:
    """Means over jobs, in one pass, and how many are in none of the slowdowns, or of W1 to W4."""
    a, s, f, t, p = (pl.col(name) for name in "asftp")
    w, r = s - a, f - a
    bound = pl.max_horizontal(t, pl.lit(tau))
    ran, ran_long = t > 0, t > 1
    order = _order(t) if w2_reading == "magnitude" else t.log()
    means = {
        "response_mean": r.mean(),
        "bounded_slowdown_mean": (r / bound).clip(1).mean(),
        "pp_bounded_slowdown_mean": (r / (p * bound)).clip(1).mean(),
        "immediate_fraction": (w < immediate_below).mean(),
    }
    slowdowns = {
        "slowdown_mean": pl.when(ran).then(r / t).mean(),
        # Weighted by p*t, in which t cancels out, and by p.
        "weighted_slowdown": pl.when(ran).then(p * r).sum() / pl.when(ran).then(p * t).sum(),
        "weighted_slowdown_processors": pl.when(ran).then(p * r / t).sum() / pl.when(ran).then(p).sum(),
    }
    indices = {"W1": pl.when(ran_long).then(w / t).mean(), "W2": pl.when(ran_long).then(w / order).mean()}
    counts = {"ran": ran.sum(), "ran_long": ran_long.sum()}
    values = jobs.lazy().select(**means, **slowdowns, **indices, **counts).collect().row(0, named=True)
    nobody_ran, nobody_long = jobs.height - values.pop("ran"), jobs.height - values.pop("ran_long")
    if nobody_ran == jobs.height:
        values |= dict.fromkeys(slowdowns, _NO_RUNTIME)
    if nobody_long == jobs.height:
        values |= dict.fromkeys(indices, NO_W)
    return values, {
        "run time of 0: not in the slowdowns": nobody_ran,
        "run time up to 1 s: not in W1 to W4": nobody_long,
    }


def _order(runtime: pl.Expr) -> pl.Expr:
    """10^floor(log10 t), by comparison, because log10(1000) comes out below 3."""
    place = pl.lit(pl.Series(_POWERS)).search_sorted(runtime, side="right").cast(pl.Int64) - 1
    return pl.lit(pl.Series(_POWERS)).gather(place.clip(0))


def _waits(jobs: pl.DataFrame) -> Values:
    """Mean and order statistics of waits, for which they are sorted once."""
    waits = jobs.select(pl.col("s") - pl.col("a")).to_series().sort()
    mean = waits.mean()
    percentiles = {f"wait_p{percent}": waits.quantile(percent / 100, "linear") for percent in (90, 95, 99)}
    return {"wait_mean": mean, "wait_median": waits.median(), **percentiles, "wait_max": waits.max(), "W": mean}


def _suspensions(jobs: pl.DataFrame, suspensions: pl.DataFrame | None) -> Values:
    """How often and how long jobs were suspended."""
    suspended = pl.col("suspended")
    if jobs["suspended"].null_count() == jobs.height:
        names = ("suspensions_mean", "suspended_mean", "suspended_fraction")
        return dict.fromkeys(names, "the schedule does not record suspensions")
    values = jobs.select(suspended_mean=suspended.mean(), suspended_fraction=(suspended > 0).mean()).row(0, named=True)
    if suspensions is not None:
        of_these = suspensions.join(jobs, left_on="job", right_on="id", how="semi")
        return {**values, "suspensions_mean": of_these.height / jobs.height}
    never = values["suspended_fraction"] == 0
    return {**values, "suspensions_mean": 0.0 if never else NO_INSTANTS}
