"""Makes an SWF frame from a model's draws: order, numbers, users, requested times, offered load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mirage.traces import swf
from mirage.workloads.models.thesis import ROUND_MINUTES
from slurm_mirage.base.errors import WrongUse

Floats = NDArray[np.float64]
Wholes = NDArray[np.int64]


@dataclass(frozen=True)
class Draft:
    """The jobs that a model has drawn, in any order; arrays with one element per job.

    submit: seconds since the log's beginning; sizes: processors; runs: whole seconds, 1 or more; requested:
    seconds, None where the model knows none; repeats: index of the job that this one repeats (same user),
    -1 for none, None where nothing repeats; executables: number of the application, None where the model has none.
    """

    submit: Floats
    sizes: Wholes
    runs: Wholes
    requested: Wholes | None = None
    repeats: Wholes | None = None
    executables: Wholes | None = None


@dataclass(frozen=True)
class Model:
    """A workload model's program and its entries in the header of a log.

    draw: function of a random number generator, the number of jobs and the machine's processors
    unix_start: date (UTC) of second 0, a midnight, so that hours of the day are those of the model
    step: submissions are multiples of it, in seconds
    """

    draw: Callable[[np.random.Generator, int, int], Draft]
    computer: str
    parameters: str
    unix_start: int
    step: int = 1


def uniform_submissions(rng: np.random.Generator, jobs: int, span: float) -> Floats:
    """Seconds, uniform over `span`: a Poisson process with a given number of arrivals."""
    return rng.random(jobs) * span


def rounded_requests(rng: np.random.Generator, runs: Wholes) -> Wholes:
    """Requested times in seconds: one to five times the run time, rounded up to a round value.

    This is an assumption. Above the longest round value (5 days) it is the run time, rounded up to whole hours.
    """
    minutes = runs * (1 + 4 * rng.random(len(runs))) / 60
    values = np.asarray(ROUND_MINUTES, dtype=np.int64)
    asked = 60 * values[np.minimum(np.searchsorted(values, minutes), len(values) - 1)]
    requested: Wholes = np.maximum(asked, -(-runs // 3600) * 3600 * (runs > asked))
    return requested


def pick(rng: np.random.Generator, weights: Floats, count: int) -> Wholes:
    """`count` indices, each drawn in proportion to its weight."""
    bounds = np.cumsum(weights)
    # By rounding, the product can reach the last bound.
    indices: Wholes = np.searchsorted(bounds, rng.random(count) * bounds[-1], side="right").clip(0, len(weights) - 1)
    return indices


def users(rng: np.random.Generator, jobs: int) -> Wholes:
    """A user for each job, numbered from 1 by popularity: the k-th user's share is proportional to 1/k (Zipf).

    Their number grows with the square root of the jobs: 1.3 of it, as in logs of the Parallel Workloads
    Archive (KTH-SP2: 28,489 jobs, 214 users; CTC-SP2: 79,302 jobs, 679 users).
    """
    count = max(1, round(1.3 * jobs**0.5))
    return 1 + pick(rng, 1.0 / np.arange(1, count + 1), jobs)


def to_frame(draft: Draft, rng: np.random.Generator, processors: int, load: float | None, step: int) -> pl.DataFrame:
    """The SWF frame, sorted by submission; waits unknown."""
    submit = draft.submit if load is None else draft.submit * _stretch(draft, processors, load)
    submit = np.floor(submit / step) * step
    order = np.argsort(submit, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    user = users(rng, len(order))
    columns: dict[str, NDArray[np.generic]] = {
        "job_number": np.arange(1, len(order) + 1),
        "submit": submit[order],
        "run_time": draft.runs[order],
        "allocated_processors": draft.sizes[order],
        "requested_processors": draft.sizes[order],
    }
    if draft.requested is not None:
        columns["requested_time"] = draft.requested[order]
    if draft.executables is not None:
        columns["executable"] = draft.executables[order]
    if draft.repeats is not None:
        first = draft.repeats < 0
        # A series has the user of its first job, which stands before its repetitions.
        user = user[np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))]
        columns["preceding_job"] = np.where(first, -1, place[draft.repeats] + 1)[order]
    columns["user"] = user[order]
    columns["status"] = np.ones(len(order), dtype=np.int64)
    unknown = pl.lit(-1)
    return pl.DataFrame(columns).select(
        (pl.col(name) if name in columns else unknown).cast(dtype).alias(name) for name, dtype in swf.SCHEMA.items()
    )


def _stretch(draft: Draft, processors: int, load: float) -> float:
    """Factor for all times of submission, to reach the offered load."""
    span = float(np.ptp(draft.submit))
    if span <= 0:
        raise WrongUse("jobs that are all submitted at once offer no load; generate more JOBS", parameter="load")
    area = float(np.dot(draft.sizes.astype(np.float64), draft.runs.astype(np.float64)))
    return area / (processors * span * load)
