"""A comparison whose arms are models of what a record does not say, beside that record: schedules of the same jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from mirage.campaign.campaign import Campaign
from mirage.commands.simulate import jobs_of, played
from mirage.records.recorded import schedule_of
from mirage.records.run_folder import RunFolder
from mirage.records.schedule import of_run
from mirage.statistics import nearness
from mirage.text.words import number
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_atomically
from studies import unknowns
from studies.unknowns import Model

SIMULATED = {"easy": "EASY, simulated", "fcfs": "FIFO, simulated"}
"""Policies of the simulations beside the runs, and their names."""


def in_seconds(value: float) -> str:
    """A time as text in whole seconds: 6,108 s."""
    return f"{number(round(value))} s"


@dataclass(frozen=True)
class Schedule:
    """One schedule of the jobs of a window. near: of `nearness.nearness`; idle: of `unknowns.idle_while_waiting`; folder: of the
    run, None for a simulation; easy: mean wait of EASY's simulation with the model's jobs, None for a simulation."""

    name: str
    near: Mapping[str, Any]
    idle: float | None
    folder: RunFolder | None = None
    easy: float | None = None


@dataclass(frozen=True)
class Played:
    """A window of a record whose runs are finished.

    window: its name; words: what it is; published: mean wait of its jobs in a published schedule of others
    idle: of the record, as in `Schedule`; peak: the most processors that the record had in use
    models: the runs by the names of their models, the one that others are compared with first; simulated: by policy
    processors: that the jobs can have; comparison: name of the folder
    """

    window: str
    words: str
    published: float | None
    idle: float | None
    peak: int
    models: Mapping[str, Schedule]
    simulated: Mapping[str, Schedule]
    processors: int
    comparison: str

    @property
    def base(self) -> Schedule:
        """The first model's run."""
        return next(iter(self.models.values()))

    def interval(self, wait: str = "wait_mean") -> tuple[float, float]:
        """The lowest and the highest wait of a kind over the models."""
        values = [schedule.near["waits"][wait]["run"] for schedule in self.models.values()]
        return min(values), max(values)

    def in_words(self) -> str:
        """The mean waits."""
        low, high = self.interval()
        recorded = self.base.near["waits"]["wait_mean"]["record"]
        return f"{self.window}: recorded {in_seconds(recorded)}, emulated {number(round(low))} to {in_seconds(high)}"


def span_of(campaign: Campaign) -> tuple[float, float]:
    """First and last submission of a campaign's jobs, in seconds of the trace."""
    submits = next(iter(campaign.prepared.values())).workload.jobs["submit"]
    return float(submits.min() or 0.0), float(submits.max() or 0.0)  # type: ignore[arg-type]


def played_of(
    campaign: Campaign,
    processors: int,
    cpus: int,
    window: str,
    words: str,
    published: float | None = None,
    fewer: Mapping[str, int] | None = None,
) -> Played:
    """The schedules of a window: those of the campaign's finished runs, and simulated ones of the same jobs.

    processors: that the jobs can have; cpus: of a node; fewer: processors of models that have not all of them
    others as in `Played`
    """
    base = next(iter(campaign.prepared.values()))
    if base.recorded is None:
        raise WrongUse("the log does not record how long these jobs waited", parameter="trace")
    of_record, (begin, end) = schedule_of(base.recorded), span_of(campaign)

    def schedule(name: str, jobs: pl.DataFrame, folder: RunFolder | None = None, easy: float | None = None) -> Schedule:
        near = nearness.nearness(jobs, of_record, processors=processors)
        if near is None:
            raise WrongUse(f"no job started both in the record and in {name}", parameter="trace")
        return Schedule(name, near, unknowns.idle_while_waiting(jobs, processors, cpus, begin, end), folder, easy)

    def simulated(name: str, policy: str) -> Schedule:
        machine = (fewer or {}).get(name, processors)
        workload = campaign.prepared[name].workload if name in campaign.prepared else base.workload
        return schedule(policy, jobs_of(played(workload, machine, policy, by_limits=True)))

    models = {}
    for part in campaign.parts:
        label, run = part.member.label, RunFolder(part.folder)
        if part.member.replica == 1:
            easy = simulated(label, "easy").near["waits"]["wait_mean"]["run"]
            models[label] = schedule(label, of_run(run).jobs, run, easy)
    start = pl.col("submit") + pl.col("wait")
    # Of the whole record, in the same seconds as the campaign's jobs.
    record = campaign.source.trace.frame
    whole = record.filter(pl.col("wait") >= 0).select(
        "submit", start=start, end=start + pl.col("run_time"), processors="allocated_processors"
    )
    idle, peak = unknowns.idle_while_waiting(whole, processors, cpus, begin, end), unknowns.peak(record, begin, end)
    of_policies = {policy: simulated("", policy) for policy in SIMULATED}
    return Played(window, words, published, idle, peak, models, of_policies, processors, campaign.folder.name)


def write(folder: Path, about: str, found: Sequence[Played], models: Mapping[str, Model]) -> None:
    """Write study.csv and study.html over finished windows. about: what was played, a sentence"""
    from studies.record_page import page, rows

    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "study.csv", rows(found, models).write_csv())
    write_atomically(folder / "study.html", page(folder.name, about, found, models))
