"""The section of a run's page about jobs that changed their size."""

from __future__ import annotations

from mirage.reports.page import Part, Section, Table
from mirage.reports.run_data import Run
from mirage.text.words import counted, duration, number, percent

TITLE = "Changes of size"
_KINDS = {"none": "no change", "expand": "expansion", "shrink": "shrink"}


def section(run: Run) -> Section | None:
    """What the broker answered, how long it took and what changes cost; None for a run without malleable jobs."""
    member = run.metrics.get("resizes")
    if not member:
        return None
    jobs, submitted = member["malleable_jobs"], run.metrics["jobs"]["submitted"]
    done = sum(member[kind]["count"] for kind in ("expand", "shrink"))
    words = (
        f"{counted(jobs, 'malleable job')} ({percent(jobs / submitted if submitted else 0.0)} of the jobs) asked the broker "
        f"{counted(member['checks'], 'time')} whether to change their size, and did so {counted(done, 'time')}. Answers in seconds "
        "of the cluster; that of a shrink comes after the job has moved its data. Costs in trace time."
    )
    rows = [
        (
            words_of_kind,
            number(of_kind["count"]),
            number(of_kind.get("per_job")),
            number(of_kind.get("not_done")),
            *(_seconds(of_kind[name]) for name in ("mean", "std", "max")),
            _seconds(of_kind.get("cost_mean")),
        )
        for kind, words_of_kind in _KINDS.items()
        for of_kind in (member[kind],)
    ]
    headings = ("answer", "number", "per malleable job", "not done", "mean", "standard deviation", "longest", "mean cost")
    return Section(TITLE, [Part(words, table=Table("The broker's answers", headings, rows), is_wide=True)])


def _seconds(value: float | None) -> str:
    """Short times with three digits."""
    if value is None:
        return "-"
    return duration(value) if value >= 60 else f"{value:.3g} s"
