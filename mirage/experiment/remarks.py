"""Remarks that are printed before a run: effects of selection, shrinking and a fast clock on the log."""

from __future__ import annotations

from decimal import Decimal

import polars as pl

from mirage.aspects import offers
from mirage.experiment import configuration, site
from mirage.experiment.prepare import SLACK, Prepared
from mirage.knobs.parse import MAX_SPEED, format_number
from mirage.knobs.resolve import SHORT_INTERVALS
from mirage.records.run_clock import EVENT
from mirage.text.words import about
from mirage.workloads import not_played
from mirage.workloads.workload import Workload
from slurm_mirage.jobs.plan import NEVER
from slurm_mirage.rm.managers import traits_of

# A warning is printed if shrinking leaves less than this share of the distinct time limits, or fewer than FEW_LIMITS of at least
# MANY_LIMITS.
LIMITS_SHARE = 0.5
FEW_LIMITS, MANY_LIMITS = 5, 10
# Values of PriorityUsageResetPeriod that follow the calendar, and whether they follow its months.
RESETS = {"DAILY": False, "WEEKLY": False, "MONTHLY": True, "QUARTERLY": True, "YEARLY": True}
# Text for counts of dependencies and requests, by the name of the count.
WAITS_AND_REQUESTS = {
    "dependencies": "dependencies: {} jobs start when the others have ended (DEPENDENCIES=keep)",
    "dependencies_never": "dependencies that the log shows unfulfilled: {} jobs wait until they are cancelled, as in the log",
    "dependencies_outside": "dependencies on jobs outside the selection, left out: {} jobs",
    "dependencies_contradicted": "dependencies on jobs that ended later in the log than this one started, left out: {} jobs",
    "dependencies_unknown": "dependencies that cannot be reproduced (singleton, expand, burst buffers), left out: {} jobs",
    "following": "submitted after the end of the preceding job: {} jobs (DEPENDENCIES=think)",
    "following_outside": "preceding job outside the selection, submitted at their own times: {} jobs",
    "think_time_unknown": "think time unknown, submitted at their own times: {} jobs",
    "held": "held in the log until they were cancelled: {} jobs wait until then here as well",
    "partitions_played": "partition as in the log: {} jobs",
    "partitions_not_there": "partition of the log not in the configuration, now the default one: {} jobs",
    "partitions_too_small": "too large or long for the partition of that name, now in the default one: {} jobs",
    "partitions_instead_of_default": "too large or long for the default partition, now in the smallest that holds them: {} jobs",
    "limits_capped": "time limit extended by less, to the partition's MaxTime: {} jobs, which may be killed at it",
    "qos_played": "QOS as in the log: {} jobs",
    "qos_not_there": "QOS of the log not in the configuration, left out: {} jobs",
    "qos_not_played": "QOS of the log left out, there is no accounting: {} jobs",
    "requests_played": "nodes, tasks, GPUs, features, licences and instants requested as in the log: {} jobs",
    "requests_not_in_partition": "requests left out, the partition by routing has no such nodes: {} jobs",
    "memory_played": "memory requested as in the log: {} jobs",
    "memory_reduced": "memory requested beyond the cluster's nodes, made less: {} jobs",
    "memory_not_played": "memory requests left out, the configuration does not count memory (docs/submitted-jobs.md): {} jobs",
}


def remarks(run: Prepared) -> list[str]:
    """The remarks on a run, one line each."""
    notes, lines = run.workload.notes, site.in_short(run.knobs.scheduler, f"{site.LEFT_OUT} of the run")
    lines += site.in_words(run.site)
    if run.shrink != 100:
        lines.append(f"SHRINK={format_number(run.shrink)}: {shrink_in_words(run.shrink)}")
    if run.shrink < 100 and run.knobs.scheduler.config == SHORT_INTERVALS:
        lines.append(f"CONFIG={SHORT_INTERVALS}: short intervals of the scheduler, as Slurm's own do not shrink with the jobs")
    lines += sizes_and_presets(run.workload)
    lines += [run.workload.unread] if run.workload.unread else []
    lines += [f"left out: {count} jobs ({reason})" for reason, count in run.workload.excluded.items()]
    if "limits_extended" in notes:
        lines.append(_extensions(run))
    if (count := notes.get("to_be_cancelled")) is not None:
        lines.append(f"cancelled as in the log: {count} jobs")
    lines += never_started(run.workload) + requests_not_played(run)
    counts = {**notes, **run.requests.counts}
    lines += [words.format(counts[name]) for name, words in WAITS_AND_REQUESTS.items() if name in counts]
    if "arrays" in notes:
        lines.append(_arrays(run))
    return [*lines, *(line for of in offers("experiment", "remarks") for line in of(run)), *_limits(run), *_resets(run)]


def sizes_and_presets(chosen: Workload) -> list[str]:
    """Remarks on changed sizes and on presets."""
    notes, lines = chosen.notes, []
    if chosen.size_factor != 1:
        lines.append(f"sizes of jobs: {chosen.size_factor:.4g} times those of the log, to the nearest processor (SIZES=scale)")
    if (count := notes.get("wider_than_the_logs_machine")) is not None:
        lines.append(f"wider than the log's own machine, now as wide as the cluster: {count} jobs")
    if chosen.presets():
        played, waiting = (notes.get(f"preset_{state}", 0) for state in ("running", "queued"))
        lines.append(f"preset, as they were when the selection begins: {played} running, {waiting} queued")
    if (running := notes.get("left_running", 0)) > 0:
        processors, queued = notes["left_running_processors"], notes.get("left_queued", 0)
        lines.append(
            f"warning: when the selection begins, {running} jobs of the log run on {processors} processors and {queued} wait; "
            "this run begins without them, PRESET=all submits them (PRESET=running: those that run)"
        )
    if (count := notes.get("preset_unknown", 0)) > 0:
        lines.append(f"perhaps missing among the preset ones: {count} earlier jobs, whose wait the log does not say")
    return lines


