"""The page of a study of a record: recorded waits beside emulated and simulated ones, and which unknown moves them most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from mirage.metrics.classes import ALL
from mirage.reports import theme
from mirage.reports.page import Part, Section, Table, Verdict, report
from mirage.reports.pictures import Picture, draw
from mirage.text.words import counted, duration, number
from mirage.verdict.verdict import VALID, verdict_of, with_reasons
from studies.beside_record import SIMULATED, Played, Schedule, in_seconds
from studies.unknowns import NOTHING, Model

RECORDED, ELASTISIM = "recorded", "FIFO, ElastiSim's published schedule"
WAITS = ("wait_mean", "wait_median", "wait_p95")
_SUMS = {
    "window": pl.String, "schedule": pl.String, "unknown": pl.String, "jobs": pl.Int64, **dict.fromkeys(WAITS, pl.Float64),
    "rank_correlation": pl.Float64, "idle": pl.Float64, "easy": pl.Float64,
}  # fmt: skip
_ABOUT_WAITS = (
    "Waits of the same jobs. Interval over models: lowest and highest of the runs. Rank correlation: Spearman's, of the waits with "
    "the recorded ones. Idle: processors without a job, on average while a job of a node or more waited."
)
_ABOUT_MODELS = (
    "Each model is the first one, but for what it says. EASY's mean wait: of a simulation with the model's limits and processors."
)
_ABOUT_RANKS = (
    "Mean wait of all windows' jobs, lowest and highest of the first model and those of the unknown; the unknowns with the largest "
    "range first."
)


def page(name: str, about: str, found: Sequence[Played], models: Mapping[str, Model]) -> str:
    """The page as HTML.

    name: folder of the study; about: what was played, a sentence; found: its finished windows; models: by the names of their arms
    """
    return report(f"Study {name}", _summary(about, found, models), _verdict(found), _sections(found, models))


def rows(found: Sequence[Played], models: Mapping[str, Model]) -> pl.DataFrame:
    """The figures of every schedule of every window, recorded first: columns of study.csv. Times are in seconds."""
    table: list[tuple[Any, ...]] = []
    for one in found:
        base = one.base.near
        recorded = (base["waits"][wait]["record"] for wait in WAITS)
        table.append((one.window, RECORDED, "", base["waits"]["jobs"], *recorded, None, one.idle, None))
        for label, schedule in (*one.models.items(), *one.simulated.items()):
            waits, rank = schedule.near["waits"], schedule.near["rank_correlation"]
            unknown = models[label].unknown if label in models else ""
            values = (waits[wait]["run"] for wait in WAITS)
            correlation = None if rank is None else rank["value"]
            table.append((one.window, label, unknown, waits["jobs"], *values, correlation, schedule.idle, schedule.easy))
    return pl.DataFrame(table, schema=_SUMS, orient="row")


# ---- what decides ----


def pooled(found: Sequence[Played], label: str, side: str = "run") -> float:
    """The mean wait of all windows' jobs in the runs of a model; side: "run" or "record"."""
    waits = [one.models[label].near["waits"] for one in found]
    return float(sum(of["jobs"] * of["wait_mean"][side] for of in waits) / sum(of["jobs"] for of in waits))


def ranked(found: Sequence[Played], models: Mapping[str, Model]) -> list[tuple[str, str, float, str, float]]:
    """Of each unknown: its name, the models with the lowest and the highest mean wait of all windows, each with that wait. The one
    with the largest range is the first."""
    labels = [label for label in models if all(label in one.models for one in found)]
    ranges = []
    for unknown in dict.fromkeys(models[label].unknown for label in labels if models[label].unknown != NOTHING):
        means = {label: pooled(found, label) for label in labels if models[label].unknown in (NOTHING, unknown)}
        low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        ranges.append((unknown, low, means[low], high, means[high]))
    return sorted(ranges, key=lambda one: one[2] - one[4])


def _is_inside(one: Played) -> bool:
    low, high = one.interval()
    return bool(low <= one.base.near["waits"]["wait_mean"]["record"] <= high)


def decides(found: Sequence[Played], models: Mapping[str, Model]) -> str:
    """One sentence on what decides how far the emulated waits are from the recorded ones."""
    ranks = ranked(found, models)
    if not ranks:
        return "One model alone does not show which unknown decides."
    unknown, low, lowest, high, highest = ranks[0]
    recorded = pooled(found, found[0].base.name, "record")
    return (
        f"Of what the record does not say, {unknown} decide most: they move the mean wait from {in_seconds(lowest)} ({low}) to "
        f"{in_seconds(highest)} ({high}); recorded are {in_seconds(recorded)}."
    )


