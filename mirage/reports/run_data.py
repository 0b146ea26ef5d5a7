"""Reads the data of a run's report from the files in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from mirage.metrics import metrics as definitions
from mirage.metrics.formulas import Settings
from mirage.metrics.measured_jobs import Population, Window
from mirage.metrics.registry import job_value
from mirage.metrics.usage_over_time import profile
from mirage.occupancy.machine import Machine
from mirage.records.agreement import within
from mirage.records.file_names import EXPERIMENT_FILE, JOBS_FILE, METRICS_FILE, WORKLOAD_FILE
from mirage.records.recorded import schedule_of
from mirage.records.run_folder import RunFolder
from mirage.records.schedule import Schedule, of_run
from mirage.reports.timeline import Steps
from mirage.statistics.nearness import pairs_of
from mirage.verdict.features import unused_rows
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock.clock import Clock
from slurm_mirage.rm.evidence import Layout

# Names of the two schedules in reports.
EMULATION, LOG = "emulation", "log"


@dataclass(frozen=True)
class Run:
    """A finished run.

    experiment, status, metrics: content of experiment.json, status.json and metrics.json
    schedule: jobs.csv and the tables beside it
    recorded: the log's record of the same jobs (columns of RECORDED_SCHEMA), or a sentence that says why there is none
    """

    folder: RunFolder
    experiment: Mapping[str, Any]
    status: Mapping[str, Any]
    metrics: Mapping[str, Any]
    schedule: Schedule
    recorded: pl.DataFrame | str

    @classmethod
    def of(cls, folder: RunFolder) -> Run:
        """Reads a run from its folder. Raises WrongUse if the folder has no finished run."""
        experiment, metrics = folder.experiment, folder.metrics
        if not metrics or "inputs" not in experiment or not folder.has(JOBS_FILE):
            lacks = [name for name in (EXPERIMENT_FILE, METRICS_FILE, JOBS_FILE) if not folder.has(name)]
            raise WrongUse(
                f"{folder.name} is not a finished run ({', '.join(lacks) or EXPERIMENT_FILE} is not there)", parameter="run"
            )
        return cls(folder, experiment, folder.status, metrics, of_run(folder), _recorded(folder))

    @property
    def name(self) -> str:
        return str(self.experiment.get("run") or self.folder.name)

    @property
    def knobs(self) -> Mapping[str, str]:
        """The knobs of this run. In a run of a sweep, `knobs` has all factors, and `inputs` the factor of the run."""
        return {**(self.experiment.get("knobs") or {}), **self.experiment["inputs"]}

    @property
    def is_generated(self) -> bool:
        """Whether its jobs are generated, not from a log."""
        return (self.experiment.get("trace") or {}).get("path") is None

    @cached_property
    def unused(self) -> frozenset[str]:
        """Rows that its pages leave out, see `features.unused_rows`."""
        return unused_rows(self.metrics, self.experiment)

    @property
    def values(self) -> Mapping[str, float | None]:
        """Values of the metrics by name."""
        values: Mapping[str, float | None] = self.metrics["metrics"]
        return values

    @property
    def processors(self) -> int:
        return int(self.metrics["settings"]["processors"])

    @property
    def nodes(self) -> int:
        return int(self.metrics["settings"]["nodes"] or self.schedule.nodes or 1)

    @cached_property
    def machine(self) -> Machine:
        """The nodes of the run's configuration; without one nodes of equal size."""
        layout = self.folder.layout
        return Machine(layout if layout and layout.nodes else Layout.of_equal(self.processors, self.nodes))

    @cached_property
    def population(self) -> Population:
        """The measured jobs, without a warm-up or cool-down cut."""
        schedule = self.schedule
        machine = (self.processors, self.nodes)
        tables = {name: getattr(schedule, name) for name in ("suspensions", "allocations", "executions")}
        return Population.of(schedule.jobs, *machine, 0.0, 0.0, **tables)

    @cached_property
    def inside(self) -> pl.DataFrame:
        """`Population.inside` with the cuts of metrics.json."""
        settings = self.metrics["settings"]
        if not (settings["warmup_cut"] or settings["cooldown_cut"]):
            return self.population.inside
        machine = (self.processors, self.nodes)
        return Population.of(self.schedule.jobs, *machine, settings["warmup_cut"], settings["cooldown_cut"]).inside

    @cached_property
    def window(self) -> Window | None:
        """The time from the first submission to the last end; None without one."""
        return self.population.window

    @cached_property
    def pairs(self) -> pl.DataFrame:
        """Waits of the same jobs in the emulation and in the log, see `nearness.pairs_of`; no rows if the log has none."""
        record = self.schedule.jobs.head(0) if self.log_schedule is None else self.log_schedule
        return pairs_of(within(self.schedule.jobs, self.metrics), record)

    @property
    def nearness(self) -> Mapping[str, Any] | None:
        """Member `nearness` of metrics.json; None if no wait is known in the run and in the log, or `recorded` is none."""
        return None if isinstance(self.recorded, str) else self.metrics.get("nearness")

    @cached_property
    def log_schedule(self) -> pl.DataFrame | None:
        """The log's schedule of the same jobs as a jobs frame; None if unknown."""
        return None if isinstance(self.recorded, str) else schedule_of(self.recorded)

    @cached_property
    def log_metrics(self) -> Mapping[str, float | None]:
        """Metrics of the log's schedule of these jobs on a machine of the emulated size; empty if unknown."""
        if self.log_schedule is None:
            return {}
        settings = self.metrics["settings"]
        names = ("tau", "w2_reading", "immediate_below", "warmup_cut", "cooldown_cut")
        try:
            measured = definitions.compute(
                self.log_schedule, self.processors, self.nodes, **{name: settings[name] for name in names}
            )
        except WrongUse:  # the cuts leave nothing of the log's schedule
            return {}
        values: Mapping[str, float | None] = measured["metrics"]
        return values

    @cached_property
    def log_population(self) -> Population | None:
        """The measured jobs of the log's schedule; None if it is unknown."""
        return None if self.log_schedule is None else Population.of(self.log_schedule, self.processors, self.nodes, 0.0, 0.0)

    def log_immediate(self, below: float) -> float | None:
        """Share of these jobs that waited less than `below` seconds in the log; None if unknown."""
        if self.log_population is None or self.log_population.inside.is_empty():
            return None
        settings = replace(Settings.of(self.metrics["settings"]), immediate_below=below)
        return float(self.log_population.inside.select(job_value("immediate_fraction", settings).mean()).item())

    def levels(self) -> tuple[Steps, Steps]:
        """Processors in use, and processors requested by waiting jobs, over time."""
        return levels_of(self.population, self.schedule.suspensions)

    def log_levels(self) -> tuple[Steps, Steps] | None:
        """Processors in use, and requested by waiting jobs, over time in the log's schedule of these jobs; None if unknown."""
        return None if self.log_population is None or self.log_population.window is None else levels_of(self.log_population, None)

    def timed(self, samples: pl.DataFrame) -> pl.DataFrame:
        """Samples of the run with an additional column `time` in trace seconds; empty if the clock's start is unknown."""
        began = (self.experiment.get("clock") or {}).get("began")
        if samples.is_empty() or began is None:
            return pl.DataFrame({"time": []}, schema={"time": pl.Float64})
        clock = Clock(shrink=float(self.experiment["inputs"]["SHRINK"]))
        time = self._first_submission() + (pl.col("virtual") - began["virtual"]) * clock.virtual_to_trace(1.0)
        return samples.with_columns(time=time).drop_nulls("time").sort("time").unique("time", keep="last", maintain_order=True)

    def _first_submission(self) -> float:
        """Trace time of the first submission, which is the begin of the replay."""
        first = self.folder.workload["submit"].min() if self.folder.has(WORKLOAD_FILE) else None
        window = self.window
        begin = first if isinstance(first, (int, float)) else None if window is None else window.begin
        return float(begin or 0.0)


def levels_of(population: Population, suspensions: pl.DataFrame | None) -> tuple[Steps, Steps]:
    """Processors in use, and processors requested by waiting jobs, from the first submission to the last end (trace seconds)."""
    window = population.window
    if window is None or window.length <= 0:
        empty = Steps("", np.zeros(1), np.zeros(0))
        return empty, empty
    levels = profile(population, window, suspensions, with_nodes=False)
    times = window.begin + np.concatenate([[0.0], np.cumsum(levels["dt"].to_numpy())])
    return (
        Steps("", times, levels["busy"].to_numpy().astype(np.float64)),
        Steps("", times, levels["waiting"].to_numpy().astype(np.float64)),
    )


def _recorded(run: RunFolder) -> pl.DataFrame | str:
    """The content of recorded.csv, or a sentence that says why there is none."""
    source, knobs = run.experiment.get("trace") or {}, run.experiment["inputs"]
    if source.get("path") is None:
        return "The jobs are generated, so that there is no log to compare with."
    if knobs.get("SUBMISSION"):
        return "Jobs were submitted at other times than in the log (SUBMISSION), so that waits cannot be compared."
    recorded = run.recorded
    return "The log does not record how long these jobs waited." if recorded is None else recorded
