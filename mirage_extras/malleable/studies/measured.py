"""Figures of the study from the folders of its runs, with intervals over the replicas."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import polars as pl

from mirage.records.run_folder import RunFolder
from mirage.records.schedule import of_run
from mirage.statistics.intervals import student
from mirage.traces.csv_frame import read_csv
from mirage_extras.malleable.records import RESIZES_FILE, RESIZES_SCHEMA
from mirage_extras.malleable.studies import source
from slurm_mirage.extras.malleable.broker.policy import EXPAND, SHRINK

APPLICATIONS, SLEEP = "applications", "sleep"
"""The two workloads of the study."""


@dataclass(frozen=True)
class StudyRun:
    """A finished run of the study.

    workload: APPLICATIONS or SLEEP; jobs: its number of jobs; arm: label of what is compared
    """

    workload: str
    jobs: int
    arm: str
    replica: int
    folder: RunFolder

    def table(self) -> pl.DataFrame:
        """The jobs that ended: id, submit, start, end, wait, execution, in order of submission."""
        jobs = of_run(self.folder).jobs
        ended = jobs.filter(pl.col("start").is_not_null() & pl.col("end").is_not_null()).sort("submit", "id")
        return ended.select(
            "id", "submit", "start", "end", "processors", "nodes",
            wait=pl.col("start") - pl.col("submit"), execution=pl.col("end") - pl.col("start"),
        )  # fmt: skip

    def changes(self) -> pl.DataFrame | None:
        """Changes of size after the start: job, from, nodes, processors; None if no job changed its size."""
        return of_run(self.folder).allocations

    def resizes(self) -> pl.DataFrame | None:
        """Resizes that were done, aborted or refused; None for a run without malleable jobs."""
        has_any = self.folder.has(RESIZES_FILE)
        return read_csv(self.folder.path / RESIZES_FILE, RESIZES_SCHEMA, "run") if has_any else None

    def metrics(self) -> Mapping[str, Any]:
        """Content of metrics.json."""
        return self.folder.metrics

    def values(self) -> dict[str, float | None]:
        """Utilisation in %, means of wait, execution and completion in s, and the time until the last end in s."""
        table, utilisation = self.table(), self.metrics()["metrics"]["utilisation"]
        wait, execution = (_mean(table[name]) for name in ("wait", "execution"))
        return {
            "utilisation, %": None if utilisation is None else 100 * utilisation,
            "wait, s": wait,
            "execution, s": execution,
            "completion, s": None if wait is None or execution is None else wait + execution,
            "makespan, s": self.metrics()["metrics"]["makespan"],
        }


@dataclass(frozen=True)
class Figure:
    """A figure of the source beside that of the runs.

    values: one of each replica
    """

    table: str
    row: str
    column: str
    values: tuple[float, ...]

    @property
    def source(self) -> float | None:
        """The source's figure; None if it has none."""
        return source.FIGURES.get((self.table, self.row, self.column))

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def half(self) -> float | None:
        """Half of the 95 % interval of the mean over the replicas; None for one."""
        if len(self.values) < 2:
            return None
        return student(len(self.values) - 1) * stdev(self.values) / math.sqrt(len(self.values))

    @property
    def difference(self) -> float | None:
        """Difference to the source in per cent of it; None without one."""
        return 100 * (self.mean / self.source - 1) if self.source else None

    @property
    def remark(self) -> str:
        """Why it differs from the source, or that this is not explained."""
        if self.difference is None:
            return "the source has no such figure"
        known = source.CONTRADICTIONS.get((self.table, self.row, self.column), "")
        if abs(self.difference) <= source.FIT:
            return known or f"within {source.FIT:g} %"
        low, high = source.DRAWS.get((self.table, self.row, self.column), (math.inf, -math.inf))
        if low <= (self.source or 0.0) <= high:
            draw = f"the source's figure is one that another draw of the jobs has (simulated: {low:,.0f} to {high:,.0f})"
            return "; ".join(filter(None, [known, draw]))
        if self.half is not None and abs(self.mean - (self.source or 0.0)) <= self.half:
            return "; ".join(filter(None, [known, "within the interval of the replicas"]))
        reason = source.REASONS.get((self.table, self.column)) or source.REASONS.get((self.table, ""))
        return "; ".join(filter(None, [known, reason or ("" if known else "unexplained")]))


def figures(runs: Sequence[StudyRun]) -> list[Figure]:
    """All figures of tables 2, 3 and 4 that the runs give, and figure 4's time until the last end."""
    return [*_table_2(runs), *_table_3(runs), *_table_4(runs)]


def as_csv(found: Iterable[Figure]) -> str:
    """Content of study.csv."""
    rows = [
        (one.table, one.row, one.column, one.source, one.mean, one.half, len(one.values), one.difference, one.remark)
        for one in found
    ]
    columns = ("table", "row", "figure", "source", "mean", "half_interval", "runs", "difference_percent", "remark")
    text = (pl.String, pl.String, pl.String, pl.Float64, pl.Float64, pl.Float64, pl.Int64, pl.Float64, pl.String)
    return pl.DataFrame(rows, schema=dict(zip(columns, text, strict=True)), orient="row").write_csv(float_precision=4)


