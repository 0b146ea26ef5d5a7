"""What the aspects have in the records of a run: their modules `records`.

`collect`: function from `Sources` to an `OfRun`, or None for a run without the aspect. Raises WrongUse.
`read_tables`: function that reads those of its tables that metrics need, by the names of their files, from the folder of a run. Its
second argument is the parameter that named the run, for messages. Raises WrongUse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from mirage import aspects
from mirage.records.run_folder import RunFolder
from mirage.records.time_map import TimeMap


@dataclass(frozen=True)
class Sources:
    """The records of a run that an aspect may read beside its own files.

    log: result of `read_completions`, whose instants are `ahead` ns ahead of UTC
    plan: columns of the plan and of the workload; submitted: those of its jobs that were submitted, with slurm_id
    pauses: suspensions in sigsleep's record: id, slurm_id, v_suspend, v_resume
    since: virtual ns before which the records of an instance are those of earlier runs
    """

    run: RunFolder
    log: pl.DataFrame
    ahead: int
    time: TimeMap
    plan: pl.DataFrame
    submitted: pl.DataFrame
    pauses: pl.DataFrame
    since: int


class OfRun:
    """What an aspect has of one run. An aspect overrides what it has; the methods here add nothing."""

    changes_sizes = False
    """Whether jobs of the workload may change their number of nodes while they run."""

    def beside(self) -> pl.DataFrame | None:
        """Executions of jobs beside the workload's that take the nodes which these leave idle: start, end."""
        return None

    def is_own(self) -> pl.Expr:
        """Whether the jobs of a table, by its column `name`, are jobs beside the workload's that the aspect submitted."""
        return pl.lit(False)

    def surpluses(self, joined: pl.DataFrame) -> pl.DataFrame | None:
        """By how many virtual ns jobs ran longer than they had to: id, surplus. joined: the records of each job"""
        return None

    def allocations(self, joined: pl.DataFrame) -> pl.DataFrame | None:
        """Changes of size in columns of `ALLOCATIONS_SCHEMA`. joined: the records of each job, with its start and end"""
        return None

    def vacated(self, jobs: pl.DataFrame) -> pl.DataFrame | None:
        """When jobs beside the workload's left a job's nodes for it: id, vacated (trace s). jobs: id, slurm_id, start, end"""
        return None

    def tables(self, allocations: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """The tables that are written beside jobs.csv, by the names of their files. allocations: changes of size of all jobs"""
        return {}


def collect(sources: Sources) -> tuple[OfRun, ...]:
    """What the aspects that the run has have of it. Raises WrongUse."""
    collected = [of_run(sources) for of_run in aspects.offers("records", "collect")]
    return tuple(of_run for of_run in collected if of_run is not None)


def tables(of_runs: Iterable[OfRun], allocations: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The tables of all aspects that a run has, by the names of their files. allocations: changes of size of all jobs"""
    return {name: table for of_run in of_runs for name, table in of_run.tables(allocations).items()}


def read_tables(run: RunFolder, parameter: str) -> dict[str, pl.DataFrame]:
    """The tables of all aspects in a run's folder that metrics need, by the names of their files. Raises WrongUse."""
    return aspects.merged("records", "read_tables", run, parameter)
