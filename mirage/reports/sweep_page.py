"""The page of a sweep: metrics by SHRINK, with the validity of the runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from mirage.metrics.registry import METRICS
from mirage.records.run_folder import RunFolder
from mirage.records.sweep_lines import lines_of
from mirage.reports import theme
from mirage.reports.measures import figure, inputs
from mirage.reports.page import Part, Section, Table, Verdict, report
from mirage.reports.pictures import Picture, draw
from mirage.reports.run_page import CHECK
from mirage.text.words import counted
from mirage.verdict.features import unused_in_all
from mirage.verdict.verdict import INCONCLUSIVE, INVALID, VALID, WORDS

DRAWN = tuple(name for name, metric in METRICS.items() if metric.in_sweep == "shown")
_FILLS = {WORDS[VALID]: theme.BLUE, WORDS[INVALID]: "white", WORDS[INCONCLUSIVE]: "#bbbbbb"}


def page(folder: Path) -> str:
    """The page as HTML, from sweep.csv, experiment.json and status.json in the sweep's folder."""
    lines = lines_of(folder)
    named = {words: [line["run"] for line in lines if _words(line["ending"]) == words] for words in WORDS.values()}
    sentences = [
        f"{len(runs)} of {len(lines)} runs are {words}: {', '.join(runs)}."
        for words, runs in named.items()
        if runs and words != WORDS[VALID]
    ]
    answer = " ".join([*sentences, "Their points are hollow or grey."]) if sentences else f"All {len(lines)} runs are valid."
    return report(f"Sweep {folder.name}", [_summary(lines)], Verdict(not sentences, answer), _sections(folder, lines))


def _words(ending: str) -> str:
    """The verdict in words, by the ending of a run; not valid if it did not end."""
    return {"ok": WORDS[VALID], "inconclusive": WORDS[INCONCLUSIVE]}.get(ending, WORDS[INVALID])


def _summary(lines: list[dict[str, str]]) -> str:
    factors = ", ".join(line["shrink"] for line in lines)
    return (
        f"{counted(len(lines), 'run')} of the same jobs, with all times of the log multiplied by SHRINK = {factors} per cent. "
        "Metrics are in trace time: they would be equal for all factors if the emulation had no influence, and if the scheduler "
        "had no time constants of its own."
    )


def _sections(folder: Path, lines: list[dict[str, str]]) -> Iterable[Section]:
    rows = [
        (f"{line['shrink']} %", line["ending"], *(figure(name, _value(line.get(name))) for name in DRAWN), line["completed"])
        for line in lines
    ]
    headings = ("SHRINK", "verdict", *(METRICS[name].in_sentences for name in DRAWN), "jobs completed")
    links = [f"../{line['run']}/report.html" for line in lines]
    words = "Each row links to the page of its run. sweep.csv has all columns."
    yield Section("Results", [Part(words, table=Table("Metrics by shrink factor", headings, rows, links=links), is_wide=True)])
    drawn = [picture for name in DRAWN if (picture := metric_picture(name, lines))]
    yield Section("Metrics by SHRINK", [Part(picture.description, picture) for picture in drawn])
    experiment = RunFolder(folder).experiment
    metrics = [content for line in lines if (content := RunFolder(folder.parent / line["run"]).metrics)]
    unused = unused_in_all(metrics, experiment)
    yield Section("Inputs", [Part("", table=table, is_wide=True) for table in inputs(experiment, unused)])
    commands = [
        ("all files and pages, from the records of the replay, Slurm and sigsleep", f"make check RUN={folder.name}"),
        ("this page, from sweep.csv", f"make report RUN={folder.name}"),
        ("the page of a run", "make report RUN=its name"),
        ("all metrics of a run", "make metrics RUN=its name"),
    ]
    table = Table("Commands", ("result", "command"), commands, prose=(1,))
    yield Section("How to reproduce the numbers", [Part(CHECK, table=table, is_wide=True)])


def _value(text: str | None) -> float | None:
    return float(text) if text else None


def metric_picture(name: str, lines: list[dict[str, str]]) -> Picture | None:
    """The picture of a metric by shrink factor; None if no run has it."""
    known = [(float(line["shrink"]), value, line["ending"]) for line in lines if (value := _value(line.get(name))) is not None]
    if not known:
        return None
    metric = METRICS[name]
    rows = pl.DataFrame(
        [(shrink, value, _words(ending)) for shrink, value, ending in known],
        schema=["shrink", "value", "verdict"],
        orient="row",
    ).sort("shrink")
    x = alt.X("shrink:Q", axis=alt.Axis(title="SHRINK in per cent", tickCount=6), scale=alt.Scale(zero=False, nice=True))
    title = f"{metric.in_sentences}{', seconds' if metric.unit == 's' else ''}"
    axis = theme.percent_axis(title) if metric.is_share else alt.Axis(title=title, tickCount=5)
    y = alt.Y("value:Q", axis=axis, scale=theme.from_zero())
    line = alt.Chart(rows).mark_line(strokeWidth=1.8).encode(x=x, y=y)
    points: Any = (
        alt.Chart(rows)
        .mark_point(size=90, stroke=theme.BLUE, strokeWidth=2, opacity=1)
        .encode(
            x=x,
            y=y,
            fill=alt.Fill(
                "verdict:N",
                scale=alt.Scale(domain=list(_FILLS), range=list(_FILLS.values())),
                legend=alt.Legend(symbolStrokeColor=theme.BLUE, values=[kind for kind in _FILLS if kind in rows["verdict"]]),
            ),
        )
    )
    points_text = "; ".join(
        f"{shrink:g} %: {figure(name, value)}{'' if ending == 'ok' else f' ({_words(ending)})'}" for shrink, value, ending in known
    )
    chart = (line + points).properties(width=theme.WIDTH, height=theme.HEIGHT)
    return draw(chart, name.replace("_", "-"), metric.in_sentences.capitalize(), f"{points_text}.")
