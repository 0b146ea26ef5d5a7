"""Draws the pictures of a search: the front, the importance of the settings, the figure by value, and the course of the trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from mirage.metrics.registry import METRICS
from mirage.reports import theme
from mirage.reports.measures import figure
from mirage.reports.pictures import Picture, draw
from mirage.text.words import counted, percent

BASE, BEST, FRONT, OTHER, BEYOND = "base", "best", "on the front", "other trials", "beyond a limit"
_COLOURS = {BASE: theme.INK, BEST: theme.RED, FRONT: theme.BLUE, OTHER: theme.SKY, BEYOND: "#8c8c8c"}
_SHAPES = {BASE: "square", BEST: "triangle-up", FRONT: "circle", OTHER: "circle", BEYOND: "cross"}


def kind_of(content: Mapping[str, Any], trial: Mapping[str, Any]) -> str:
    """What a trial of search.json is on the pictures."""
    if trial["number"] == content["best"] and trial["changed"]:
        return BEST
    if not trial["changed"]:
        return BASE
    return FRONT if trial["number"] in content["front"] else BEYOND if trial["breaks"] else OTHER


def _axis_of(metric: str) -> alt.Axis:
    one = METRICS[metric]
    title = f"{one.in_sentences}{', seconds' if one.unit == 's' else ''}"
    return theme.percent_axis(title) if one.is_share else alt.Axis(title=title, tickCount=5)


def _kinds(rows: pl.DataFrame) -> tuple[alt.Color, alt.Shape]:
    there = [kind for kind in _COLOURS if kind in rows["kind"]]
    colours = alt.Scale(domain=there, range=[_COLOURS[kind] for kind in there])
    shapes = alt.Scale(domain=there, range=[_SHAPES[kind] for kind in there])
    return alt.Color("kind:N", scale=colours), alt.Shape("kind:N", scale=shapes)


def front(content: Mapping[str, Any]) -> Picture | None:
    """The trials in the plane of the two metrics; None if too few have both."""
    goal, second = content["goal"], content["second"]
    known = [one for one in content["trials"] if one["figure"] is not None and one["second"] is not None]
    if len(known) < 2:
        return None
    rows = pl.DataFrame(
        [(one["number"], one["figure"], one["second"], kind_of(content, one)) for one in known],
        schema=["trial", "figure", "second", "kind"],
        orient="row",
    )
    x = alt.X("figure:Q", axis=_axis_of(goal), scale=alt.Scale(zero=False, nice=True, padding=12))
    y = alt.Y("second:Q", axis=_axis_of(second), scale=alt.Scale(zero=False, nice=True, padding=12))
    colour, shape = _kinds(rows)
    on_front = rows.filter(pl.col("trial").is_in(content["front"]))
    line = alt.Chart(on_front).mark_line(strokeWidth=1.5, strokeDash=[5, 3]).encode(x=x, y=y, order="figure:Q")
    points: Any = alt.Chart(rows).mark_point(size=90, filled=True, opacity=0.9).encode(x=x, y=y, color=colour, shape=shape)
    shown = "; ".join(
        f"trial {one['number']}: {figure(goal, one['figure'])}, {figure(second, one['second'])}"
        for one in known
        if one["number"] in content["front"]
    )
    names = f"{METRICS[goal].in_sentences} and {METRICS[second].in_sentences}"
    words = f"On the front of {names}, no other trial is better in one without being worse in the other: {shown}."
    return draw((line + points).properties(width=theme.WIDTH, height=theme.HEIGHT), "front", f"Front of {names}", words)


def importance(content: Mapping[str, Any]) -> Picture | None:
    """The share of each setting in what all of them change; None where it is not known."""
    known = [one for one in content["settings"] if one["share"] is not None]
    if not known:
        return None
    rows = pl.DataFrame([(one["name"], one["share"]) for one in known], schema=["setting", "share"], orient="row")
    rows = rows.sort("share", descending=True)
    chart = (
        alt.Chart(rows)
        .mark_bar(color=theme.BLUE)
        .encode(
            x=alt.X("share:Q", axis=theme.percent_axis("share of what the settings change"), scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("setting:N", sort=rows["setting"].to_list(), axis=alt.Axis(title=None, ticks=False, labelLimit=260)),
        )
        .properties(width=theme.WIDTH, height=34 * rows.height + 10)
    )
    words = "; ".join(f"{name} {percent(share)}" for name, share in rows.iter_rows())
    return draw(chart, "importance", "Importance of the settings", f"{words}.")


def by_value(content: Mapping[str, Any]) -> Iterator[Picture]:
    """For each setting the figure of the trials with each of its values, and their mean change by this setting alone."""
    goal = content["goal"]
    known = [one for one in content["trials"] if one["figure"] is not None]
    if not known:
        return
    mean = sum(one["figure"] for one in known) / len(known)
    for one in content["settings"]:
        name, values = one["name"], one["values"]
        rows = pl.DataFrame(
            [(trial["settings"][name], trial["figure"], kind_of(content, trial)) for trial in known],
            schema=["value", "figure", "kind"],
            orient="row",
        )
        axis = alt.Axis(title=f"{name} (base: {one['base']})", labelAngle=0)
        x = alt.X("value:N", sort=list(values), scale=alt.Scale(domain=list(values)), axis=axis)
        y = alt.Y("figure:Q", axis=_axis_of(goal), scale=alt.Scale(zero=False, nice=True))
        colour, shape = _kinds(rows)
        chart: Any = alt.Chart(rows).mark_point(size=70, filled=True, opacity=0.8).encode(x=x, y=y, color=colour, shape=shape)
        words = f"Trials by {name}"
        if one["by_value"] is not None:
            line = pl.DataFrame({"value": values, "figure": [mean + moved for moved in one["by_value"]]})
            chart = alt.Chart(line).mark_line(strokeWidth=2, color=theme.ORANGE).encode(x=x, y=y) + chart
            moved = "; ".join(f"{value}: {_signed(goal, by)}" for value, by in zip(values, one["by_value"], strict=True))
            words = f"The line is what {name} alone changes, by the model of all trials: {moved}"
        title = f"{METRICS[goal].in_sentences.capitalize()} by {name}"
        yield draw(chart.properties(width=theme.WIDTH, height=theme.HEIGHT), f"by-{name}", title, f"{words}.")


def _signed(goal: str, change: float) -> str:
    return f"{'-' if change < 0 else '+'}{figure(goal, abs(change))}"


def course(content: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]) -> Picture | None:
    """The figure of each trial in their order, and the best so far."""
    goal = content["goal"]
    known = [one for one in trials if one["figure"] is not None]
    if len(known) < 2:
        return None
    better = max if METRICS[goal].better == "higher" else min
    best: list[float | None] = []
    so_far: float | None = None
    for one in known:
        if not one["breaks"]:
            so_far = one["figure"] if so_far is None else better(so_far, one["figure"])
        best.append(so_far)
    rows = pl.DataFrame(
        [(one["number"], one["figure"], kind_of(content, one), reached) for one, reached in zip(known, best, strict=True)],
        schema={"trial": pl.Int64, "figure": pl.Float64, "kind": pl.String, "best": pl.Float64},
        orient="row",
    )
    x = alt.X("trial:Q", axis=alt.Axis(title="trial", tickMinStep=1, format="d"), scale=alt.Scale(nice=False, padding=10))
    scale = alt.Scale(zero=False, nice=True)
    colour, shape = _kinds(rows)
    line = (
        alt.Chart(rows)
        .mark_line(interpolate="step-after", strokeWidth=2, color=theme.ORANGE)
        .encode(x=x, y=alt.Y("best:Q", axis=_axis_of(goal), scale=scale))
    )
    points: Any = (
        alt.Chart(rows)
        .mark_point(size=80, filled=True, opacity=0.9)
        .encode(x=x, y=alt.Y("figure:Q", axis=_axis_of(goal), scale=scale), color=colour, shape=shape)
    )
    words = f"{counted(len(known), 'trial')} of all jobs; the line is the best so far, {figure(goal, so_far)} in the end."
    chart = (line + points).properties(width=theme.WIDTH, height=theme.HEIGHT)
    return draw(chart, "course", "Course of the search", words)
