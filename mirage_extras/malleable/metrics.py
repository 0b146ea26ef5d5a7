"""Metrics of jobs that change their size while they run."""

from __future__ import annotations

import numpy as np

from mirage.metrics.formulas import OfSchedule, Value
from mirage.metrics.metric import FEWER, Metric
from mirage.metrics.usage_over_time import MeasuredSchedule, seconds_within


def useful_utilisation(schedule: MeasuredSchedule) -> Value:
    """Share of the machine's processors that work would have used over the window if no job had changed its size.

    A job that completed counts in it with its processors at the start x the time that it would have run with them, in proportion to
    what lies in the window; any other job, and one of which that is not known, with the processors that it had.
    """
    used, resized = schedule.used, schedule.population.resized
    if isinstance(used, str):
        return used
    useful = used[0] - used[1]
    if resized is not None:
        held = resized.holdings.join(resized.jobs.drop_nulls("work"), on="id", maintain_order="left")
        if held.is_empty():
            return useful / schedule.capacity
        # One after the other: see MeasuredSchedule.long_by_nodes.
        job, processors = held["id"].rle_id().to_numpy(), held["p"].to_numpy()
        area = np.bincount(job, weights=(held["end"] - held["begin"]).to_numpy() * processors)
        inside = np.bincount(job, weights=held.select(seconds_within(schedule.window)).to_series().to_numpy() * processors)
        work = held.unique("id", keep="first", maintain_order=True)["work"].to_numpy()
        useful += float(((work / area - 1) * inside).sum())
    return useful / schedule.capacity


def resizes_mean(schedule: MeasuredSchedule) -> Value:
    """Changes of size of a job, mean."""
    inside, resized = schedule.population.inside, schedule.population.resized
    if resized is None or inside.is_empty():
        return 0.0
    return int(inside.join(resized.jobs, on="id", how="semi").join(resized.jobs, on="id")["changes"].sum()) / inside.height


METRICS: tuple[Metric, ...] = (
    Metric(
        "useful_utilisation",
        "",
        "the same by work done: as if no job had changed its size",
        "goodput with p x (run time wanted with p processors) in place of m t for completed jobs that changed their size",
        "",
        OfSchedule(useful_utilisation),
        better="higher",
        noun="utilisation by useful work",
        error_like="utilisation",
        explained="work done, each job's in processors and run time of its submission, over all that the machine had",
        is_share=True,
        main_if="resizes_mean",
    ),
    Metric(
        "resizes_mean",
        "",
        "changes of size of a job",
        "mean number of times that a job changed its size while it ran",
        "",
        OfSchedule(resizes_mean),
        better="neither",
        noun="changes of size of a job",
        comparative=FEWER,
        main_if="resizes_mean",
    ),
)
