"""`make figure-load`: average load of a machine whose queue is never empty, against the accuracy of estimates."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import polars as pl
from rich import box
from rich.table import Table

from mirage import RESULTS
from mirage.experiment.endings import Ending
from mirage.knobs.knobs import Knobs
from mirage.reports import folder as report
from mirage.reports.pictures import Picture, draw
from mirage.simulation.saturation import Study, measure, summary
from mirage.terminal.screen import Screen
from mirage.terminal.table import print_all
from mirage.text import output_file
from mirage.text.words import about

FOLDER = RESULTS / "figure-load"
# Seconds before progress is shown.
_PATIENCE = 5.0
PANELS = {True: "with rescheduling when a job ends early", False: "without rescheduling"}


def figure_load(knobs: Knobs, screen: Screen) -> Ending:
    """Simulate, print the table, and write picture and table into the folder OUT."""
    if not knobs.output.out:
        output_file.make_folder(FOLDER.parent)
    folder = Path(knobs.output.out) if knobs.output.out else FOLDER
    report.check(folder)
    return make(Study(seed=knobs.workload.seed), folder, screen)


def make(study: Study, folder: Path, screen: Screen) -> Ending:
    """Run a study of any size and write its files into the folder, which `report.check` has accepted."""
    began = time.monotonic()

    def progress(done: int, wanted: int) -> None:
        passed = time.monotonic() - began
        if passed > _PATIENCE:
            screen.live(f"simulated {done} of {wanted} schedules, {about(passed * (wanted - done) / done)} left")

    loads = summary(measure(study, len(os.sched_getaffinity(0)), progress))
    picture = _picture(loads, study)
    table = loads.with_columns(pl.col("mean", "low", "high").round(6)).write_csv()
    files: dict[str, str | bytes] = {"figure.csv": table, "figure.svg": picture.svg, "figure.png": picture.png()}
    report.write(folder, "figure-load", files)
    print_all(screen, "", _caption(study), *_tables(loads))
    return Ending("ok", f"{folder}: figure.svg, figure.png, figure.csv, in {about(time.monotonic() - began)}")


def _caption(study: Study) -> str:
    intervals = f"mean of {study.repetitions} repetitions and its 95 % interval" if study.repetitions > 1 else "one repetition"
    return f"average load of {study.processors} slots over {study.days:g} days, conservative backfilling; {intervals}"


def _tables(loads: pl.DataFrame) -> list[str | Table]:
    """One table for each variant, with a row for each accuracy and a column for each length of the queue."""
    parts: list[str | Table] = []
    for (rescheduling,), variant in loads.group_by("rescheduling", maintain_order=True):
        lengths = variant["waiting"].unique(maintain_order=True).to_list()
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("accuracy p", justify="right")
        for length in lengths:
            table.add_column(f"{length} waiting", justify="right")
        for (accuracy,), row in variant.group_by("accuracy", maintain_order=True):
            table.add_row(f"{accuracy:g}", *(_percent(one) for one in row.iter_rows(named=True)))
        parts += [PANELS[bool(rescheduling)], table]
    return parts


def _percent(row: dict[str, Any]) -> str:
    mean = f"{100 * row['mean']:.1f} %"
    return mean if row["low"] is None else f"{mean} ± {100 * (row['high'] - row['mean']):.1f}"


def _picture(loads: pl.DataFrame, study: Study) -> Picture:
    import altair as alt

    from mirage.reports import theme

    lengths = [f"{length} jobs waiting" for length in study.waiting]
    colours, dashes = theme.series_colours(lengths)
    rows = loads.with_columns(
        panel=pl.col("rescheduling").replace_strict(PANELS, return_dtype=pl.String),
        series=pl.format("{} jobs waiting", "waiting"),
    )
    legend = alt.Legend(symbolType="stroke", symbolStrokeWidth=2.2)
    colour = alt.Color("series:N", scale=colours, sort=lengths, legend=legend)
    dash = alt.StrokeDash("series:N", scale=dashes, sort=lengths, legend=legend)
    ticks = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~g", grid=False)
    x = alt.X("accuracy:Q", title="accuracy of estimates p", axis=ticks, scale=alt.Scale(domain=[0, 1], nice=False, padding=8))
    lowest = loads.select(pl.min_horizontal("mean", "low").min()).item()
    scale = alt.Scale(domain=[max(0, int(lowest * 10) / 10), 1], nice=False)
    axis = alt.Axis(format="~%", values=[step / 10 for step in range(11)])
    mean = alt.Y("mean:Q", title="average load", scale=scale, axis=axis)
    base = alt.Chart(alt.InlineData(rows.to_dicts()))
    layers = [
        base.mark_line().encode(x, mean, colour, dash),
        base.mark_point(filled=True, size=34, opacity=1).encode(x, mean, colour),
    ]
    if study.repetitions > 1:
        layers.append(base.mark_rule(strokeWidth=1.4).encode(x, alt.Y("low:Q", scale=scale), alt.Y2("high:Q"), colour))
    header = alt.Header(labelFontSize=13, title=None)
    panels = (
        alt.layer(*layers)
        .properties(width=theme.WIDTH, height=theme.HEIGHT)
        .facet(column=alt.Column("panel:N", sort=list(PANELS.values()), header=header))
    )
    return draw(panels, "figure-load", "Average load against the accuracy of estimates", f"{_caption(study)}. {_in_words(loads)}")


def _in_words(loads: pl.DataFrame) -> str:
    """Alternative text of the picture."""
    sentences = []
    for (rescheduling, waiting), series in loads.group_by("rescheduling", "waiting", maintain_order=True):
        first, last = (series.sort("accuracy").row(place, named=True) for place in (0, -1))
        ends = " and ".join(f"{100 * row['mean']:.0f} % at p = {row['accuracy']:g}" for row in (first, last))
        sentences.append(f"{PANELS[bool(rescheduling)]}, {waiting} jobs waiting: {ends}")
    return "; ".join(sentences).capitalize() + "."