def _idle_words(found: Sequence[Played]) -> Iterable[str]:
    """How many processors were idle while jobs waited, in the record and in the first model's runs."""
    for one in found:
        emulated = one.base.idle
        if one.idle is not None and emulated is not None:
            yield (
                f"{one.window}: while a job of a node or more waited, {number(round(one.idle))} of "
                f"{number(one.processors)} processors had no job in the record, {number(round(emulated))} in the emulation; the "
                f"record never had more than {number(one.peak)} in use."
            )


def _summary(about: str, found: Sequence[Played], models: Mapping[str, Model]) -> Iterable[str]:
    jobs = sum(one.base.near["waits"]["jobs"] for one in found)
    yield (
        f"{about} {counted(jobs, 'job')} in {counted(len(found), 'window')}, under {counted(len(models), 'model')} of what the "
        "record does not say."
    )
    inside = sum(map(_is_inside, found))
    yield decides(found, models)
    yield f"The recorded mean wait is within the interval over the models in {inside} of {counted(len(found), 'window')}."
    yield from _idle_words(found)
    yield (
        "Not in the record, and in no model: dependencies and begin times, limits of jobs and users, reservations, jobs from "
        "before it, the age of the jobs that waited at the beginning. Jobs submitted after a window are not played."
    )


def _verdict(found: Sequence[Played]) -> Verdict:
    told = {schedule.folder.name: schedule.folder.metrics["validity"] for schedule in _runs(found) if schedule.folder is not None}
    bad = [f"{name}: {with_reasons(one)}" for name, one in told.items() if verdict_of(one) != VALID]
    if not bad:
        return Verdict(True, f"{counted(len(told), 'run')}, all valid.")
    return Verdict(False, f"{len(bad)} of {counted(len(told), 'run')} not valid or inconclusive.", bad)


def _runs(found: Sequence[Played]) -> Iterable[Schedule]:
    for one in found:
        yield from one.models.values()


# ---- sections ----


def _sections(found: Sequence[Played], models: Mapping[str, Model]) -> Iterable[Section]:
    told = [f"{one.window}: {one.words}." for one in found]
    yield Section("Recorded and emulated waits", [Part(_ABOUT_WAITS, table=_waits(found), points=told, is_wide=True)])
    ranks = ranked(found, models)
    if ranks:
        yield Section("Which unknown moves the waits most", [Part(_ABOUT_RANKS, table=_ranks(ranks, found))])
    pictures = [over_time(one) for one in found]
    yield Section("Over time", [Part(one.description, one) for one in pictures])
    parts = [Part("", table=_classes(one), is_wide=True) for one in found]
    yield Section("By size and run time", parts)
    yield Section("Models", [Part(_ABOUT_MODELS, table=_models(found, models), is_wide=True)])
    names = [one.comparison for one in found]
    links = Table("Comparisons", ("comparison",), [(name,) for name in names], links=[f"../{name}/report.html" for name in names])
    yield Section("The runs", [Part("They have the pages of their runs, and all metrics.", table=links)])


def _waits(found: Sequence[Played]) -> Table:
    shown = []
    for one in found:
        base = one.base
        waits = base.near["waits"]
        title = f"{one.window}, {counted(waits['jobs'], 'job')}"
        shown.append((title, RECORDED, *(_seconds(waits[wait]["record"]) for wait in WAITS), "", _processors(one.idle)))
        shown.append(("", f"emulated, {one.base.name}", *_cells(base)))
        edges = (one.interval(wait) for wait in WAITS)
        ranks = [rank["value"] for of in one.models.values() if (rank := of.near["rank_correlation"]) is not None]
        idles = [of.idle for of in one.models.values() if of.idle is not None]
        shown.append(
            (
                "",
                "interval over models",
                *(f"{_seconds(low)} to {_seconds(high)}" for low, high in edges),
                f"{min(ranks):.2f} to {max(ranks):.2f}" if ranks else "-",
                f"{_processors(min(idles))} to {_processors(max(idles))}" if idles else "-",
            )
        )
        shown += [("", SIMULATED[policy], *_cells(schedule)) for policy, schedule in one.simulated.items()]
        if one.published is not None:
            shown.append(("", ELASTISIM, _seconds(one.published), "", "", "", ""))
    heads = ("window", "schedule", "mean wait, s", "median, s", "95th percentile, s", "rank correlation", "idle processors")
    return Table("Waits of the same jobs", heads, shown)


def _cells(schedule: Schedule) -> tuple[str, ...]:
    waits, rank = schedule.near["waits"], schedule.near["rank_correlation"]
    return (
        *(_seconds(waits[wait]["run"]) for wait in WAITS),
        "-" if rank is None else f"{rank['value']:.2f}",
        _processors(schedule.idle),
    )


def _seconds(value: float) -> str:
    return number(round(value))


