"""Pictures of a comparison: differences with their intervals, and how many nodes were busy for how long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from mirage.reports import theme
from mirage.reports.distributions import step_lines
from mirage.reports.pictures import Picture, draw
from mirage.reports.words import percent

# Of an axis of differences in per cent: what is beyond is cut off, and told.
_FARTHEST = 200.0
_SAMPLES = 400
# Names that fit beside a picture on a telephone.
_SHORT = {
    "wait_p95": "95th percentile",
    "bounded_slowdown_mean": "bounded slowdown",
    "immediate_fraction": "started at once",
}


FOREST = (
    "Points are differences of the means, lines their 95 % intervals. Grey is the noise floor, within which two runs of one "
    "configuration differ. What is beyond the edge stands in the table."
)


def forest(content: Mapping[str, Any], base: str, other: str, names: Sequence[str]) -> Picture | None:
    """Differences in per cent of the metrics `names`, their intervals, and the noise floors behind them; None without any."""
    rows = []
    for name in names:
        metric = content["metrics"][name]
        pair = next(one for one in metric["pairs"] if (one["baseline"], one["configuration"]) == (base, other))
        if pair["percent"] is not None:
            low, high = pair["percent_interval"] or (pair["percent"], pair["percent"])
            floor = pair["noise_floor_percent"] or 0.0
            sure = "beyond chance and noise" if pair["verdict"] in ("lower", "higher") else "may be chance or noise"
            rows.append((_SHORT.get(name, metric["noun"]), pair["percent"], low, high, -floor, floor, sure))
    if not rows:
        return None
    columns = ["metric", "difference", "low", "high", "below", "above", "sure"]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    numbers = columns[1:6]
    reach = min(_FARTHEST, max(10.0, 1.1 * float(table.select(pl.max_horizontal(pl.col(numbers).abs().max())).item())))
    clipped = table.with_columns(pl.col(numbers).clip(-reach, reach))
    y = alt.Y("metric:N", sort=table["metric"].to_list(), axis=alt.Axis(title=None, ticks=False, labelLimit=260))
    axis = alt.Axis(title=f"difference in %, {other} less {base}", labelExpr="format(datum.value, '+~r')", tickCount=5)
    scale = alt.Scale(domain=[-reach, reach], nice=False)
    noise = (
        alt.Chart(clipped)
        .mark_bar(color="#d9d9d9", height=18)
        .encode(y=y, x=alt.X("below:Q", axis=axis, scale=scale), x2="above:Q")
    )
    spread = alt.Chart(clipped).mark_rule(strokeWidth=2.5).encode(y=y, x=alt.X("low:Q", scale=scale), x2="high:Q")
    points = (
        alt.Chart(clipped)
        .mark_point(size=110, stroke=theme.INK, opacity=1)
        .encode(
            y=y,
            x=alt.X("difference:Q", scale=scale),
            fill=alt.Fill(
                "sure:N",
                scale=alt.Scale(domain=["beyond chance and noise", "may be chance or noise"], range=[theme.BLUE, "white"]),
                legend=alt.Legend(direction="vertical", symbolStrokeColor=theme.INK),
            ),
        )
    )
    none = alt.Chart(pl.DataFrame({"x": [0.0]})).mark_rule(strokeDash=[5, 4]).encode(x=alt.X("x:Q", scale=scale))
    told = "; ".join(f"{row[0]} {row[1]:+.3g} % ({row[2]:+.3g} to {row[3]:+.3g})" for row in rows)
    description = f"{told}. {FOREST}"
    name = "forest-" + "".join(letter if letter.isalnum() else "-" for letter in f"{base}-{other}")
    chart = (noise + none + spread + points).properties(width=theme.WIDTH - 80, height=34 * len(rows))
    return draw(chart, name, f"{other} against {base}", description)


def busy_nodes(known: Mapping[str, Sequence[Mapping[str, Any]]], nodes: int, base: str) -> Iterable[Picture]:
    """F(x), the share of the time in which fewer than x nodes were busy, by configuration (the mean of its runs); and by how much
    those of the others are above the baseline's."""
    at = np.unique(np.linspace(0, nodes + 1, min(nodes + 2, _SAMPLES)).round())
    shares = {label: np.mean([_below(one, at) for one in some], axis=0) for label, some in known.items()}
    axis = alt.Axis(title="x nodes", format=",d", tickCount=6, labelOverlap=True, grid=True)
    x = alt.X("x:Q", axis=axis, scale=alt.Scale(domain=[0, nodes + 1], nice=False))
    rows = pl.concat(pl.DataFrame({"x": at, "share": share, "of": [label] * at.size}) for label, share in shares.items())
    chart = step_lines(rows, list(shares), x, theme.percent_axis("F(x), share of the time"))
    half = nodes // 2 + 1
    told = "; ".join(f"{label}: {percent(float(np.interp(half, at, share)))}" for label, share in shares.items())
    yield draw(
        chart.properties(width=theme.WIDTH, height=theme.HEIGHT),
        "busy",
        "Share of the time in which fewer than x nodes were busy",
        f"Fewer than {half} of {nodes} nodes were busy for this share of the time: {told}.",
    )
    others = [label for label in shares if label != base]
    gaps = pl.concat(
        pl.DataFrame({"x": at, "share": shares[label] - shares[base], "of": [f"{label} less {base}"] * at.size}) for label in others
    )
    largest = float(gaps["share"].abs().max() or 0.0) or 0.01  # type: ignore[arg-type]
    # Each in the colour that its configuration has in the other pictures.
    colours, dashes = (
        alt.Scale(domain=[f"{label} less {base}" for label in others], range=list(kinds[1 : len(others) + 1]))
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
    none = alt.Chart(pl.DataFrame({"y": [0.0]})).mark_rule(strokeDash=[5, 4]).encode(y="y:Q")
    most = gaps.row(int(gaps["share"].abs().arg_max() or 0), named=True)
    yield draw(
        (none + lines).properties(width=theme.WIDTH, height=theme.HEIGHT),
        "busy-difference",
        "Difference of these shares",
        f"The largest is {100 * most['share']:+.1f} percentage points ({most['of']}), at x = {most['x']:.0f}. Above zero "
        "fewer nodes were "
        "busy, below zero more.",
    )


def _below(distribution: Mapping[str, Any], at: Any) -> Any:
    """F at these numbers of nodes."""
    total = np.concatenate([[0.0], np.cumsum(distribution["share"])])
    return total[np.searchsorted(np.array(distribution["nodes"]), at, side="left")]
