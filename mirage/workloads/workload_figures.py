"""Computes the figures of a workload, and the reasons why tables and figures lack data."""

from __future__ import annotations

import polars as pl

from mirage.traces.local_time import LocalTime

# Name: (unit, meaning), in the order of the report.
FIGURES = {
    "jobs": ("", "jobs"),
    "span": ("s", "first to last submission"),
    "interval_mean": ("s", "interval between submissions, mean"),
    "processors": ("", "processors of the machine"),
    "distinct_sizes": ("", "different job sizes"),
    "size_mean": ("", "processors of a job, mean"),
    "size_median": ("", "processors of a job, median"),
    "size_max": ("", "processors of the largest job"),
    "one_processor_jobs": ("share", "jobs on one processor"),
    "one_processor_service": ("share", "service units of jobs on one processor"),
    "power_of_two_jobs": ("share", "jobs whose size is a power of two (1, 2, 4, ...)"),
    "service_hours": ("", "service units, in processor hours"),
    "offered_load": ("share", "offered load: service units submitted over the machine's capacity"),
    "utilisation": ("share", "recorded utilisation, first submission to last end"),
    "users": ("", "users"),
    "top_user_jobs": ("share", "jobs of the user with most jobs"),
    "top_ten_users_jobs": ("share", "jobs of the ten users with most jobs"),
    "top_ten_users_service": ("share", "service units of the ten users with most of them"),
    "run_time_mean": ("s", "run time, mean"),
    "run_time_median": ("s", "run time, median"),
    "run_time_variation": ("", "run time, standard deviation over mean"),
    "requested_time_median": ("s", "requested time, median"),
    "requested_values": ("", "different requested times"),
    "popular_requests": ("share", "jobs with one of the ten most frequent requested times"),
    "accuracy_median": ("share", "run time over requested time, median"),
    "at_limit": ("share", "jobs that ran for their requested time or longer"),
    "wait_mean": ("s", "recorded wait, mean"),
    "wait_median": ("s", "recorded wait, median"),
}


def figures_of(jobs: pl.DataFrame, tables: dict[str, pl.DataFrame], processors: int | None) -> dict[str, float | None]:
    """The values of FIGURES. processors: of the machine; None if not known."""
    col = pl.col
    sizes, requests, users = tables["sizes"], tables["requests"], tables["users"].filter(col("user").is_not_null())
    middle = tables["distribution"].row(tables["distribution"].height // 2, named=True)
    submitted, end = col("submit").is_not_null(), col("submit") + col("wait") + col("run_time")
    ran = col("service").is_not_null()
    recorded = ran & end.is_not_null()
    span = col("submit").max() - col("submit").min()
    estimated = jobs.filter(col("run_time").is_not_null() & col("requested_time").is_not_null())
    accuracy = estimated.select(col("run_time") / col("requested_time")).to_series()
    machine = pl.lit(processors, pl.Int64)
    values = jobs.select(
        jobs=pl.len(),
        span=span,
        processors=machine,
        size_mean=col("size").mean(),
        size_max=col("size").max(),
        run_time_mean=col("run_time").mean(),
        run_time_variation=_over(col("run_time").std(ddof=0), col("run_time").mean()),
        interval_mean=_over(span, submitted.sum() - 1),
        wait_mean=col("wait").mean(),
        service_hours=pl.when(ran.any()).then(col("service").sum() / 3600),
        offered_load=pl.when((ran & submitted).any()).then(_over(col("service").filter(submitted).sum(), machine * span)),
        utilisation=pl.when(recorded.any()).then(
            _over(
                col("service").filter(recorded).sum(),
                machine * (end.filter(recorded).max() - col("submit").filter(recorded).min()),
            )
        ),
    ).row(0, named=True)
    single = sizes.filter(col("size") == 1)
    powers = sizes.filter((col("size") & (col("size") - 1)) == 0)
    values |= {
        "distinct_sizes": sizes.height,
        "one_processor_jobs": _share(single["jobs"], sizes["jobs"]),
        "one_processor_service": _share(single["service"], sizes["service"]),
        "power_of_two_jobs": _share(powers["jobs"], sizes["jobs"]),
        "size_median": middle["size"],
        "run_time_median": middle["run_time"],
        "requested_time_median": middle["requested_time"],
        "wait_median": middle["wait"],
        "requested_values": requests.height or None,
        "popular_requests": _share(requests["jobs"].head(10), requests["jobs"]),
        "accuracy_median": accuracy.median(),
        "at_limit": _share((accuracy >= 1).cast(pl.Int64), pl.Series([estimated.height])),
        "users": users.height or None,
        "top_user_jobs": _share(users["jobs"].head(1), users["jobs"]),
        "top_ten_users_jobs": _share(users["jobs"].head(10), users["jobs"]),
        "top_ten_users_service": _share(users["service"].top_k(10), users["service"]),
    }
    return {name: values[name] for name in FIGURES}


def _over(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """part / whole; null unless whole is above 0."""
    return pl.when(whole > 0).then(part / whole)


def _share(part: pl.Series, whole: pl.Series) -> float | None:
    total = float(whole.sum() or 0)
    return float(part.sum() or 0) / total if total > 0 else None


def missing_from(jobs: pl.DataFrame, tables: dict[str, pl.DataFrame], local: LocalTime, *, has_machine: bool) -> dict[str, str]:
    """Sentences that say which data the log lacks, by name of the table or figure. has_machine: whether its size is known."""
    no_machine = "Load and utilisation are unknown: the log does not name its machine. NODES and CPUS name it."
    known = {name: jobs.height - jobs[name].null_count() for name in jobs.columns}
    submitted = tables["hours"]["jobs"].sum() > 0
    reasons = {
        "sizes": not known["size"] and "The log does not say how many processors the jobs had.",
        "service": not jobs["service"].sum() and "There are no service units: no job has both a size and a run time above 0.",
        "hours": not submitted and "The log has no submission times from which hours could be computed.",
        "weekdays": (not submitted or local.begin is None)
        and "Days of the week are unknown: the log does not say on which date it begins.",
        "run_time": not known["run_time"] and "The log has no run times.",
        "requested_time": not known["requested_time"] and "The log has no requested times.",
        "accuracy": not tables["accuracy"]["jobs"].sum()
        and "Use of the requested time is unknown: it needs run times and requested times.",
        "wait": not known["wait"] and "The log has no waiting times.",
        "offered": tables["load"].is_empty()
        and ("Load over time is unknown: it needs sizes, run times and different submission times." if has_machine else no_machine),
        "utilisation": has_machine
        and not tables["load"]["utilisation"].count()
        and "Recorded utilisation is unknown: it needs waiting times, sizes and run times.",
        "users": not known["user"] and "The log does not name the users of the jobs.",
    }
    return {name: reason for name, reason in reasons.items() if reason}
