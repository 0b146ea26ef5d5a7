"""Replaces the requested times of a log or a model by modelled user estimates. See docs/models.md."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from mirage.workloads.models import tsafrir
from mirage.workloads.models.draft import Floats
from slurm_mirage.base.errors import WrongUse

DAY = 86400.0
# The round values of Polyakov and Dubenskaya (GRID 2018), in seconds: minutes, hours, days.
ROUND_VALUES = np.array(
    [60.0 * minutes for minutes in (1, 2, 5, 10, 20, 30)]
    + [3600.0 * hours for hours in (1, 2, 3, 6, 8, 12)]
    + [DAY * days for days in (1, 1.5, 2, 3, 5, 7, 10, 15)]
)
# Above the longest value: multiples of the distance of the last two (our choice).
BEYOND = 5 * DAY

_ACCURACY = re.compile(r"(0|1|0?\.\d+|0\.0*|1\.0*)")


def replace(frame: pl.DataFrame, how: str, seed: int) -> pl.DataFrame:
    """The SWF frame with other requested times; seconds. The same seed gives the same ones.

    how: "keep" (as they are), "exact" (the run time), "tsafrir" (Tsafrir, Etsion, Feitelson 2005; see
    tsafrir.py), or a number p from 0 to 1: the accuracy p of Polyakov and Dubenskaya. A requested time is
    never below the run time, and at least 1 s, since 0 means unknown. Jobs of unknown run time keep their
    requested time. Raises WrongUse for any other value.
    """
    if how == "keep":
        return frame
    known = frame["run_time"].to_numpy() >= 0
    runs = frame["run_time"].to_numpy()[known]
    rng = np.random.Generator(np.random.PCG64(seed))
    if how == "exact":
        asked = runs
    elif how == "tsafrir":
        asked = tsafrir.estimates(rng, runs)
    elif _ACCURACY.fullmatch(how):
        asked = of_accuracy(rng, runs, float(how))
    else:
        raise WrongUse(f"{how!r} may be keep, exact, tsafrir, or an accuracy from 0 to 1", parameter="estimates")
    requested = frame["requested_time"].to_numpy().copy()
    requested[known] = np.maximum(asked, 1.0)
    return frame.with_columns(requested_time=pl.Series(requested))


def of_accuracy(rng: np.random.Generator, runs: Floats, p: float) -> Floats:
    """The run time with probability p, the next round value with p (1 - p), the one after that with (1 - p)^2."""
    first = rng.random(len(runs)) < p
    second = rng.random(len(runs)) < p
    return np.where(first, runs, np.where(second, _rounded_up(runs, 0), _rounded_up(runs, 1)))


def _rounded_up(runs: Floats, further: int) -> Floats:
    """The first round value that is not below the run time, or the one that is `further` places after it."""
    place = np.searchsorted(ROUND_VALUES, runs) + further
    last = len(ROUND_VALUES) - 1
    # Above the last value of the table: number of steps from it.
    steps = np.maximum(np.ceil((runs - ROUND_VALUES[last]) / BEYOND), 0) + np.where(
        runs > ROUND_VALUES[last], further, place - last
    )
    rounded: Floats = np.where(place <= last, ROUND_VALUES[np.minimum(place, last)], ROUND_VALUES[last] + BEYOND * steps)
    return rounded
