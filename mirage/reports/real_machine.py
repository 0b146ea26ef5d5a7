"""The section of a run's page that compares its waits with those of the same jobs in the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mirage.records.agreement import agreement
from mirage.reports import distributions
from mirage.reports.page import Part, Table
from mirage.reports.run_data import Run
from mirage.text.words import counted, duration, number, percent
from mirage.workloads import not_played


def parts(run: Run) -> Iterable[Part]:
    """The parts of the section; none if no wait is known in both schedules."""
    if isinstance(run.recorded, str) or run.pairs.is_empty():
        return
    result = agreement(run.pairs, run.recorded, run.metrics.get("not_played") or {})
    correlation = result["rank_correlation"]
    sentences = [
        f"This comparison is inconclusive: {result['inconclusive']}." if result["inconclusive"] else "",
        f"In the log these jobs waited {duration(result['log_mean'])} on average, in the emulation "
        f"{duration(result['emulation_mean'])} "
        f"(medians {duration(result['log_median'])} and {duration(result['emulation_median'])}). "
        f"The waits of {percent(result['within_minute'])} of them differ by at most a minute; {percent(result['shorter'])} waited "
        f"longer in the log, {percent(result['longer'])} in the emulation.",
        "The log's waits are in whole minutes." if result["whole_minutes"] else "",
        ""
        if correlation is None
        else f"The rank correlation of the two waits is {correlation:.2f} (1: the same order of jobs; 0: no correlation).",
        _others_sentence(result, run.processors),
    ]
    yield Part(" ".join(sentence for sentence in sentences if sentence), is_wide=True)
    for picture in (distributions.scatter(run.pairs), distributions.differences(result["classes"])):
        yield Part(picture.description, picture)
    yield Part("", table=_reasons(run), is_wide=True)


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
        ("requests that are not emulated", not_played.in_words(run.metrics.get("not_played") or {}) or "none is known"),
        ("the emulation itself", "see Validity"),
    ]
    return Table("Possible causes of different waits", ("cause", "in this run"), rows, prose=(1,))