def of_arm(runs: Iterable[StudyRun], workload: str, jobs: int, arm: str) -> list[StudyRun]:
    """The replicas of an arm."""
    return [run for run in runs if (run.workload, run.jobs, run.arm) == (workload, jobs, arm)]


def sizes(runs: Iterable[StudyRun], workload: str) -> list[int]:
    """Numbers of jobs of the workload's runs, ascending."""
    return sorted({run.jobs for run in runs if run.workload == workload})


def arms(runs: Iterable[StudyRun], workload: str, jobs: int) -> list[str]:
    """Arms with this number of jobs, in order of the runs."""
    return list(dict.fromkeys(run.arm for run in runs if (run.workload, run.jobs) == (workload, jobs)))


def durations(resizes: pl.DataFrame, kind: str) -> list[float]:
    """Seconds from the question to the end of each action of a kind that was done or aborted."""
    ended = resizes.filter((pl.col("kind") == kind) & pl.col("outcome").is_in(["done", "aborted"]))
    found: list[float] = ended.select(pl.coalesce("done", "decided") - pl.col("asked")).to_series().drop_nulls().to_list()
    return found


def _table_2(runs: Sequence[StudyRun]) -> Iterable[Figure]:
    if not (count := max(sizes(runs, SLEEP), default=0)):
        return
    for mode in (source.SYNC, source.ASYNC):
        replicas = of_arm(runs, SLEEP, count, mode)
        summaries = [run.metrics().get("resizes") or {} for run in replicas]
        nothing = [one for summary in summaries if (one := summary.get("none")) and one["mean"] is not None]
        for column, name in (("mean time, s", "mean"), ("longest, s", "max")):
            if nothing:
                yield Figure("table 2", f"no action, {mode}", column, tuple(one[name] for one in nothing))
    for kind in (EXPAND, SHRINK):
        for mode in (source.SYNC, source.ASYNC):
            tables = [(found, run.jobs) for run in of_arm(runs, SLEEP, count, mode) if (found := run.resizes()) is not None]
            times = [(durations(found, kind), jobs) for found, jobs in tables]
            row = f"{kind}, {mode}"
            if times:
                yield Figure("table 2", row, "number per job", tuple(len(one) / jobs for one, jobs in times))
            if filled := [one for one, _ in times if one]:
                yield Figure("table 2", row, "mean time, s", tuple(map(fmean, filled)))
                yield Figure("table 2", row, "longest, s", tuple(map(max, filled)))


def _table_3(runs: Sequence[StudyRun]) -> Iterable[Figure]:
    """Means over the sizes of the workload, replica by replica, as the source's are over its sizes."""
    counts = sizes(runs, SLEEP)
    values = {(run.jobs, run.arm, run.replica): run.values() for run in runs if run.workload == SLEEP}
    replicas = sorted({run.replica for run in runs if run.workload == SLEEP})
    for mode in (source.FIXED, source.SYNC, source.ASYNC):
        whole = [r for r in replicas if all((n, arm, r) in values for n in counts for arm in (mode, source.FIXED))]
        if not whole or not counts:
            continue
        shares = [_known([values[n, mode, r]["utilisation, %"] for n in counts]) for r in whole]
        yield Figure("table 3", mode, "utilisation, %", tuple(filter(None, shares)))
        for name in ("wait", "execution", "completion") if mode != source.FIXED else ():
            column = f"{name}, s"
            gains = [_known([_gain(values[n, source.FIXED, r][column], values[n, mode, r][column]) for n in counts]) for r in whole]
            if known := tuple(one for one in gains if one is not None):
                yield Figure("table 3", mode, f"gain in {name}, %", known)


def _table_4(runs: Sequence[StudyRun]) -> Iterable[Figure]:
    for jobs in sizes(runs, APPLICATIONS):
        for arm in arms(runs, APPLICATIONS, jobs):
            found = [run.values() for run in of_arm(runs, APPLICATIONS, jobs, arm)]
            for column in (*source.TABLE_4_COLUMNS, "makespan, s"):
                if values := tuple(value for one in found if (value := one[column]) is not None):
                    table = "figure 4" if column == "makespan, s" else "table 4"
                    yield Figure(table, f"{jobs} jobs, {arm}", column, values)


def _known(values: Sequence[float | None]) -> float | None:
    """The mean; None if one is unknown."""
    return None if any(value is None for value in values) else fmean(value for value in values if value is not None)


def _gain(before: float | None, after: float | None) -> float | None:
    """Reduction of a value in per cent."""
    return None if not before or after is None else 100 * (1 - after / before)


def _mean(values: pl.Series) -> float | None:
    return None if values.is_empty() else float(values.mean())  # type: ignore[arg-type]
