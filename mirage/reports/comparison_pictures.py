"""Draws the pictures of a comparison: differences with their intervals, and distributions of busy nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from mirage.metrics.registry import METRICS
from mirage.reports import theme
from mirage.reports.distributions import step_lines
from mirage.reports.pictures import Picture, draw
from mirage.statistics.comparison_text import DIFFERENT, OTHER_JOBS, THESE_JOBS
from mirage.text.words import percent

# Largest difference in per cent that is drawn; larger ones are drawn at the edge.
_FARTHEST = 200.0
_SAMPLES = 400
_SIGNIFICANT, _EQUIVALENT, _UNDECIDED = "significant", "equivalent", "undecided"

FOREST = (
    "Points are differences of the means, thick lines their 95 % intervals for these jobs, thin ones for others like them, where "
    "known. The certainty is that for these jobs. The grey band is the margin of equivalence. The table has values beyond the edge."
)


def forest(content: Mapping[str, Any], base: str, other: str, names: Sequence[str]) -> Picture | None:
    """Forest plot of the differences of the metrics `names` in per cent, with intervals and the margin of equivalence.

    content: of comparison.json
    base, other: labels of the two configurations

    None if no metric has a difference in per cent.
    """
    rows, margin = [], float(content["method"]["margin"])
    for name in names:
        metric = content["metrics"][name]
        pair = next(pair for pair in metric["pairs"] if (pair["baseline"], pair["configuration"]) == (base, other))
        if pair["percent"] is not None:
            ends = [pair[question]["percent_interval"] or [pair["percent"]] * 2 for question in (THESE_JOBS, OTHER_JOBS)]
            verdict = pair[THESE_JOBS]["verdict"]
            certainty = _SIGNIFICANT if verdict in DIFFERENT else _EQUIVALENT if verdict == "equivalent" else _UNDECIDED
            rows.append((METRICS[name].short or metric["noun"], pair["percent"], *ends[0], *ends[1], -margin, margin, certainty))
    if not rows:
        return None
    columns = ["metric", "difference", "low", "high", "low of others", "high of others", "below", "above", "certainty"]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    numbers = columns[1:8]
    reach = min(_FARTHEST, max(10.0, 1.1 * float(table.select(pl.max_horizontal(pl.col(numbers).abs().max())).item())))
    clipped = table.with_columns(pl.col(numbers).clip(-reach, reach))
    y = alt.Y("metric:N", sort=table["metric"].to_list(), axis=alt.Axis(title=None, ticks=False, labelLimit=260))
    axis = alt.Axis(title=f"difference in %, {other} - {base}", labelExpr="format(datum.value, '+~r')", tickCount=5)
    scale = alt.Scale(domain=[-reach, reach], nice=False)
    band = (
        alt.Chart(clipped)
        .mark_bar(color="#d9d9d9", height=34)
        .encode(y=y, x=alt.X("below:Q", axis=axis, scale=scale), x2="above:Q")
    )
    spread = alt.Chart(clipped).mark_rule(strokeWidth=5).encode(y=y, x=alt.X("low:Q", scale=scale), x2="high:Q")
    of_others = (
        alt.Chart(clipped).mark_rule(strokeWidth=1.5).encode(y=y, x=alt.X("low of others:Q", scale=scale), x2="high of others:Q")
    )
    kinds = [kind for kind in (_SIGNIFICANT, _EQUIVALENT, _UNDECIDED) if kind in table["certainty"]]
    points = (
        alt.Chart(clipped)
        .mark_point(size=110, stroke=theme.INK, opacity=1)
        .encode(
            y=y,
            x=alt.X("difference:Q", scale=scale),
            fill=alt.Fill(
                "certainty:N",
                scale=alt.Scale(domain=[_SIGNIFICANT, _EQUIVALENT, _UNDECIDED], range=[theme.BLUE, "#8f8f8f", "white"]),
                legend=alt.Legend(direction="vertical", symbolStrokeColor=theme.INK, values=kinds),
            ),
        )
    )
    zero = alt.Chart(pl.DataFrame({"x": [0.0]})).mark_rule(strokeDash=[5, 4]).encode(x=alt.X("x:Q", scale=scale))
    differences = "; ".join(
        f"{row[0]} {row[1]:+.3g} % ({row[2]:+.3g} to {row[3]:+.3g}"
        + (f"; for others like them {row[4]:+.3g} to {row[5]:+.3g})" if row[4] < row[5] else ")")
        for row in rows
    )
    description = f"{differences}. {FOREST}"
    name = "forest-" + "".join(letter if letter.isalnum() else "-" for letter in f"{base}-{other}")
    chart = (band + zero + of_others + spread + points).properties(width=theme.WIDTH - 80, height=34 * len(rows))
    return draw(chart, name, f"{other} against {base}", description)


def busy_nodes(known: Mapping[str, Sequence[Mapping[str, Any]]], nodes: int, base: str) -> Iterable[Picture]:
    """Draws F(x), the share of the time in which fewer than x nodes were busy, by configuration, and differences to the baseline's.

    known: the distributions of busy nodes (`distribution` in metrics.json) of the runs, by configuration; their mean is drawn
    nodes: nodes of the machine
    base: label of the baseline
    """
    at = np.unique(np.linspace(0, nodes + 1, min(nodes + 2, _SAMPLES)).round())
    shares = {label: np.mean([_below(run, at) for run in runs], axis=0) for label, runs in known.items()}
    axis = alt.Axis(title="x nodes", format=",d", tickCount=6, labelOverlap=True, grid=True)
    x = alt.X("x:Q", axis=axis, scale=alt.Scale(domain=[0, nodes + 1], nice=False))
    rows = pl.concat(pl.DataFrame({"x": at, "share": share, "of": [label] * at.size}) for label, share in shares.items())
    chart = step_lines(rows, list(shares), x, theme.percent_axis("F(x), share of the time"))
    half = nodes // 2 + 1
    at_half = "; ".join(f"{label}: {percent(float(np.interp(half, at, share)))}" for label, share in shares.items())
    yield draw(
        chart.properties(width=theme.WIDTH, height=theme.HEIGHT),
        "busy",
        "Share of the time in which fewer than x nodes were busy",
        f"Share of the time in which fewer than {half} of {nodes} nodes were busy: {at_half}.",
    )
    others = [label for label in shares if label != base]
    gaps = pl.concat(
        pl.DataFrame({"x": at, "share": shares[label] - shares[base], "of": [f"{label} - {base}"] * at.size}) for label in others
    )
    largest = float(gaps["share"].abs().max() or 0.0) or 0.01  # type: ignore[arg-type]
    # Each configuration has the same colour as in the other pictures.
    colours, dashes = (
        alt.Scale(domain=[f"{label} - {base}" for label in others], range=list(kinds[1 : len(others) + 1]))
        for kinds in (theme.COLOURS, [list(dash) for dash in theme.DASHES])
    )
    lines = (
        alt.Chart(gaps)
        .mark_line(interpolate="step-after")
        .encode(
            x=x,
            y=alt.Y(
                "share:Q",
                axis=alt.Axis(
                    title="difference of F(x), percentage points", labelExpr="format(datum.value * 100, '+~r')", tickCount=5
                ),
                scale=alt.Scale(domain=[-1.1 * largest, 1.1 * largest], nice=False),
            ),
            color=alt.Color("of:N", scale=colours, legend=alt.Legend(direction="vertical", symbolStrokeWidth=2.5)),
            strokeDash=alt.StrokeDash("of:N", scale=dashes),
            order="x:Q",
        )
    )
    zero = alt.Chart(pl.DataFrame({"y": [0.0]})).mark_rule(strokeDash=[5, 4]).encode(y="y:Q")
    most = gaps.row(int(gaps["share"].abs().arg_max() or 0), named=True)
    yield draw(
        (zero + lines).properties(width=theme.WIDTH, height=theme.HEIGHT),
        "busy-difference",
        "Difference of these shares",
        f"The largest difference is {100 * most['share']:+.1f} percentage points ({most['of']}), at x = {most['x']:.0f}. Positive "
        "values mean that fewer nodes were busy than in the baseline.",
    )


def _below(distribution: Mapping[str, Any], at: Any) -> Any:
    """F of a distribution of busy nodes at these numbers of nodes."""
    total = np.concatenate([[0.0], np.cumsum(distribution["share"])])
    return total[np.searchsorted(np.array(distribution["nodes"]), at, side="left")]