def _processors(amount: float | None) -> str:
    return "-" if amount is None else number(round(amount))


def _ranks(ranks: Sequence[tuple[str, str, float, str, float]], found: Sequence[Played]) -> Table:
    recorded = pooled(found, found[0].base.name, "record")
    shown = [
        (
            unknown,
            f"{_seconds(lowest)} ({low})",
            f"{_seconds(highest)} ({high})",
            _seconds(highest - lowest),
            f"{100 * (highest - lowest) / recorded:.0f} %" if recorded else "-",
        )
        for unknown, low, lowest, high, highest in ranks
    ]
    return Table(
        f"Mean waits by unknown; recorded: {in_seconds(recorded)}",
        ("unknown", "lowest, s", "highest, s", "range, s", "of the recorded mean"),
        shown,
    )


def _models(found: Sequence[Played], models: Mapping[str, Model]) -> Table:
    shown = []
    for label, model in models.items():
        for place, one in enumerate(found):
            if label in one.models:
                named = (label, model.words) if not place else ("", "")
                schedule = one.models[label]
                easy = "-" if schedule.easy is None else _seconds(schedule.easy)
                shown.append((*named, one.window, *_cells(schedule), easy))
    figures = ("mean wait, s", "median, s", "95th percentile, s", "rank correlation", "idle processors", "EASY's mean wait, s")
    return Table("Runs by model", ("model", "assumes", "window", *figures), shown, prose=(1,))


def _classes(one: Played) -> Table:
    """Mean waits of the jobs of each size and of each run time."""
    by_class = {label: {(row["size"], row["runtime"]): row for row in of.near["classes"]} for label, of in one.models.items()}
    shown = []
    for key, row in by_class[one.base.name].items():
        if (ALL in key) and key != (ALL, ALL):
            name = key[1] if key[0] == ALL else "1 processor" if key[0] == "1" else f"{key[0]} processors"
            means = [of[key]["wait_mean"]["run"] for of in by_class.values() if key in of]
            wait = row["wait_mean"]
            shown.append(
                (
                    name,
                    number(row["jobs"]),
                    _seconds(wait["record"]),
                    _seconds(wait["run"]),
                    f"{_seconds(min(means))} to {_seconds(max(means))}",
                )
            )
    heads = ("", "jobs", RECORDED, f"emulated, {one.base.name}", "interval over models")
    return Table(f"Mean waits in seconds by size and by run time: {one.window}", heads, shown)


def over_time(one: Played) -> Picture:
    """Mean waits by time of submission: recorded, and the lowest, the first model's and the highest emulated one."""
    width = one.base.near["over_time"]["width"]
    by_bin: dict[float, dict[str, float]] = {}
    for label, schedule in one.models.items():
        for of in schedule.near["over_time"]["bins"]:
            values, mean = by_bin.setdefault(of["begin"], {}), of["wait_mean"]
            values[RECORDED] = mean["record"]
            if label == one.base.name:
                values[f"emulated, {one.base.name}"] = mean["run"]
            values["lowest model"] = min(values.get("lowest model", mean["run"]), mean["run"])
            values["highest model"] = max(values.get("highest model", mean["run"]), mean["run"])
    first = min(by_bin)
    drawn = pl.DataFrame(
        [((begin - first) / 3600, value / 3600, of) for begin, values in by_bin.items() for of, value in values.items()],
        schema={"x": pl.Float64, "wait": pl.Float64, "of": pl.String},
        orient="row",
    ).sort("of", "x")
    names = [RECORDED, f"emulated, {one.base.name}", "lowest model", "highest model"]
    colours, dashes = theme.series_colours(names)
    chart = (
        alt.Chart(drawn)
        .mark_line(point=True)
        .encode(
            x=alt.X("x:Q", axis=alt.Axis(title="hours from the first submission", tickCount=6), scale=theme.from_zero()),
            y=alt.Y("wait:Q", axis=alt.Axis(title="mean wait, h", tickCount=5), scale=theme.from_zero()),
            color=alt.Color("of:N", scale=colours, sort=names, legend=alt.Legend(columns=2, symbolType="stroke")),
            strokeDash=alt.StrokeDash("of:N", scale=dashes, sort=names),
        )
        .properties(width=theme.WIDTH, height=theme.HEIGHT)
    )
    highest = {of: drawn.filter(pl.col("of") == of)["wait"].max() for of in names}
    told = ", ".join(f"{of} {in_seconds(3600 * value)}" for of, value in highest.items() if isinstance(value, float))
    description = f"Mean waits of the jobs submitted in the same {duration(width)}: {one.window}. The longest: {told}."
    return draw(chart, f"over-time-{one.window}", f"Waits by time of submission: {one.window}", description)
