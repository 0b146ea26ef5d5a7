"""The section of a run's page that compares its waits with those of the same jobs in the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mirage.metrics.classes import ALL
from mirage.records.agreement import agreement
from mirage.reports import distributions
from mirage.reports.measures import class_table, log_shade
from mirage.reports.page import Part, Table
from mirage.reports.run_data import EMULATION, LOG, Run
from mirage.text.words import counted, duration, number, percent
from mirage.workloads import not_played

_ABOUT = (
    "Two runs of the same command differ, too: make diff prints how much, which is the least difference that this comparison can "
    "show."
)
_LENGTHS = {
    "mean": "difference of a job's waits, emulation - log: mean",
    "median": "median",
    "quartile_1": "lower quartile",
    "quartile_3": "upper quartile",
}
_SHARES = {
    "within_minute": "jobs whose waits differ by at most a minute",
    "within_tenth": "by at most a minute, or a tenth of the longer wait",
    "shorter": "jobs that waited over a minute less in the emulation",
    "longer": "over a minute more",
}
_SITE = {"taken": "as at the site", "approximated": "approximated", "absent": "not emulated"}


def parts(run: Run) -> Iterable[Part]:
    """The parts of the section; those about waits only if any wait is known in both schedules."""
    near = run.nearness
    if near is not None and not isinstance(run.recorded, str):
        beside = agreement(run.pairs, run.recorded)
        yield Part(_words(near, beside, run.processors), table=_beside(near), is_wide=True)
        yield Part(_ABOUT, table=_job_by_job(near), is_wide=True)
        for picture in (
            distributions.waits_over_time(near["over_time"], EMULATION, LOG),
            distributions.differences(beside["classes"]),
            distributions.scatter(run.pairs),
        ):
            yield Part(picture.description, picture)
        yield Part("", table=_by_group(near), is_wide=True)
        yield Part("", table=_by_class(near), is_wide=True)
        yield Part("", table=_reasons(run), is_wide=True)
    if site := run.experiment.get("site"):
        rows = [(words, what, number(count)) for kind, words in _SITE.items() for what, count in (site.get(kind) or {}).items()]
        yield Part("", table=Table("What is taken from the site", ("", "what", "number"), rows, prose=(1,)), is_wide=True)


def _words(near: Mapping[str, Any], beside: Mapping[str, Any], processors: int) -> str:
    waits, differences, correlation = near["waits"], near["differences"], near["rank_correlation"]
    mean, median = waits["wait_mean"], waits["wait_median"]
    sentences = [
        f"This comparison is inconclusive: {near['inconclusive']}." if near["inconclusive"] else "",
        f"In the log these jobs waited {duration(mean['record'])} on average, in the emulation {duration(mean['run'])} "
        f"(medians {duration(median['record'])} and {duration(median['run'])}). The waits of "
        f"{percent(differences['within_minute']['value'])} of them differ by at most a minute; "
        f"{percent(differences['shorter']['value'])} waited longer in the log, {percent(differences['longer']['value'])} in the "
        "emulation.",
        _deferred(near.get("deferred")),
        "The log's waits are in whole minutes." if beside["whole_minutes"] else "",
        ""
        if correlation is None
        else f"The rank correlation of the two waits is {correlation['value']:.2f} (1: the same order of jobs; 0: no correlation).",
        _others_sentence(beside, processors),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _deferred(deferred: Mapping[str, Any] | None) -> str:
    """How much of the log's waiting is not compared; "" if all of it is."""
    if not deferred or not deferred["jobs"]:
        return ""
    copied = (
        "" if deferred["copied"] is None else f", {percent(deferred['copied'])} by begins and holds that the run copies from it"
    )
    return (
        f"Waits count from the instant at which a job could start: {percent(deferred['share'])} of the log's waiting, of "
        f"{counted(deferred['jobs'], 'job')}, lay before it{copied}."
    )


def _signed(seconds: float) -> str:
    return duration(seconds) if seconds >= 0 else f"-{duration(-seconds)}"


def _share(value: float) -> str:
    return f"-{percent(-value)}" if value < 0 else percent(value)


def _correlation(one: Mapping[str, Any] | None) -> str:
    return "-" if one is None else f"{one['value']:.2f}"


def _beside(near: Mapping[str, Any]) -> Table:
    waits, users, used = near["waits"], near["users"], near["utilisation"]
    figures = {
        "mean wait": waits["wait_mean"],
        "median wait": waits["wait_median"],
        "95th percentile of the waits": waits["wait_p95"],
    }
    if users is not None:
        figures[f"mean wait by processor time, {counted(users['users'], 'user')}"] = users["wait"]
    rows = [(name, duration(one["run"]), duration(one["record"]), _signed(one["difference"])) for name, one in figures.items()]
    if used is not None:
        values = percent(used["run"]), percent(used["record"]), _share(used["difference"])
        rows.append(("utilisation by these jobs, first to last submission", *values))
    return Table(f"{counted(waits['jobs'], 'job')}, emulation beside log", ("", EMULATION, LOG, "difference"), rows)


