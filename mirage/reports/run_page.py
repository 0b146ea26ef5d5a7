"""The page of a run: main metrics, course over time, waits and slowdowns, comparison with the log, validity, all inputs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from mirage.aspects import offers
from mirage.metrics import metrics as definitions
from mirage.metrics.metrics import meaning_of
from mirage.metrics.registry import METRICS, main_of
from mirage.records.file_names import EXPERIMENT_FILE
from mirage.records.run_clock import EVENT
from mirage.reports import distributions, run_events, run_waits
from mirage.reports.measures import (
    class_table,
    figure,
    inputs,
    log_shade,
    slowdowns_of,
    suspended_words,
    waits_of,
    with_errors,
)
from mirage.reports.page import Part, Section, Table, Verdict, report
from mirage.reports.real_machine import parts as real_machine
from mirage.reports.run_data import EMULATION, LOG, Run
from mirage.reports.run_timeline import over_time
from mirage.terminal.parts import parts_of
from mirage.terminal.table import errors_text, figures_of, kinds_of_errors, only_these_jobs, value_text
from mirage.text.words import counted, duration, number, percent
from mirage.verdict.verdict import INCONCLUSIVE, INVALID, VALID, inconclusive_metrics, verdict_of, with_reasons
from mirage.workloads import not_played

CHECK = "make check recomputes all files, writes nothing, and names the files that differ. The other commands recompute a part."
_ANSWERS = {
    VALID: "This run is valid: all figures of the emulation are within their bounds.",
    INVALID: "This run is not valid: the emulation influenced what it measures.",
    INCONCLUSIVE: "This run is inconclusive: a figure of the verdict is not known, or times are too coarse for what is measured.",
}
ERRORS = (
    "± (emulation): by how much the emulation may have changed the value, up or down, estimated from the delays that were measured "
    "in this run (docs/emulation-error.md). ± (replicas): by how much another run of the same jobs may differ."
)
OTHER_JOBS = "Other jobs: 95 % interval for other jobs like these."
GPUS = (
    "Idle while asked for: share of the GPUs' time in which GPUs were idle although a job waited that asks for no more than were "
    "idle in all: they are on several nodes, or something else kept the job waiting."
)
# Most rows of the table of suspended jobs.
_MOST_SUSPENDED = 30


def page(run: Run) -> str:
    """The page as HTML."""
    return report(f"Run {run.name}", summary(run), verdict(run), _sections(run))


def summary(run: Run) -> list[str]:
    """The summary at the top of the page, a list of sentences."""
    knobs, jobs, values = run.knobs, run.metrics["jobs"], run.values
    source = run.experiment.get("trace") or {}
    path = source.get("path")
    submitted = jobs["submitted"]
    source_text = f"{counted(submitted, 'job')} of the log {Path(path).name}" if path else counted(submitted, "generated job")
    machine = f"{counted(run.nodes, 'node')} with {counted(run.processors, 'processor')}"
    version = (run.experiment.get(run.folder.manager_name) or {}).get("version", "")
    shrink = float(knobs.get("SHRINK", "100"))
    shrunk = "" if shrink == 100 else f", all times of the log shrunk to {number(shrink)} %"
    sentences = [
        f"{source_text} on an emulated machine of {machine}, scheduled by {run.folder.manager.names.manager} {version} "
        f"with the configuration {knobs.get('CONFIG', '?')}, {_clock_words(run)}{shrunk}."
    ]
    if values.get("wait_mean") is not None:
        sentences.append(
            f"Jobs waited {figure('wait_mean', values['wait_mean'])} on average, half of them up to "
            f"{figure('wait_median', values['wait_median'])}; the mean bounded slowdown is "
            f"{figure('bounded_slowdown_mean', values['bounded_slowdown_mean'])}, and "
            f"the utilisation is {percent(values['utilisation'])}."
        )
    ends = [f"{number(jobs[state])} {state}" for state in ("failed", "cancelled", "timeout", "lost", "other") if jobs.get(state)]
    sentences.append(f"{number(jobs['completed'])} jobs completed{', ' + ', '.join(ends) if ends else ''}.")
    return sentences


def _clock_words(run: Run) -> str:
    """How time passed in the run."""
    speed = (run.experiment.get("clock") or {}).get("speed", 1)
    if speed != EVENT:
        return "in real time" if speed == 1 else f"{number(speed)} times faster than real time"
    how, clock = "on a clock that waits while the cluster computes", run.metrics["validity"].get("event_clock") or {}
    passed, took = clock.get("virtual_seconds"), clock.get("real_seconds")
    return how if passed is None or took is None else f"{how} ({duration(passed)} in {duration(took)} of real time)"


def verdict(run: Run) -> Verdict:
    """The verdict on the run, with the reasons unless it is valid."""
    validity = run.metrics["validity"]
    return Verdict((word := verdict_of(validity)) == VALID, _ANSWERS[word], validity["reasons"])


def _sections(run: Run) -> Iterable[Section]:
    lacks = [] if isinstance(run.recorded, pl.DataFrame) else [run.recorded]
    yield Section("Results", [Part(_main_words(run), table=main_table(run), is_wide=True)])
    yield over_time(run)
    yield Section("Waits and slowdowns", _distributions(run))
    yield Section("Waits and slowdowns by class of jobs", list(classes(run)))
    if (waited := run_waits.section(run)) is not None:
        yield waited
    if run.metrics.get("gpus"):
        yield Section("GPUs", [Part(GPUS, table=gpus(run), is_wide=True)])
    if not run.is_generated:
        yield Section("Comparison with the log", list(real_machine(run)), lacks)
    if (suspensions := _suspensions(run)) is not None:
        yield suspensions
    if (happened := run_events.section(run)) is not None:
        yield happened
    yield from filter(None, (section(run) for section in offers("page", "section")))
    yield Section("Validity", [Part(_verdict_words(run), table=_verdict_table(run), is_wide=True), *_stretch_by_class(run)])
    yield Section("All metrics", [Part(_left_out(run), table=_all_metrics(run), is_wide=True)])
    tables = inputs(run.experiment, run.unused)
    yield Section("Inputs", [*_not_played(run), *(Part("", table=table, is_wide=True) for table in tables)])
    yield Section("How to reproduce the numbers", [Part(CHECK, table=commands(run), is_wide=True)])


def gpus(run: Run) -> Table:
    """How the GPUs were used, by type."""
    rows = [
        (
            row["type"] or "all", number(row["gpus"]), number(row["jobs"]),
            "" if row["wait_mean"] is None else duration(row["wait_mean"]),
            *("" if row[name] is None else percent(row[name]) for name in ("utilisation", "idle_while_asked")),
        )
        for row in run.metrics["gpus"]
    ]  # fmt: skip
    return Table("GPUs by type", ("type", "GPUs", "jobs", "mean wait", "utilisation", "idle while asked for"), rows)


# ---- results ----


def main_table(run: Run) -> Table:
    """The main metrics, and those of the same jobs in the log."""
    names = [name for name in main_of([run.values]) if run.values.get(name) is not None]
    headings = ["metric", "emulation", "log, the same jobs", "meaning"] if run.log_metrics else ["metric", "emulation", "meaning"]
    rows, settings = [], run.metrics["settings"]
    for name in names:
        log = [] if not run.log_metrics else [figure(name, run.log_metrics.get(name))]
        metric = METRICS[name]
        meaning = metric.explained or meaning_of(metric, settings)
        value = with_errors(name, run.values[name], run.metrics["errors"])
        rows.append((metric.in_sentences, value, *log, meaning))
    return Table("Main metrics, in trace time", tuple(headings), rows, prose=(len(headings) - 1,))


def _main_words(run: Run) -> str:
    of_others = [OTHER_JOBS] if any(one.get("other_jobs") for one in run.metrics["errors"].values()) else []
    only_these = [f"{line[0].upper()}{line[1:]}." for line in only_these_jobs(run.metrics)]
    parts = [f"{sentence[0].upper()}{sentence[1:]}." for sentence in parts_of(run.metrics)]
    return " ".join(filter(None, [*parts, ERRORS, *of_others, *only_these, _log_words(run)]))


def _log_words(run: Run) -> str:
    if not run.log_metrics:
        return ""
    return (
        "The log's column is computed from the recorded waits and run times of these jobs, for a machine of the emulated size with "
        "these jobs only; on the real machine there were others (see Comparison with the log). Its utilisation is over the time "
        "from the first submission to the last end in the log."
    )


# ---- waits, slowdowns, classes ----


def _distributions(run: Run) -> list[Part]:
    inside = run.inside
    if inside.is_empty():
        return []
    settings = run.metrics["settings"]
    waits, slowdowns = {EMULATION: waits_of(inside)}, {EMULATION: slowdowns_of(inside, settings)}
    if run.log_population is not None:
        log = run.log_population.inside.join(inside, on="id", how="semi")
        waits[LOG], slowdowns[LOG] = waits_of(log), slowdowns_of(log, settings)
    pictures = [distributions.waits(waits), distributions.slowdowns(slowdowns, float(settings["tau"]))]
    return [Part(picture.description, picture) for picture in pictures]


def classes(run: Run) -> Iterable[Part]:
    """Tables of size by run time, the larger values darker."""
    rows = {(row["size"], row["runtime"]): row for row in run.metrics["classes"]}
    if not rows:
        return
    yield Part("", table=class_table("Mean wait", rows, "wait_mean", duration, log_shade), is_wide=True)
    yield Part(
        "",
        table=class_table("Mean bounded slowdown", rows, "bounded_slowdown_mean", lambda v: number(round(v, 2)), log_shade),
        is_wide=True,
    )
    yield Part(
        "Larger values are darker, on a logarithmic scale. The third table has the numbers of jobs: means of few are uncertain.",
        table=class_table("Jobs", rows, "jobs", number, log_shade),
        is_wide=True,
    )


# ---- suspensions ----


def _suspensions(run: Run) -> Section | None:
    """The suspended jobs; None if there are none."""
    known = run.schedule.suspensions
    title = "Suspensions"
    if known is None:
        return Section(title, lacks=["Whether jobs were suspended is not recorded."])
    if known.is_empty():
        return None
    by_job = (
        known.with_columns(length=pl.col("resume") - pl.col("suspend"))
        .group_by("job")
        .agg(pl.len().alias("times"), pl.col("suspend").min(), pl.col("length").sum(), pl.col("length").null_count().alias("open"))
        .join(
            run.schedule.jobs.select("id", "submit", "start", "end", "processors", "partition"),
            left_on="job",
            right_on="id",
            how="left",
        )
        .sort("length", "job", descending=[True, False])
    )
    words = (
        f"{counted(known.height, 'suspension')} of {counted(by_job.height, 'job')} "
        f"({percent(by_job.height / run.schedule.jobs.height)}). "
        f"The total time suspended per suspended job is {duration(float(by_job['length'].sum() or 0) / by_job.height)} on average."
    )
    begin = 0.0 if run.window is None else run.window.begin
    rows = [
        (
            f"{row['job']}",
            number(row["processors"]),
            row["partition"] or "-",
            number(row["times"]),
            duration(row["suspend"] - begin) if row["suspend"] is not None else "-",
            duration(row["length"]) + (" and longer" if row["open"] else ""),
            duration(row["start"] - row["submit"]) if row["start"] is not None else "-",
        )
        for row in by_job.head(_MOST_SUSPENDED).iter_rows(named=True)
    ]
    if by_job.height > _MOST_SUSPENDED:
        words += f" The table has the {_MOST_SUSPENDED} that were suspended longest, suspensions.csv has all of them."
    words = f"{words} {suspended_words([run.metrics['validity']])}".rstrip()
    table = Table(
        "Suspended jobs, the longest suspended first",
        ("job", "processors", "partition", "suspensions", "first after", "total time suspended", "wait before its start"),
        rows,
    )
    return Section(title, [Part(words, table=table, is_wide=True)])


# ---- the verdict, all metrics, inputs ----


def _verdict_words(run: Run) -> str:
    validity = run.metrics["validity"]
    about = "docs/validity.md defines the figures and gives the reasons for the bounds. Times are in trace time."
    coarse = [f" {name} is inconclusive: {reason}." for name, reason in inconclusive_metrics(validity).items()]
    return f"The run is {with_reasons(validity)}.{''.join(coarse)} {about}"


def _verdict_table(run: Run) -> Table:
    validity = run.metrics["validity"]
    bounds = validity["bounds"]
    rows = []
    for name, words, unit, value in figures_of(validity, run.unused):
        bound = bounds.get(name)
        beyond = bound is not None and isinstance(value, (int, float)) and abs(value) > bound
        judged = "beyond" if beyond else "within" if bound is not None else ""
        rows.append((words, value_text(value, unit), "-" if bound is None else value_text(bound, unit), judged))
    return Table("Figures of the emulation, and their bounds in this run", ("figure", "value", "bound", ""), rows)


def _stretch_by_class(run: Run) -> Iterable[Part]:
    """The table of the classes whose run times the verdict looks at."""
    rows = [
        (
            row["size"],
            row["runtime"],
            number(row["jobs"]),
            *(value_text(row[name], "share") for name in ("p1", "p50", "p99")),
            {"all": "yes", "median": "its median", "nothing": "no: few jobs"}[row["judged"]],
        )
        for row in run.metrics["validity"]["stretch_classes"]
    ]
    if rows:
        headings = ("processors", "run time", "jobs", "1st percentile", "median", "99th percentile", "judged")
        words = "How much longer than wanted jobs ran (below 0: shorter), as a share of their run times, beyond what is resolved."
        yield Part(words, table=Table("Run-time stretch by class of jobs", headings, rows), is_wide=True)


def _all_metrics(run: Run) -> Table:
    rows, kinds = [], kinds_of_errors(run.metrics)
    for name, value, unit, meaning in definitions.table(dict(run.metrics)):
        if name in run.unused:
            continue
        log = [] if not run.log_metrics else [value_text(run.log_metrics.get(name), unit)]
        rows.append((name, value_text(value, unit) + errors_text(run.metrics, name, kinds), *log, meaning))
    headings = ("metric", "emulation", "log, the same jobs", "meaning") if run.log_metrics else ("metric", "emulation", "meaning")
    return Table("All metrics (metrics.json)", headings, rows, prose=(len(headings) - 1,))


def _left_out(run: Run) -> str:
    listed = [f"{counted(amount, 'job')} ({reason})" for reason, amount in run.metrics["excluded"].items()]
    return f"Left out: {', '.join(listed)}." if listed else "No job is left out."


def _not_played(run: Run) -> Iterable[Part]:
    """Requests of the jobs that were not emulated."""
    if not (counts := run.metrics["not_played"]):
        yield Part("All requests of the jobs that the log records were emulated.")
        return
    rows = [(not_played.WORDS.get(kind, kind), number(count["jobs"]), percent(count["share"])) for kind, count in counts.items()]
    yield Part(
        "Requests of the log's jobs that were not emulated:",
        table=Table("Requests that are not emulated", ("request", "jobs", "share of the processor time"), rows),
        is_wide=True,
    )


def commands(run: Run) -> Table:
    """The table of commands that recompute the numbers of the page."""
    campaign = run.folder.path.parent  # the folder of a sweep or comparison holds those of its runs
    place = f"{campaign.name}/{run.folder.name}" if (campaign / EXPERIMENT_FILE).is_file() else run.folder.name
    asked, tau = place.partition("/")[0], float(run.metrics["settings"]["tau"])
    taus = "" if tau == 10 else f" TAU={tau:g}"
    taus += "".join(f" {name}={run.knobs[name]}" for name in ("WARMUP_CUT", "COOLDOWN_CUT") if run.knobs.get(name, "0") != "0")
    shown = [("all metrics and figures, as tables on the terminal", f"make metrics RUN={asked}")] if asked == place else []
    rows = [
        (
            f"all files and this page, from the records of the replay, {run.folder.manager.names.manager} and sigsleep",
            f"make check RUN={asked}",
        ),
        ("this page, from the files", f"make report RUN={asked}"),
        *shown,
        ("all metrics, from jobs.csv and the tables beside it", f"make metrics TRACE=results/{place}/jobs.csv{taus}"),
        (
            "metrics that need neither suspensions nor nodes of jobs (SWF has neither), from schedule.swf",
            f"make metrics TRACE=results/{place}/schedule.swf{taus}",
        ),
    ]
    if isinstance(run.recorded, pl.DataFrame):
        rows.append(("the metrics of the same jobs in the log", f"make metrics TRACE=results/{place}/recorded.csv{taus}"))
    rows.append(("the run itself", "the same command, with the inputs above and another RUN"))
    return Table("Commands", ("result", "command"), rows, prose=(1,))