def never_started(chosen: Workload) -> list[str]:
    """Remark on the jobs that never started in the log but may start here, and on the work that they add at most."""
    col = pl.col
    work = pl.min_horizontal("runtime_virtual", "cancel_after_virtual") * col("processors")
    may_start = ~col("ran") & (col("dependency") != NEVER)
    added, own, count = chosen.jobs.select(
        work.filter(may_start).sum().alias("added"), work.filter("ran").sum().alias("own"), may_start.sum().alias("count")
    ).row(0)
    if not count:
        return []
    jobs = "1 job" if count == 1 else f"{count} jobs"
    share = f"{100 * added / (added + own):.2g} %" if added + own > 0 else "0 %"
    return [
        f"never started in the log: {jobs}; where processors are free here they run until they are cancelled, which is at most "
        f"{share} of the work (processors x run time)"
    ]


def requests_not_played(run: Prepared) -> list[str]:
    """Remark on requests of a log's jobs that are not emulated."""
    counts = not_played.counts(run.jobs)
    if not counts:
        return []
    lines = [f"requests that are not emulated: {not_played.in_words(counts)}"]
    if run.knobs.workload.trace and (reason := not_played.inconclusive(counts)):
        lines.append(f"warning: a comparison with the real machine will be inconclusive: {reason}")
    return lines


def _extensions(run: Prepared) -> str:
    """Number of extended time limits, and the median and largest extension."""
    asked = (pl.col("requested") * float(run.shrink) / 100 / 60 - 1e-9).ceil().clip(1) * 60
    touched = run.workload.jobs.filter("limit_extended").select(by=pl.col("limit_minutes") * 60 - asked)
    median, most = touched.select(pl.col("by").median(), most=pl.col("by").max()).row(0)
    by = about(most) if median == most else f"{about(median)} in the median, {about(most)} at most"
    jobs = "1 job" if touched.height == 1 else f"{touched.height} jobs"
    return f"time limit extended: {jobs}, by {by} (OVERRUN=extend, slack {about(SLACK)})"


def _arrays(run: Prepared) -> str:
    """Remark on job arrays. A task that differs from all others of its array is submitted as a single job; so are all tasks of an
    array in which each one does."""
    notes = run.workload.notes
    rows = [row.array for row in run.plan("") if row.array is not None]
    words = f"arrays: {notes['array_tasks']} tasks of {notes['arrays']} in the log"
    single = notes["array_tasks"] - len(rows)
    parts = [f"{len(rows)} as tasks of {len(set(rows))}"] * bool(rows) + [f"{single} as single jobs"] * bool(single)
    return f"{words}; played: {', '.join(parts)}"


def _limits(run: Prepared) -> list[str]:
    """Remarks on the distinct time limits that are left after shrinking; a backfill scheduler plans with them."""
    before, after = run.workload.limits["before"], run.workload.limits["after"]
    lines = []
    if after < before or run.shrink != 100:
        lines.append(f"distinct time limits: {after}, in the log {before} (a limit has whole minutes)")
    if run.shrink != 100:
        lines.append(f"not shrunk: {', '.join(traits_of(run.knobs.scheduler.rm).not_shrunk)}")
    if run.shrink < 100 and (after < LIMITS_SHARE * before or (before >= MANY_LIMITS and after < FEW_LIMITS)):
        lines.append(
            f"warning: of {before} distinct time limits {after} {'is' if after == 1 else 'are'} left, so a backfill scheduler "
            f"hardly knows how long jobs will run; {_without_shrinking(run)}, and keeps them"
        )
    return lines


def _resets(run: Prepared) -> list[str]:
    """Remark on PriorityUsageResetPeriod where the cluster's calendar does not let it reset usage when the site would."""
    config, site_conf = configuration.of(run.knobs.scheduler), configuration.site_of(run.knobs.scheduler)
    settings = {key.lower(): value for key, value in {**(site_conf.settings if site_conf else {}), **config.settings}.items()}
    period = str(settings.get("priorityusageresetperiod", "")).upper()
    has_usage = config.has_accounting(run.knobs) and settings.get("prioritytype") != "priority/basic"
    if period not in RESETS or not has_usage:
        return []
    if run.knobs.clock.speed != EVENT:
        why = "a clock of constant speed begins a run at the weekday and hour that it has reached"
    elif RESETS[period]:
        why = "the cluster's calendar has the log's weekday and hour, not its date"
    else:
        return []
    return [f"warning: PriorityUsageResetPeriod={period}: {why}; another run, and the site, reset usage at another instant"]


def _without_shrinking(run: Prepared) -> str:
    """The knobs of a run that is as short without shrinking, and a remark on it."""
    speed, times = run.knobs.clock.speed, 100 / float(run.shrink)
    if speed == EVENT:
        return "SPEED=event with SHRINK=100 is hardly longer"
    now = float(speed) if isinstance(speed, Decimal) else 1.0
    return f"SPEED={min(now * (round(times) if times >= 10 else round(times, 1)), MAX_SPEED):g} with SHRINK=100 is as short"


def shrink_in_words(shrink: Decimal) -> str:
    """Describe a shrink factor: `0.2 %: 500 times shorter`."""
    if shrink == 100:
        return "100 %: the log's own times"
    factor = 100 / shrink if shrink < 100 else shrink / 100
    return f"{format_number(shrink)} %: {float(factor):.4g} times {'shorter' if shrink < 100 else 'longer'}"
