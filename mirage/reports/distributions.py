"""Draws the distributions of waits and slowdowns, and compares waits with those recorded in the log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from mirage.records.agreement import CLASSES
from mirage.reports import theme
from mirage.reports.pictures import Picture, draw
from mirage.text.words import counted, duration, number, percent

# Points of a distribution's curve, and classes of waits per axis of the scatter plot.
_POINTS, _CELLS = 240, 36
_LOWEST = 1.0


def waits(series: Mapping[str, pl.Series]) -> Picture:
    """Cumulative distributions of waits (seconds), by name of the series."""
    longest = max((float(values.max() or 0.0) for values in series.values()), default=0.0)  # type: ignore[arg-type]
    axis, scale = theme.duration_axis(longest, "wait (logarithmic)")
    summaries = [
        f"{name}: {percent(float((values <= _LOWEST).mean() or 0.0))} waited for at most {duration(_LOWEST)}, half for up to "  # type: ignore[arg-type]
        f"{duration(float(values.median() or 0.0))}, 95 % for up to {duration(float(values.quantile(0.95) or 0.0))}"  # type: ignore[arg-type]
        for name, values in series.items()
        if len(values)
    ]
    description = f"{'; '.join(summaries)}. A curve begins at the left with the share of the jobs that did not wait."
    return _cumulative(series, axis, scale, "share of jobs up to this wait", "waits", "Waits", description)


def slowdowns(series: Mapping[str, pl.Series], tau: float) -> Picture:
    """Cumulative distributions of bounded slowdowns, by name of the series; `tau`: threshold of the run time in seconds."""
    largest = max((float(values.max() or 1.0) for values in series.values()), default=1.0)  # type: ignore[arg-type]
    top = max(10.0, largest * 1.1)
    powers = [10**power for power in range(len(f"{top:.0f}")) if 10**power <= top]
    axis = alt.Axis(values=powers, format=",", title="bounded slowdown (logarithmic)", grid=True)
    summaries = [
        f"{name}: {percent(float((values < 1.01).mean() or 0.0))} of the jobs are below 1.01, half up to "  # type: ignore[arg-type]
        f"{number(float(values.median() or 1.0))}, 95 % up to {number(float(values.quantile(0.95) or 1.0))}"  # type: ignore[arg-type]
        for name, values in series.items()
        if len(values)
    ]
    description = (
        f"{'; '.join(summaries)}. Bounded slowdown is response time over run time; run times below {duration(tau)} count as "
        f"{duration(tau)}."
    )
    scale = alt.Scale(type="log", domain=[1, top], nice=False)
    return _cumulative(series, axis, scale, "share of jobs up to this slowdown", "slowdowns", "Bounded slowdowns", description)


def _cumulative(
    series: Mapping[str, pl.Series], axis: alt.Axis, scale: alt.Scale, y_title: str, name: str, title: str, description: str
) -> Picture:
    low, high = scale["domain"]
    at = np.geomspace(low, high, _POINTS)
    parts = []
    for of, values in series.items():
        ordered = np.sort(values.to_numpy())
        share = np.searchsorted(ordered, at * (1 + 1e-9), side="right") / max(1, ordered.size)
        parts.append(pl.DataFrame({"x": at, "share": share, "of": [of] * at.size}))
    chart = step_lines(pl.concat(parts), list(series), alt.X("x:Q", axis=axis, scale=scale), theme.percent_axis(y_title))
    return draw(chart.properties(width=theme.WIDTH, height=theme.HEIGHT), name, title, description)


def step_lines(rows: pl.DataFrame, names: list[str], x: alt.X, y_axis: alt.Axis) -> Any:
    """Step lines of the columns x, share (0 to 1) and of (name of the series), with a colour and a dash pattern per series."""
    colours, dashes = theme.series_colours(names)
    legend = alt.Legend(direction="vertical", symbolStrokeWidth=2.5) if len(names) > 1 else None
    return (
        alt.Chart(rows)
        .mark_line(interpolate="step-after", clip=True)
        .encode(
            x=x,
            y=alt.Y("share:Q", axis=y_axis, scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("of:N", scale=colours, legend=legend),
            strokeDash=alt.StrokeDash("of:N", scale=dashes, legend=None if legend is None else alt.Undefined),
            order="x:Q",
        )
    )


def scatter(pairs: pl.DataFrame) -> Picture:
    """Scatter plot of waits in the log (x) and in the emulation (y); the area of a circle is the number of jobs.

    pairs: of `nearness.pairs_of`
    """
    longest = float(pairs.select(pl.max_horizontal("record", "run").max()).item() or 1.0)
    (x_axis, scale), (y_axis, _) = (theme.duration_axis(longest, f"wait {where}") for where in ("in the log", "in the emulation"))
    edge = math.log(float(scale["domain"][1]))

    def cell(name: str) -> pl.Expr:
        return (pl.col(name).clip(_LOWEST).log() / edge * _CELLS).floor().clip(0, _CELLS - 1)

    cells = pairs.group_by(x=cell("record"), y=cell("run")).agg(jobs=pl.len()).sort("x", "y")
    placed = cells.with_columns((((pl.col(name) + 0.5) / _CELLS) * edge).exp() for name in ("x", "y"))
    circles = (
        alt.Chart(placed)
        .mark_circle(color=theme.BLUE, opacity=0.75, stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("x:Q", axis=x_axis, scale=scale),
            y=alt.Y("y:Q", axis=y_axis, scale=scale),
            size=alt.Size("jobs:Q", scale=alt.Scale(range=[14, 500], domainMin=1), legend=None),
        )
    )
    ends = pl.DataFrame({"x": [1.0, float(scale["domain"][1])]}).with_columns(y="x")
    equal = alt.Chart(ends).mark_line(color=theme.INK, strokeDash=[5, 4], strokeWidth=1.2).encode(x="x:Q", y="y:Q")
    above, below = (
        float(pairs.select(way.mean()).item() or 0.0) for way in (pl.col("difference") > 60, pl.col("difference") < -60)
    )
    description = (
        f"{counted(pairs.height, 'job')}. A larger circle stands for more jobs; waits below {duration(_LOWEST)} are at the edge. "
        f"On the dashed line both waits are equal. {percent(above)} of the jobs waited over a minute longer in the emulation "
        f"(above the line), {percent(below)} over a minute longer in the log (below it)."
    )
    chart = (equal + circles).properties(width=theme.WIDTH, height=theme.WIDTH)
    return draw(chart, "scatter", "Each job's wait, in the log and in the emulation", description)


def differences(classes: Mapping[str, int]) -> Picture:
    """Shares of the jobs by class of difference between the waits in the emulation and in the log."""
    total = sum(classes.values())
    names = [f"{name}" for name in CLASSES]
    rows = pl.DataFrame({"name": names, "share": [classes[name] / max(1, total) for name in CLASSES]}).with_columns(
        text=pl.col("share").map_elements(percent, return_dtype=pl.String)
    )
    y = alt.Y("name:N", sort=names, axis=alt.Axis(title=None, ticks=False, domain=False, labelLimit=200))
    bars = (
        alt.Chart(rows)
        .mark_bar()
        .encode(y=y, x=alt.X("share:Q", axis=theme.percent_axis("share of the jobs"), scale=alt.Scale(domain=[0, _room(rows)])))
    )
    texts = alt.Chart(rows).mark_text(align="left", dx=4).encode(y=y, x="share:Q", text="text:N")
    shares = ", ".join(f"{name} {percent(classes[name] / max(1, total))}" for name in CLASSES if classes[name])
    chart = (bars + texts).properties(width=theme.WIDTH - 60, height=26 * len(names))
    return draw(chart, "differences", "Waits in the emulation compared with those in the log", f"Jobs: {shares}.")


def waits_over_time(over_time: Mapping[str, Any], run: str, record: str) -> Picture:
    """Mean waits of the jobs submitted in each bin of time, in two schedules of these names; over_time: of `nearness`."""
    bins, width = over_time["bins"], over_time["width"]
    unit, length = ("days", 86_400.0) if width >= 86_400 else ("hours", 3600.0)
    begins = [(one["begin"] - bins[0]["begin"]) / length for one in bins]
    sides = {run: "run", record: "record"}
    longest = max(one["wait_mean"][side] for one in bins for side in sides.values())
    y_unit, y_length = ("h", 3600.0) if longest >= 7200 else ("min", 60.0) if longest >= 120 else ("s", 1.0)
    rows = pl.concat(
        pl.DataFrame({"x": begins, "wait": [one["wait_mean"][side] / y_length for one in bins], "of": [name] * len(bins)})
        for name, side in sides.items()
    )
    colours, dashes = theme.series_colours(sides)
    chart = (
        alt.Chart(rows)
        .mark_line(point=True)
        .encode(
            x=alt.X("x:Q", axis=alt.Axis(title=f"{unit} from the first submission", tickCount=6), scale=theme.from_zero()),
            y=alt.Y("wait:Q", axis=alt.Axis(title=f"mean wait, {y_unit}", tickCount=5), scale=theme.from_zero()),
            color=alt.Color("of:N", scale=colours, legend=theme.line_legend()),
            strokeDash=alt.StrokeDash("of:N", scale=dashes),
        )
    )
    apart = max(bins, key=lambda one: abs(one["wait_mean"]["difference"]))["wait_mean"]
    description = (
        f"Mean waits of the jobs submitted in the same {duration(width)}, of {counted(len(bins), 'bin')} with submissions. They "
        f"are farthest apart with {duration(apart['run'])} ({run}) and {duration(apart['record'])} ({record})."
    )
    title = "Mean waits by time of submission"
    return draw(chart.properties(width=theme.WIDTH, height=theme.HEIGHT), "waits-over-time", title, description)


def _room(rows: pl.DataFrame) -> float:
    """Upper end of an axis that leaves space for texts at the ends of bars."""
    return min(1.2, float(rows["share"].max() or 0.1) * 1.2)  # type: ignore[arg-type]
