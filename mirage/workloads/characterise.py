"""What a workload is like: sizes, service units, submissions, run times, estimates, load, users.

The tables behind Figures 4.1 and 4.2 and Tables 4.1 and 4.2 of the thesis this project comes from, for any log, and what
a reader wants to know besides. Definitions are in docs/workload-report.md. A service unit is a second of a processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from mirage.traces.local_time import LocalTime
from mirage.workloads.load_over_time import load_over_time
from mirage.workloads.workload_figures import figures_of, missing_from
from slurm_mirage.base.errors import WrongUse

# Distributions are told at steps of half a per cent.
LEVELS = 200
# Classes of accuracy: a twentieth of the requested time each, and one for all that ran for at least that long.
ACCURACY_CLASSES = 20


@dataclass(frozen=True)
class Characterisation:
    """What a workload is like. Times are seconds of the trace, service units processor seconds.

    figures: the values of workload_figures.FIGURES, None where the log does not tell
    missing: what the log does not tell, under the name of the table, and why, in words
    left_out: lines that are no jobs of their own, by reason
    begin: first submission; None without any
    local: the clock by which hours and dates are told
    sizes: size, jobs, service; one row for each size
    classes: lowest, highest (sizes), jobs, service; each class reaches up to the next power of two, empty ones are there
    hours: hour (0 to 23), jobs; weekdays: weekday (1 Monday to 7), jobs
    distribution: level (0 to 1) and, for each quantity, the least value that a share `level` of the jobs does not exceed;
        run_time_service: of the service units, not of the jobs. Columns size, run_time, run_time_service,
        requested_time, wait, interval; null where nothing is known
    requests: requested_time, jobs; most popular first
    accuracy: lowest, highest (run time over requested time; highest null: no bound), jobs
    load: begin, end, offered, utilisation; shares of what the machine has in that stretch; no rows: not known
    users: user (null: unknown), jobs, service; most jobs first
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
        """All of it, tables by column."""
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


def characterise(frame: pl.DataFrame, processors: int, local: LocalTime | None = None) -> Characterisation:
    """The tables and figures of the jobs in an SWF frame, in any order, on a machine of `processors` processors.

    -1 and other impossible values are unknown; each table is of the jobs of which it knows what it needs. Raises WrongUse
    if there is no job.
    """
    clock = local or LocalTime()
    jobs = _jobs(frame)
    if jobs.is_empty():
        raise WrongUse("holds no job of which anything could be told", parameter="trace")
    left_out = {"partial execution": frame.height - jobs.height} if jobs.height < frame.height else {}
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
    return Characterisation(figures, missing_from(jobs, tables, clock), left_out, begin, clock, **tables)


def _jobs(frame: pl.DataFrame) -> pl.DataFrame:
    """The jobs, null for what is not known, without partial executions (status 2 to 4), which have a line for the whole.

    A job cancelled before it started has neither a run time nor a wait, only a time after which it was given up.
    """
    col, when = pl.col, pl.when
    lines = frame.filter(~col("status").is_between(2, 4))
    started = (col("status") != 5) | (col("run_time") > 0)
    size = when(col("allocated_processors") > 0).then("allocated_processors")
    jobs = lines.select(
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
    """Sizes 1, 2, 3 to 4, 5 to 8, ...; the last class ends with the largest size there is."""
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
    """How often each of the values `of` occurs."""
    every = pl.DataFrame({name: of}, schema={name: pl.Int8})
    found = values.group_by(name).agg(_count_of_jobs())
    return every.join(found, on=name, how="left").sort(name).with_columns(pl.col("jobs").fill_null(0))


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
    """The value at each level: the k-th smallest of n, with the least k that is at least level x n."""
    known = values.drop_nulls().sort()
    if known.is_empty():
        return [None] * (LEVELS + 1)
    places = [max(0, -(-k * len(known) // LEVELS) - 1) for k in range(LEVELS + 1)]
    return known.gather(places).to_list()


def _weighted_quantiles(pairs: pl.DataFrame) -> list[Any]:
    """The same of values (first column) that count as much as the second column says."""
    value, weight = pairs.columns
    known = pairs.filter(pl.col(weight) > 0).group_by(value).agg(pl.col(weight).sum()).sort(value)
    if known.is_empty():
        return [None] * (LEVELS + 1)
    reached = known[weight].cum_sum()
    total = reached[-1]
    places = reached.search_sorted(pl.Series([total * k / LEVELS for k in range(LEVELS + 1)]), side="left")
    return known[value].gather(places.clip(0, known.height - 1)).to_list()


def _accuracy(jobs: pl.DataFrame) -> pl.DataFrame:
    """Jobs by run time over requested time, in classes that hold their lower bound."""
    both = jobs.filter(pl.col("run_time").is_not_null() & pl.col("requested_time").is_not_null())
    # Multiplied first: whole numbers stay exact, and a bound belongs where it should.
    number = (pl.col("run_time") * ACCURACY_CLASSES / pl.col("requested_time")).floor().clip(0, ACCURACY_CLASSES)
    counts = _count(both.select(number=number.cast(pl.Int8)), "number", range(ACCURACY_CLASSES + 1))
    below = pl.col("number") < ACCURACY_CLASSES
    return counts.select(
        lowest=pl.col("number") / ACCURACY_CLASSES,
        highest=pl.when(below).then((pl.col("number") + 1) / ACCURACY_CLASSES),
        jobs="jobs",
    )
