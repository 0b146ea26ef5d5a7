"""The section of a run's page with why jobs waited: by cause over time, by groups of jobs, and the longest waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from mirage.records.file_names import JOBS_FILE, WAITS_FILE
from mirage.records.wait_causes import CAUSES, UNEXPLAINED, sentence
from mirage.reports.page import Part, Section, Table
from mirage.reports.run_data import Run
from mirage.reports.theme import COLOURS, INK
from mirage.reports.timeline import Steps, Timeline
from mirage.text.words import counted, duration, number, percent
from mirage.verdict.wait_settings import trials

TITLE = "Why jobs waited"
_OTHERS, _GREY = "other causes", "#999999"
_GROUPS = (
    ("processors", "by_size"),
    ("run time", "by_runtime"),
    ("user", "by_user"),
    ("partition", "by_partition"),
)


def section(run: Run) -> Section | None:
    """The section; None if no job waited."""
    member = run.metrics["wait_causes"]
    if not member["waited"]:
        return None
    parts = [Part(_words(member), timeline=_over_time(run, member), table=_causes(member), is_wide=True)]
    parts += [Part("", table=table, is_wide=True) for table in _tables(member)]
    if run.folder.has(JOBS_FILE) and (found := trials(run.folder)):
        words = f"Settings to which this points; make why RUN={run.folder.name} prints the commands that try them:"
        parts.append(Part(words, points=[f"{trial.held}; to try {trial.change}" for trial in found], is_wide=True))
    parts.append(Part("The longest waits:", points=[sentence(one) for one in member["longest"]], is_wide=True))
    return Section(TITLE, parts)


def _words(member: Mapping[str, Any]) -> str:
    words = (
        f"{counted(member['jobs'], 'job')} waited {duration(member['waited'])} in total. "
        f"{percent(member['unexplained'])} of that is not explained. docs/why.md says how each cause is found."
    )
    if not member["reasons_recorded"]:
        words += " The resource manager's own reasons were not recorded: causes are only those that follow from the schedule."
    return words


def _shown(member: Mapping[str, Any]) -> list[str]:
    """The causes with colours of their own: those of most of the waiting time, in the order of CAUSES."""
    explained = [cause for cause in member["causes"] if cause != UNEXPLAINED]
    most = sorted(explained, key=lambda cause: -member["causes"][cause])[: len(COLOURS)]
    return [cause for cause in explained if cause in most]


def _over_time(run: Run, member: Mapping[str, Any]) -> Timeline | None:
    """Waiting jobs by cause, stacked."""
    window = run.window
    if window is None or window.length <= 0 or not run.folder.has(WAITS_FILE):
        return None
    frame, spans, shown = Timeline(window.begin, window.end), run.folder.waits, _shown(member)
    colours = dict(zip(shown, COLOURS, strict=False))
    named = spans.with_columns(name=pl.when(pl.col("cause").is_in([*shown, UNEXPLAINED])).then("cause").otherwise(pl.lit(_OTHERS)))
    series = [_level(named.filter(pl.col("name") == name), name, frame) for name in (*shown, _OTHERS, UNEXPLAINED)]
    drawn = [steps for steps in series if steps.values.any()]
    inks = [colours.get(steps.name, INK if steps.name == UNEXPLAINED else _GREY) for steps in drawn]
    words = "Jobs in the queue by why they waited, on top of each other."
    return Timeline(frame.begin, frame.end, [frame.areas("wait-causes", "Waiting jobs by cause", words, drawn, inks, "jobs")])


def _level(spans: pl.DataFrame, name: str, frame: Timeline) -> Steps:
    """Number of the spans at each instant."""
    changes = pl.concat([spans.select(time="from", step=pl.lit(1)), spans.select(time="to", step=pl.lit(-1))])
    sums = changes.group_by("time").agg(pl.col("step").sum()).sort("time").with_columns(pl.col("step").cum_sum())
    times = np.concatenate([[frame.begin], sums["time"].to_numpy().clip(frame.begin, frame.end), [frame.end]])
    return Steps(name, times, np.concatenate([[0.0], sums["step"].to_numpy().astype(np.float64)]))


def _causes(member: Mapping[str, Any]) -> Table:
    rows = [
        (cause, CAUSES.get(cause, cause), percent(share), duration(share * member["waited"]))
        for cause, share in sorted(member["causes"].items(), key=lambda one: -one[1])
    ]
    return Table("Waiting time by cause", ("cause", "meaning", "share", "time"), rows, prose=(1,))


def _tables(member: Mapping[str, Any]) -> Iterable[Table]:
    shown = [cause for cause in CAUSES if cause in member["causes"]]
    for noun, name in _GROUPS:
        groups: Sequence[Mapping[str, Any]] = member[name]
        if len(groups) < 2:
            continue
        more = (
            f" (the {len(groups)} of {member['users']} users who waited most)"
            if name == "by_user" and len(groups) < member["users"]
            else ""
        )
        rows = [
            (
                one["name"],
                number(one["jobs"]),
                duration(one["waited"] / one["jobs"]),
                *(percent(one["causes"][cause]) if cause in one["causes"] else "-" for cause in shown),
            )
            for one in groups
        ]
        shades = [(None, None, *(one["causes"].get(cause) for cause in shown)) for one in groups]
        yield Table(f"Shares of the waiting time by {noun}{more}", (noun, "jobs", "mean", *shown), rows, shades=shades)
