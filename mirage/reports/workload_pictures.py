"""Draws the pictures of a workload, among them Figures 4.1 and 4.2 of the thesis that this project is based on."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from mirage.reports import theme
from mirage.reports.pictures import Picture, draw
from mirage.text.words import counted, duration, number, percent
from mirage.workloads.characterise import LEVELS, Characterisation

# Largest number of sizes that are drawn.
MOST_SIZES = 400
TOP = 10
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_JOBS, _SERVICE = "jobs", "service units"


def pictures(workload: Characterisation) -> dict[str, Picture]:
    """The pictures for which the workload has data, by name; `workload.missing` has the reasons for the others."""
    missing = set(workload.missing)
    drawings = {
        "sizes": (sizes, {"sizes"}),
        "service": (classes, {"sizes", "service"}),
        "hours": (hours, {"hours"}),
        "weekdays": (weekdays, {"weekdays"}),
        "times": (times, {"run_time"}),
        "requests": (requests, {"requested_time"}),
        "accuracy": (accuracy, {"accuracy"}),
        "load": (load, {"offered"}),
        "users": (users, {"users"}),
    }
    return {name: draw_it(workload) for name, (draw_it, needs) in drawings.items() if not needs & missing}


def sizes(workload: Characterisation) -> Picture:
    """Number of jobs by size (Figure 4.1 of the thesis)."""
    table = workload.sizes.top_k(MOST_SIZES, by="jobs").sort("size").with_columns(floor=pl.lit(theme.FLOOR))
    largest, most = table["size"].max(), table["jobs"].max()
    assert isinstance(largest, int) and isinstance(most, int)
    x_axis, x_scale = theme.size_axis(largest, "processors of a job (logarithmic)")
    y_axis, y_scale = theme.count_axis(most, "jobs (logarithmic)")
    x = alt.X("size:Q", axis=x_axis, scale=x_scale)
    stems = (
        alt.Chart(table)
        .mark_rule(color=theme.BLUE, strokeWidth=1.2, opacity=0.6)
        .encode(x=x, y=alt.Y("floor:Q", axis=y_axis, scale=y_scale), y2="jobs:Q")
    )
    heads = (
        alt.Chart(table)
        .mark_circle(color=theme.BLUE, size=22, opacity=1)
        .encode(x=x, y=alt.Y("jobs:Q", axis=y_axis, scale=y_scale))
    )
    common = workload.sizes.sort("jobs", descending=True).row(0)
    share = common[1] / workload.sizes["jobs"].sum()
    description = (
        f"{counted(workload.sizes.height, 'size')} from {number(workload.sizes['size'].min())} to {counted(largest, 'processor')}. "  # type: ignore[arg-type]
        f"The most common is {number(common[0])}: {counted(common[1], 'job')}, {percent(share)}."
    )
    return draw(_plot(stems + heads), "sizes", "Jobs by size", description)


def classes(workload: Characterisation) -> Picture:
    """Shares of jobs and of service units by class of sizes (Table 4.2 of the thesis)."""
    table = workload.classes
    words = [size_words(low, high) for low, high in table.select("lowest", "highest").iter_rows()]
    shares = _two_shares(table, words)
    chart = _paired_bars(shares, words, "processors of a job")
    largest = table.row(by_predicate=None, index=int(table["service"].arg_max() or 0))
    description = (
        f"Jobs on one processor are {percent(workload.figures['one_processor_jobs'])} of the jobs and use "
        f"{percent(workload.figures['one_processor_service'])} of the service units. The class with most service units, "
        f"{percent(largest[3] / table['service'].sum())}, is that of {size_words(largest[0], largest[1])} processors."
    )
    return draw(chart, "service", "Jobs and service units by size", description)


def hours(workload: Characterisation) -> Picture:
    """Submissions by hour of the day (Figure 4.2 of the thesis)."""
    table = workload.hours.select("hour", share=pl.col("jobs") / pl.col("jobs").sum())
    axis = alt.Axis(values=list(range(0, 25, 3)), title="hour of the day", grid=False)
    x = alt.X("hour:Q", axis=axis, scale=alt.Scale(domain=[0, 24], nice=False))
    table = table.with_columns(end=pl.col("hour") + 1)
    bars = (
        alt.Chart(table)
        .mark_rect(color=theme.BLUE, stroke="white", strokeWidth=1)
        .encode(x=x, x2="end:Q", y=alt.Y("share:Q", axis=theme.percent_axis("share of the submissions"), scale=theme.from_zero()))
    )
    top, low = table.sort("share").row(-1), table.sort("share").row(0)
    description = (
        f"Most jobs are submitted from {top[0]} to {top[0] + 1} h ({percent(top[1])}), fewest from {low[0]} to {low[0] + 1} h "
        f"({percent(low[1])}). The line is the share of each hour if all were equal, {percent(1 / 24)}."
    )
    return draw(_plot(bars + _level(1 / 24)), "hours", "Submissions by hour of the day", description)


def weekdays(workload: Characterisation) -> Picture:
    """Submissions by day of the week."""
    shares = (workload.weekdays["jobs"] / workload.weekdays["jobs"].sum()).to_list()
    table = pl.DataFrame({"day": WEEKDAYS, "share": shares})
    bars = (
        alt.Chart(table)
        .mark_bar()
        .encode(
            x=alt.X("day:N", sort=list(WEEKDAYS), axis=alt.Axis(title="day of the week", labelAngle=0)),
            y=alt.Y("share:Q", axis=theme.percent_axis("share of the submissions"), scale=theme.from_zero()),
        )
    )
    text = ", ".join(f"{day} {percent(share)}" for day, share in zip(WEEKDAYS, shares, strict=True))
    return draw(_plot(bars + _level(1 / 7)), "weekdays", "Submissions by day of the week", f"{text}. The line is one seventh.")


def times(workload: Characterisation) -> Picture:
    """Cumulative distributions of run times and requested times."""
    series = {
        "run time, of jobs": "run_time",
        "run time, of service units": "run_time_service",
        "requested time, of jobs": "requested_time",
    }
    table = workload.distribution
    series = {words: name for words, name in series.items() if table[name].null_count() == 0}
    rows = pl.concat(table.select("level", seconds=pl.col(name).clip(1), of=pl.lit(words)) for words, name in series.items())
    x_axis, x_scale = theme.duration_axis(_float(rows["seconds"].max()), "time (logarithmic)")
    colours, dashes = theme.series_colours(series)
    chart = (
        alt.Chart(rows)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("seconds:Q", axis=x_axis, scale=x_scale),
            y=alt.Y("level:Q", axis=theme.percent_axis("share up to this time"), scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("of:N", scale=colours, legend=alt.Legend(direction="vertical", symbolStrokeWidth=2.5)),
            strokeDash=alt.StrokeDash("of:N", scale=dashes),
            order="level:Q",
        )
    )
    middle = table.row(LEVELS // 2, named=True)
    medians = [f"Half of the jobs run for up to {duration(middle['run_time'])}"]
    if middle["run_time_service"] is not None:
        medians.append(f"half of the service units are of jobs that run for up to {duration(middle['run_time_service'])}")
    if middle["requested_time"] is not None:
        medians.append(f"half of the jobs request up to {duration(middle['requested_time'])}")
    title = "Run times and requested times" if middle["requested_time"] is not None else "Run times"
    return draw(_plot(chart), "times", title, f"{'; '.join(medians)}.")


def requests(workload: Characterisation) -> Picture:
    """Shares of the jobs with the most frequent requested times."""
    total = workload.requests["jobs"].sum()
    table = workload.requests.head(TOP)
    words = [duration(seconds) for seconds in table["requested_time"]]
    # Times with the same rounded text are shown in seconds.
    words = [
        word if words.count(word) == 1 else f"{number(seconds)} s"
        for word, seconds in zip(words, table["requested_time"], strict=True)
    ]
    rows = pl.DataFrame({"requested": words, "share": (table["jobs"] / total).to_list()}).with_columns(
        text=pl.col("share").map_elements(percent, return_dtype=pl.String)
    )
    bars = (
        alt.Chart(rows)
        .mark_bar()
        .encode(
            y=alt.Y("requested:N", sort=words, axis=alt.Axis(title="requested time", ticks=False, domain=False)),
            x=alt.X(
                "share:Q",
                axis=alt.Axis(labelExpr=f"datum.value > 1 ? '' : {theme.PERCENT}", title="share of the jobs", tickCount=5),
                scale=alt.Scale(domain=[0, 1.2 * _float(rows["share"].max())], nice=False),
            ),
        )
    )
    chart = bars + bars.mark_text(align="left", dx=4).encode(text="text:N")
    top = ", ".join(f"{word} {share}" for word, share in rows.select("requested", "text").iter_rows())
    description = f"{counted(workload.requests.height, 'different requested time')}; the most frequent: {top}."
    return draw(_plot(chart, height=22 * max(4, len(words))), "requests", "Most frequent requested times", description)


def accuracy(workload: Characterisation) -> Picture:
    """Distribution of run time over requested time."""
    table = workload.accuracy.with_columns(share=pl.col("jobs") / pl.col("jobs").sum()).with_columns(
        at_limit=pl.col("highest").is_null(), highest=pl.col("highest").fill_null(1.05)
    )
    axis = alt.Axis(
        values=[0, 0.2, 0.4, 0.6, 0.8, 1.025],
        labelExpr=f"datum.value > 1 ? '100 % or more' : {theme.PERCENT}",
        title="run time over requested time",
        grid=False,
    )
    chart = (
        alt.Chart(table)
        .mark_rect(color=theme.BLUE, stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("lowest:Q", axis=axis, scale=alt.Scale(domain=[0, 1.05], nice=False)),
            x2="highest:Q",
            y=alt.Y("share:Q", axis=theme.percent_axis("share of the jobs"), scale=theme.from_zero()),
            y2=alt.datum(0),
            color=alt.condition("datum.at_limit", alt.value(theme.ORANGE), alt.value(theme.BLUE)),
        )
    )
    description = (
        f"Half of the jobs use up to {percent(workload.figures['accuracy_median'])} of their requested time; "
        f"{percent(workload.figures['at_limit'])} run for all of it or longer (the last bar)."
    )
    return draw(_plot(chart), "accuracy", "Use of the requested time", description)


def load(workload: Characterisation) -> Picture:
    """Offered load and recorded utilisation over time."""
    table = workload.load
    series = {"offered load": "offered", "recorded utilisation": "utilisation"}
    series = {words: name for words, name in series.items() if table[name].count()}
    # Each value holds until the next one, the last one until the end.
    steps = pl.concat([table, table.tail(1).with_columns(begin="end")])
    at, axis, kind = _instants(workload, steps["begin"])
    rows = pl.concat(steps.select(at=at, share=pl.col(name), of=pl.lit(words)) for words, name in series.items())
    x = alt.X(f"at:{kind}", axis=axis, scale=alt.Scale(nice=False))
    y = alt.Y("share:Q", axis=theme.percent_axis("share of the machine"), scale=theme.from_zero())
    colours, dashes = theme.series_colours(series)
    lines = (
        alt.Chart(rows)
        .mark_line(interpolate="step-after", strokeWidth=1.6)
        .encode(
            x=x,
            y=y,
            color=alt.Color("of:N", scale=colours, legend=alt.Legend(symbolStrokeWidth=2.5)),
            strokeDash=alt.StrokeDash("of:N", scale=dashes),
        )
    )
    ranges = [f"In intervals of {duration(table['end'][0] - table['begin'][0])}"]
    for words, name in series.items():
        ranges.append(f"{words} from {percent(_float(table[name].min()))} to {percent(_float(table[name].max()))}")
    overall = f"the offered load over the whole time is {percent(workload.figures['offered_load'])}"
    return draw(
        _plot(lines + _level(1)), "load", "Load over time", f"{', '.join(ranges)}; {overall}. The line is the machine's capacity."
    )


def _instants(workload: Characterisation, seconds: pl.Series) -> tuple[pl.Series, alt.Axis, str]:
    """Seconds of the log as values of an axis (dates if known, else days or hours), the axis, and its type in altair."""
    first, last = workload.local.date(seconds[0]), workload.local.date(seconds[-1])
    if first is not None and last is not None:
        dates = pl.select(workload.local.local(pl.lit(seconds))).to_series()
        return dates, theme.date_axis(first, last), "T"
    length, unit = (86400, "days") if seconds[-1] - seconds[0] > 2 * 86400 else (3600, "hours")
    return seconds / length, alt.Axis(title=f"{unit} since the log's second 0", grid=False, format=",.0f", tickMinStep=1), "Q"


def users(workload: Characterisation) -> Picture:
    """Shares of jobs and of service units of the users with most jobs."""
    known = workload.users.filter(pl.col("user").is_not_null())
    table = known.head(TOP)
    words = [str(user) for user in table["user"]]
    shares = _two_shares(table, words, of=known)
    description = (
        f"{counted(known.height, 'user')}; the one with most jobs submits {percent(workload.figures['top_user_jobs'])} of the jobs"
    )
    description += f", the first {TOP} users {percent(workload.figures['top_ten_users_jobs'])}." if known.height > TOP else "."
    return draw(_paired_bars(shares, words, "user"), "users", "Users with most jobs", description)


def size_words(lowest: int, highest: int) -> str:
    """The text of a class of sizes: 1, 3 to 4."""
    return number(lowest) if lowest == highest else f"{number(lowest)} to {number(highest)}"


def _two_shares(table: pl.DataFrame, words: list[str], of: pl.DataFrame | None = None) -> pl.DataFrame:
    """Rows with the columns words, share, of ("jobs" or "service units"): shares of `table` in the totals of `of`."""
    whole = table if of is None else of
    parts = []
    for series, column in ((_JOBS, "jobs"), (_SERVICE, "service")):
        total = whole[column].sum()
        if total > 0:
            shares = (table[column] / total).cast(pl.Float64)
            parts.append(pl.DataFrame({"words": words, "share": shares, "of": [series] * len(words)}))
    return pl.concat(parts)


def _paired_bars(shares: pl.DataFrame, words: list[str], title: str) -> Any:
    """Two bars per row: share of the jobs and share of the service units."""
    colours, _ = theme.series_colours([_JOBS, _SERVICE])
    chart = (
        alt.Chart(shares)
        .mark_bar(stroke=theme.INK, strokeWidth=0.4)
        .encode(
            y=alt.Y("words:N", sort=words, axis=alt.Axis(title=title, ticks=False), scale=alt.Scale(paddingInner=0.3)),
            yOffset=alt.YOffset("of:N", sort=[_JOBS, _SERVICE]),
            x=alt.X("share:Q", axis=theme.percent_axis("share of all")),
            color=alt.Color("of:N", scale=colours),
        )
    )
    return _plot(chart, height=28 * max(4, len(words)))


def _level(share: float) -> Any:
    """A horizontal dashed line at a share."""
    return alt.Chart(pl.DataFrame({"share": [share]})).mark_rule(strokeDash=[5, 4], strokeWidth=1.2).encode(y="share:Q")


def _plot(chart: Any, height: int = theme.HEIGHT) -> Any:
    return chart.properties(width=theme.WIDTH, height=height)


def _float(value: Any) -> float:
    """The result of polars' min or max as a number; 0 for null."""
    return float(value or 0.0)
