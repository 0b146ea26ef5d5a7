"""Results of the study's runs with filler jobs, in the columns of its simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from mirage.records.run_folder import RunFolder
from mirage_extras.filler.studies.simulation import SCHEMA, SEED_IDLE, VALUES, Point


@dataclass(frozen=True)
class StudyRun:
    """A finished run. point: its fillers; None: without."""

    point: Point | None
    replica: int
    folder: RunFolder

    def metrics(self) -> dict[str, Any]:
        """Content of metrics.json."""
        return self.folder.measured


def rows(runs: Sequence[StudyRun], workload: str, accuracy: str) -> pl.DataFrame:
    """A row for each run with fillers, against that of its replica without: `SCHEMA`.

    workload, accuracy: values of these columns. delayed and delay are null: no record has them.
    """
    without = {run.replica: run.metrics()["metrics"] for run in runs if run.point is None}
    found = []
    for run in runs:
        if run.point is None or run.replica not in without:
            continue
        point, content = run.point, run.metrics()
        found_of, before = content["metrics"], without[run.replica]
        idle, bound = 1 - before["utilisation"], (1 - point.t) * point.c
        days = found_of["makespan"] / 86400
        values = {
            "idle": idle,
            "main": found_of["utilisation"],
            "filler": found_of["filler_load"],
            "gain": found_of["filler_useful"],
            "net": found_of["filler_useful"] + found_of["utilisation"] - before["utilisation"],
            "bound": idle * bound,
            "seed_bound": SEED_IDLE * bound,
            "lost": found_of["filler_lost"],
            "overhead": found_of["filler_overhead"],
            "preemptions": found_of["filler_preemptions"] / days,
            "wait": found_of["wait_mean"] - before["wait_mean"],
        }
        keys = (workload, accuracy, point.variant, point.slot, point.t, point.c, run.replica)
        found.append((*keys, *(values.get(name) for name in VALUES)))
    return pl.DataFrame(found, schema=SCHEMA, orient="row")
