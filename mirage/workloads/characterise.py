"""Characterises a workload by tables and figures: sizes, service units, submissions, run times, estimates, load, users.

They include the data of Figures 4.1 and 4.2 and Tables 4.1 and 4.2 of the thesis that this project is based on, for any log.
docs/workloads.md has the definitions. A service unit is one processor second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from mirage.traces.local_time import LocalTime
from mirage.workloads.load_over_time import load_over_time
from mirage.workloads.workload_figures import figures_of, missing_from
from slurm_mirage.base.errors import WrongUse

# Distributions are given at steps of half a per cent.
LEVELS = 200
# Classes of run time over requested time: each a twentieth wide, and one more for 1 and above.
ACCURACY_CLASSES = 20


@dataclass(frozen=True)
class Characterisation:
    """Tables and figures of a workload. Times are seconds of the trace, service units processor seconds.

    figures: the values of workload_figures.FIGURES; None if the log lacks the data
    missing: why a table or figure lacks data, a sentence by name of the table
    left_out: number of jobs that a selection left out, by reason
    begin: first submission; None if no job has one
    local: time zone of hours and dates
    sizes: size, jobs, service; a row per size
    classes: lowest, highest (sizes), jobs, service; each class ends with a power of two; empty classes have a row, too
    hours: hour (0 to 23), jobs
    weekdays: weekday (1 Monday to 7), jobs
    distribution: level (0 to 1) and columns size, run_time, run_time_service, requested_time, wait, interval, each the smallest
        value that a share `level` of the jobs (run_time_service: of the service units) does not exceed; null if unknown
    requests: requested_time, jobs; most frequent first
    accuracy: lowest, highest (run time over requested time; highest null: no bound), jobs
    load: begin, end, offered, utilisation (shares of the machine's capacity in that interval); no rows if unknown
    users: user (null: unknown), jobs, service; users with most jobs first
    """

    figures: dict[str, float | None]
    missing: dict[str, str]
    left_out: dict[str, int]
    begin: float | None
    local: LocalTime
    sizes: pl.DataFrame
    classes: pl.DataFrame
    hours: pl.DataFrame
    weekdays: pl.DataFrame
    distribution: pl.DataFrame
    requests: pl.DataFrame
    accuracy: pl.DataFrame
    load: pl.DataFrame
    users: pl.DataFrame

    def tables(self) -> dict[str, pl.DataFrame]:
        """All tables by name."""
        names = ("sizes", "classes", "hours", "weekdays", "distribution", "requests", "accuracy", "load", "users")
        return {name: getattr(self, name) for name in names}

    def as_json(self) -> dict[str, Any]:
        """The content as a JSON object; tables are objects of columns."""
        tables = {name: table.to_dict(as_series=False) for name, table in self.tables().items()}
        clock = {"second_0_in_unix_time": self.local.begin, "zone": self.local.zone, "offset": self.local.offset}
        return {
            "figures": self.figures,
            "missing": self.missing,
            "left_out": self.left_out,
            "first_submission": self.begin,
            "clock": clock,
            "tables": tables,
        }


def characterise(frame: pl.DataFrame, processors: int | None, local: LocalTime | None = None) -> Characterisation:
    """Computes the tables and figures of the jobs in an SWF frame, in any order, on a machine of `processors` processors.

    If the machine is not known (None), offered load and utilisation are not known either.
    Values of -1 and other impossible values are unknown. Each table uses the jobs that have all the values it needs. Raises
    WrongUse if there is no job.
    """
    clock = local or LocalTime()
    jobs = _jobs(frame)
    if jobs.is_empty():
        raise WrongUse("holds no job that could be characterised", parameter="trace")
    sizes = jobs.filter(pl.col("size").is_not_null()).group_by("size").agg(_count_of_jobs(), _service()).sort("size")
    requested = jobs.filter(pl.col("requested_time").is_not_null())
    requests = requested.group_by("requested_time").agg(_count_of_jobs()).sort("jobs", "requested_time", descending=[True, False])
    users = jobs.group_by("user").agg(_count_of_jobs(), _service()).sort("jobs", "user", descending=[True, False], nulls_last=True)
    dates = jobs.filter(pl.col("submit").is_not_null()).select(clock.local(pl.col("submit")).alias("date"))
    weekdays = dates.select(weekday=pl.col("date").dt.weekday())
    tables = {
        "sizes": sizes,
        "classes": _classes(sizes),
        "hours": _count(dates.select(hour=pl.col("date").dt.hour()), "hour", range(24)),
        "weekdays": _count(weekdays, "weekday", range(1, 8)).head(0 if clock.begin is None else 7),
        "distribution": _distribution(jobs),
        "requests": requests,
        "accuracy": _accuracy(jobs),
        "load": load_over_time(jobs, processors),
        "users": users,
    }
    figures = figures_of(jobs, tables, processors)
    begin = jobs.select(pl.col("submit").min()).item()
    missing = missing_from(jobs, tables, clock, has_machine=processors is not None)
    return Characterisation(figures, missing, {}, begin, clock, **tables)


def _jobs(frame: pl.DataFrame) -> pl.DataFrame:
    """The jobs with null for unknown values.

    A job cancelled before its start has neither a run time nor a wait; its recorded wait is the time until the cancellation.
    """
    col, when = pl.col, pl.when
    started = (col("status") != 5) | (col("run_time") > 0)
    size = when(col("allocated_processors") > 0).then("allocated_processors")
    jobs = frame.select(
        submit=when(col("submit") >= 0).then("submit"),
        size=size.when(col("requested_processors") > 0).then("requested_processors"),
        run_time=when(started & (col("run_time") >= 0)).then("run_time"),
        requested_time=when(col("requested_time") > 0).then("requested_time"),
        wait=when(started & (col("wait") >= 0)).then("wait"),
        user=when(col("user") >= 0).then("user"),
    )
    return jobs.with_columns(service=col("size") * col("run_time"))


def _count_of_jobs() -> pl.Expr:
    return pl.len().cast(pl.Int64).alias("jobs")


def _service() -> pl.Expr:
    return pl.col("service").sum()


def _classes(sizes: pl.DataFrame) -> pl.DataFrame:
    """Jobs and service units by classes of sizes 1, 2, 3 to 4, 5 to 8, ...; the last class ends with the largest size."""
    schema = {"lowest": pl.Int64, "highest": pl.Int64, "jobs": pl.Int64, "service": pl.Float64}
    rows: list[list[float]] = []
    for size, jobs, service in sizes.iter_rows():
        number = (size - 1).bit_length()
        while len(rows) <= number:
            order = len(rows)
            rows.append([(1 << order >> 1) + 1, 1 << order, 0, 0.0])
        rows[number][2] += jobs
        rows[number][3] += service
    if rows:
        rows[-1][1] = sizes["size"][-1]
        rows[0][0] = 1
    return pl.DataFrame(rows, schema=schema, orient="row")


def _count(values: pl.DataFrame, name: str, of: range) -> pl.DataFrame:
    """Number of occurrences in column `name` for each value of the range `of`, also 0."""
    every = pl.DataFrame({name: of}, schema={name: pl.Int8})
    counts = values.group_by(name).agg(_count_of_jobs())
    return every.join(counts, on=name, how="left").sort(name).with_columns(pl.col("jobs").fill_null(0))


def _distribution(jobs: pl.DataFrame) -> pl.DataFrame:
    submits = jobs["submit"].drop_nulls().sort()
    return pl.DataFrame(
        {
            "level": [k / LEVELS for k in range(LEVELS + 1)],
            "size": _quantiles(jobs["size"]),
            "run_time": _quantiles(jobs["run_time"]),
            "run_time_service": _weighted_quantiles(jobs.select("run_time", "service")),
            "requested_time": _quantiles(jobs["requested_time"]),
            "wait": _quantiles(jobs["wait"]),
            "interval": _quantiles(submits.diff()),
        },
        schema_overrides=dict.fromkeys(["run_time", "run_time_service", "requested_time", "wait", "interval"], pl.Float64),
    )


def _quantiles(values: pl.Series) -> list[Any]:
    """The quantile at each level: the k-th smallest of n values, with the smallest k of at least level x n."""
    known = values.drop_nulls().sort()
    if known.is_empty():
        return [None] * (LEVELS + 1)
    places = [max(0, -(-k * len(known) // LEVELS) - 1) for k in range(LEVELS + 1)]
    return known.gather(places).to_list()


def _weighted_quantiles(pairs: pl.DataFrame) -> list[Any]:
    """The quantile of the values (first column) at each level, weighted by the second column."""
    value, weight = pairs.columns
    known = pairs.filter(pl.col(weight) > 0).group_by(value).agg(pl.col(weight).sum()).sort(value)
    if known.is_empty():
        return [None] * (LEVELS + 1)
    reached = known[weight].cum_sum()
    total = reached[-1]
    places = reached.search_sorted(pl.Series([total * k / LEVELS for k in range(LEVELS + 1)]), side="left")
    return known[value].gather(places.clip(0, known.height - 1)).to_list()


def _accuracy(jobs: pl.DataFrame) -> pl.DataFrame:
    """Number of jobs by class of run time over requested time; the lower bound belongs to the class."""
    both = jobs.filter(pl.col("run_time").is_not_null() & pl.col("requested_time").is_not_null())
    # Multiplication before division keeps whole numbers exact, so that values on a bound get into the right class.
    number = (pl.col("run_time") * ACCURACY_CLASSES / pl.col("requested_time")).floor().clip(0, ACCURACY_CLASSES)
    counts = _count(both.select(number=number.cast(pl.Int8)), "number", range(ACCURACY_CLASSES + 1))
    below = pl.col("number") < ACCURACY_CLASSES
    return counts.select(
        lowest=pl.col("number") / ACCURACY_CLASSES,
        highest=pl.when(below).then((pl.col("number") + 1) / ACCURACY_CLASSES),
        jobs="jobs",
    )
