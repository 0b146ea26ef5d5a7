"""Pictures of the study of malleable jobs, after figures 4 to 8 of the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from mirage.metrics.allocations import holdings
from mirage.reports import theme
from mirage.reports.pictures import Picture, draw
from mirage.text.words import duration, number
from mirage_extras.malleable.studies import source
from mirage_extras.malleable.studies.measured import APPLICATIONS, Figure, StudyRun, arms, of_arm, sizes

_NAMES = {1: "CG", 2: "Jacobi", 3: "N-body"}
"""Applications of the model dmr by field 14 of SWF, which workload.csv has as `executable`."""


def bars(found: Sequence[Figure], column: str, name: str, title: str) -> Picture | None:
    """Figures 4 and 5: a figure by number of jobs and arm, with intervals over the replicas; None if there is none."""
    rows = [
        (int(jobs), arm, one.mean, one.mean - (one.half or 0.0), one.mean + (one.half or 0.0))
        for one in found
        if one.column == column and one.table in ("table 4", "figure 4")
        for jobs, _, arm in [one.row.replace(" jobs,", "").partition(" ")]
    ]
    if not rows:
        return None
    table = pl.DataFrame(rows, schema=["jobs", "arm", "value", "low", "high"], orient="row")
    order = table["arm"].unique(maintain_order=True).to_list()
    colours, _ = theme.series_colours(order)
    x = alt.X("jobs:O", axis=alt.Axis(title="jobs", labelAngle=0))
    offset = alt.XOffset("arm:N", sort=order)
    y = alt.Y("value:Q", axis=alt.Axis(title=f"{title}, s", tickCount=5), scale=theme.from_zero())
    base = alt.Chart(table)
    drawn = base.mark_bar().encode(x=x, xOffset=offset, y=y, color=alt.Color("arm:N", scale=colours, sort=order))
    spread = base.mark_rule().encode(x=x, xOffset=offset, y="low:Q", y2="high:Q")
    words = "; ".join(f"{jobs} jobs, {arm}: {number(value)} s" for jobs, arm, value, _, _ in rows)
    return draw((drawn + spread).properties(width=theme.WIDTH, height=theme.HEIGHT), name, title, f"{words}.")


def over_time(runs: Sequence[StudyRun]) -> Iterable[Picture]:
    """Figure 6: allocated nodes, running jobs and ended jobs over time, of the first replica of each arm of the fewest jobs."""
    if not (counts := sizes(runs, APPLICATIONS)):
        return
    first = {arm: of_arm(runs, APPLICATIONS, counts[0], arm)[0] for arm in arms(runs, APPLICATIONS, counts[0])}
    lines = {arm: _course(run) for arm, run in first.items()}
    for column, name, title in (
        ("nodes", "nodes-over-time", "Allocated nodes"),
        ("running", "running-over-time", "Running jobs"),
        ("ended", "ended-over-time", "Ended jobs"),
    ):
        yield _steps(lines, column, name, title)


def _course(run: StudyRun) -> pl.DataFrame:
    """Columns at (hours since the first submission), nodes, running, ended, from each instant on."""
    table, changes = run.table(), run.changes()
    jobs = table.select("id", s="start", f="end", p="processors", c="nodes")
    sized = None if changes is None else changes.select(id="job", time="from", p="processors", c="nodes")
    held = holdings(jobs, None, sized)
    nothing = pl.lit(0, pl.Int64)
    events = pl.concat(
        [
            held.select(at="begin", nodes=pl.col("c"), running=nothing, ended=nothing),
            held.select(at="end", nodes=-pl.col("c"), running=nothing, ended=nothing),
            jobs.select(at="s", nodes=nothing, running=nothing + 1, ended=nothing),
            jobs.select(at="f", nodes=nothing, running=nothing - 1, ended=nothing + 1),
        ]
    )
    summed = events.group_by("at").sum().sort("at").with_columns(pl.col("nodes", "running", "ended").cum_sum())
    begin = table["submit"].min()
    return summed.with_columns(at=(pl.col("at") - begin) / 3600)


def _steps(lines: Mapping[str, pl.DataFrame], column: str, name: str, title: str) -> Picture:
    table = pl.concat(frame.select("at", value=column, arm=pl.lit(arm)) for arm, frame in lines.items())
    colours, dashes = theme.series_colours(lines)
    chart = (
        alt.Chart(table)
        .mark_line(interpolate="step-after", strokeWidth=1.4)
        .encode(
            x=alt.X("at:Q", axis=alt.Axis(title="hours since the first submission", tickCount=6)),
            y=alt.Y("value:Q", axis=alt.Axis(title=title.lower(), tickCount=5), scale=theme.from_zero()),
            color=alt.Color("arm:N", scale=colours, legend=theme.line_legend()),
            strokeDash=alt.StrokeDash("arm:N", scale=dashes),
            order="at:Q",
        )
    )
    most = "; ".join(
        f"{arm}: at most {number(frame[column].max())}, the last job ends after {duration(3600 * float(frame['at'].max()))}"  # type: ignore[arg-type]
        for arm, frame in lines.items()
    )
    return draw(chart.properties(width=theme.WIDTH, height=theme.HEIGHT), name, f"{title} over time", f"{most}.")


def by_application(runs: Sequence[StudyRun], arm: str = source.PREFERRED) -> Iterable[Picture]:
    """Figures 7 and 8: execution and wait of each job by application, fixed and of `arm`, and the differences.

    Of the workload with the fewest jobs, means of the replicas.
    """
    if not (counts := sizes(runs, APPLICATIONS)):
        return
    of_each = {label: of_arm(runs, APPLICATIONS, counts[0], label) for label in (source.FIXED, arm)}
    if not all(of_each.values()):
        return
    names = of_each[arm][0].folder.workload.select("id", "executable")
    means = {label: _means(some) for label, some in of_each.items()}
    both = means[source.FIXED].join(means[arm], on="id", suffix="_after").join(names, on="id")
    both = both.with_columns(
        application=pl.col("executable").replace_strict(_NAMES, default="other", return_dtype=pl.String),
    ).sort("submit", "id")
    both = both.with_columns(number=pl.int_range(1, pl.len() + 1).over("application"))
    for column in ("execution", "wait"):
        rows = pl.concat(
            both.select("application", "number", value=f"{column}{end}", series=pl.lit(label))
            for label, end in ((source.FIXED, ""), (arm, "_after"))
        )
        words = _in_words(rows)
        yield _points(
            rows, [source.FIXED, arm], f"{column}-by-application", f"{column.capitalize()} of each job", f"{column}, s", words
        )
    rows = pl.concat(
        both.select("application", "number", value=pl.col(column) - pl.col(f"{column}_after"), series=pl.lit(column))
        for column in ("execution", "wait", "completion")
    )
    title = f"How much shorter than fixed: {arm}"
    yield _points(rows, ["execution", "wait", "completion"], "differences", title, "difference, s", _in_words(rows))


def _means(runs: Sequence[StudyRun]) -> pl.DataFrame:
    """Means over the replicas: id, submit, execution, wait, completion."""
    tables = pl.concat(run.table().with_columns(completion=pl.col("wait") + pl.col("execution")) for run in runs)
    return tables.group_by("id").agg(pl.col("submit", "execution", "wait", "completion").mean())


def _in_words(rows: pl.DataFrame) -> str:
    means = rows.group_by("application", "series", maintain_order=True).agg(pl.col("value").mean())
    return "Means: " + "; ".join(f"{name}, {series}: {number(value)} s" for name, series, value in means.iter_rows()) + "."


def _points(rows: pl.DataFrame, order: list[str], name: str, title: str, axis: str, words: str) -> Picture:
    colours, _ = theme.series_colours(order)
    applications = [one for one in _NAMES.values() if one in rows["application"]]
    chart: Any = (
        alt.Chart(rows)
        .mark_line(point=alt.OverlayMarkDef(size=26), strokeWidth=0.8)
        .encode(
            x=alt.X("number:Q", axis=alt.Axis(title="job", tickCount=4, format="d")),
            y=alt.Y("value:Q", axis=alt.Axis(title=axis, tickCount=5)),
            color=alt.Color("series:N", scale=colours, sort=order, legend=theme.line_legend()),
        )
        .properties(width=theme.WIDTH, height=theme.HEIGHT / 2)
        .facet(row=theme.panels("application:N", applications))
    )
    return draw(chart, name, title, words)


def resize_times(rows: Sequence[Mapping[str, Any]]) -> Picture:
    """Figure 3: seconds of a resize by the sizes before and after. rows: kind, from, to, mean, low, high (s)."""
    table = pl.DataFrame(list(rows)).with_columns(step=pl.format("{} to {}", "from", "to"))
    order = table["step"].to_list()
    colours, _ = theme.series_colours(table["kind"].unique(maintain_order=True).to_list())
    y = alt.Y("step:N", sort=order, axis=alt.Axis(title="nodes"))
    base = alt.Chart(table)
    drawn = base.mark_bar().encode(
        y=y, x=alt.X("mean:Q", axis=alt.Axis(title="seconds", tickCount=5)), color=alt.Color("kind:N", scale=colours)
    )
    spread = base.mark_rule().encode(y=y, x="low:Q", x2="high:Q")
    words = "; ".join(f"{one['from']} to {one['to']}: {number(one['mean'])} s" for one in rows)
    chart = (drawn + spread).properties(width=theme.WIDTH, height=18 * len(order))
    return draw(chart, "resize-times", "Time of a resize by its sizes", f"{words}.")