def _job_by_job(near: Mapping[str, Any]) -> Table:
    differences = near["differences"]
    rows = [(words, _signed(differences[name]["value"])) for name, words in _LENGTHS.items()]
    rows += [(words, _share(differences[name]["value"])) for name, words in _SHARES.items()]
    rows.append(("rank correlation of the waits", _correlation(near["rank_correlation"])))
    if near["users"] is not None:
        rows.append(("rank correlation of the users' waits by processor time", _correlation(near["users"]["rank_correlation"])))
    if near["played_in_full"] is not None:
        rows.append(("processor time of jobs whose requests are all emulated", percent(near["played_in_full"])))
    return Table("Job by job", ("", "value"), rows)


def _by_group(near: Mapping[str, Any]) -> Table:
    """Waits by size, run time and partition, and of jobs with GPUs."""
    groups = []
    for row in near["classes"]:
        if ALL in (row["size"], row["runtime"]) and row["size"] != row["runtime"]:
            size = "1 processor" if row["size"] == "1" else f"{row['size']} processors"
            groups.append((row["runtime"] if row["size"] == ALL else size, row))
    groups += [(f"partition {row['partition']}", row) for row in near["partitions"]]
    groups += [] if near["gpu_jobs"] is None else [("with GPUs", near["gpu_jobs"])]
    rows = [
        (
            name,
            number(row["jobs"]),
            duration(row["wait_mean"]["run"]),
            duration(row["wait_mean"]["record"]),
            *(_signed(row[of]["difference"]) for of in ("wait_mean", "wait_median", "wait_p95")),
        )
        for name, row in groups
    ]
    headings = (
        "",
        "jobs",
        f"mean wait, {EMULATION}",
        f"mean wait, {LOG}",
        "difference",
        "of the medians",
        "of the 95th percentiles",
    )
    return Table("Waits by size, run time and partition", headings, rows)


def _by_class(near: Mapping[str, Any]) -> Table:
    rows = {(row["size"], row["runtime"]): {"difference": row["wait_mean"]["difference"]} for row in near["classes"]}
    waits = near["waits"]["wait_mean"]
    rows[ALL, ALL] = {"difference": waits["difference"]}

    def shade(value: float, known: list[float]) -> float:
        return log_shade(abs(value), [abs(one) for one in known])

    return class_table("Difference of the mean waits, emulation - log", rows, "difference", _signed, shade)


def _others_sentence(result: Mapping[str, Any], processors: int) -> str:
    """Describes the load of the log's other jobs on the real machine; `result`: of `agreement`."""
    share, at_begin = result["others_share"], result["others_at_begin"]
    if share is None or (share < 0.0005 and not at_begin):
        return "No other jobs of the log ran on the real machine in that time."
    at_first = (
        f"{number(at_begin)} of them held {counted(result['others_processors_at_begin'], 'processor')}"
        if at_begin
        else "none of them ran"
    )
    return (
        f"Other jobs of the log also ran on the real machine: at the first submission of these jobs {at_first}, and until the last "
        f"submission they used {percent(share)} of the processor time in use. The emulation had "
        f"{counted(processors, 'processor')} for these jobs alone."
    )


def _reasons(run: Run) -> Table:
    """The possible causes of differences between the waits, with the values of this run."""
    knobs = run.knobs
    preset, extended = knobs.get("PRESET", "none"), run.metrics["validity"].get("limits_extended") or 0
    others = (
        "not emulated" if preset == "none" else f"only those that ran or waited at the beginning are emulated (PRESET={preset})"
    )
    rows = [
        (
            "scheduler and policy",
            "queues, priorities, limits and reservations of the real machine; the emulation uses configuration "
            f"{knobs.get('CONFIG', '?')} of {run.folder.manager.names.manager}",
        ),
        ("other jobs", f"jobs before and beside the selected ones: {others}"),
        ("outages", "nodes that were down, maintenance, a stopped scheduler: not in the log, not emulated"),
        (
            "operators and users",
            "jobs held, changed or prioritised by hand; users who waited for results before they submitted more",
        ),
        ("machine size", f"constant in the emulation: {counted(run.processors, 'processor')}"),
        ("time limits", f"extended in the emulation for {counted(extended, 'job')} (OVERRUN={knobs.get('OVERRUN', 'extend')})"),
        ("requests that are not emulated", not_played.in_words(run.metrics["not_played"]) or "none is known"),
        ("the emulation itself", "see Validity"),
    ]
    return Table("Possible causes of different waits", ("cause", "in this run"), rows, prose=(1,))
