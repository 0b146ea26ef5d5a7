"""How far the waits of a run agree with those that the log records of the same jobs, and why they may not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mirage.records.agreement import agreement
from mirage.reports import distributions
from mirage.reports.page import Part, Table
from mirage.reports.run_data import Run
from mirage.reports.words import counted, duration, percent


def parts(run: Run) -> Iterable[Part]:
    """What is told of the log beside the emulation; nothing where it is not known."""
    if isinstance(run.recorded, str) or run.pairs.is_empty():
        return
    told = agreement(run.pairs, run.recorded)
    correlation = told["rank_correlation"]
    words = [
        f"In the log these jobs waited {duration(told['log_mean'])} in the mean, in the emulation "
        f"{duration(told['emulation_mean'])} "
        f"(medians {duration(told['log_median'])} and {duration(told['emulation_median'])}). "
        f"{percent(told['within_minute'])} of them waited equally long to within a minute; {percent(told['shorter'])} waited "
        f"longer in the log, {percent(told['longer'])} in the emulation.",
        "The log's waits are in whole minutes." if told["whole_minutes"] else "",
        ""
        if correlation is None
        else f"The rank correlation of the two waits is {correlation:.2f} (1: the same order of jobs; 0: none).",
        _others_words(told, run.processors),
    ]
    yield Part(" ".join(word for word in words if word), is_wide=True)
    for picture in (distributions.scatter(run.pairs), distributions.differences(told["classes"])):
        yield Part(picture.description, picture)
    yield Part("", table=_reasons(run), is_wide=True)


def _others_words(told: Mapping[str, Any], processors: int) -> str:
    share, at_begin = told["others_share"], told["others_at_begin"]
    if share is None or (share < 0.0005 and not at_begin):
        return "No other jobs of the log ran on the real machine in that time."
    began = (
        f"{counted(at_begin, 'job')} held {counted(told['others_processors_at_begin'], 'processor')}"
        if at_begin
        else "none of them ran"
    )
    return (
        f"On the real machine there were others: when the first of these jobs was submitted {began}, and until the last "
        f"submission {percent(share)} of the processor time "
        f"in use was theirs. The emulation had {counted(processors, 'processor')} for these jobs alone."
    )


def _reasons(run: Run) -> Table:
    """Why the waits may differ, beside what is known of it here."""
    knobs = run.knobs
    preset, extended = knobs.get("PRESET", "none"), run.metrics["validity"].get("limits_extended") or 0
    beside = "not in the emulation" if preset == "none" else f"those that were there at the beginning are (PRESET={preset})"
    rows = [
        (
            "its scheduler and policy",
            f"the real one's queues, priorities, limits and reservations; here configuration {knobs.get('CONFIG', '?')} of Slurm",
        ),
        ("its other jobs", f"jobs before and beside the selected ones: {beside}"),
        ("its outages", "nodes that were down, maintenance, a scheduler that was stopped: not in the log, not emulated"),
        ("its people", "jobs held, changed, sent ahead by hand; users who waited for results before they submitted more"),
        ("its size", f"here {counted(run.processors, 'processor')} all of the time"),
        ("time limits", f"extended here for {counted(extended, 'job')} (OVERRUN={knobs.get('OVERRUN', 'extend')})"),
        ("the emulation itself", "see Can the run be trusted?"),
    ]
    return Table("Why waits in the log and here may differ", ("of the real machine", "what is known of it"), rows, prose=(1,))
