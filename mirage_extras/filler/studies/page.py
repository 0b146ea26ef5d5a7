"""The page of the study of filler jobs: gains beside the bound, delays, and runs beside the simulation of the same jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl
from polars import col

from mirage.reports import theme
from mirage.reports.page import Part, Section, Table, Verdict, report
from mirage.reports.pictures import Picture, draw
from mirage.verdict.verdict import VALID, WORDS, verdict_of
from mirage_extras.filler.studies.measured import StudyRun

LOMONOSOV, LOG = "lomonosov", "log"
"""The workloads."""
_TITLES = {LOMONOSOV: "512 slots, jobs as on Lomonosov-1", LOG: "the stretch of the log"}
_BOUND = "idle (1 - t) c"
_ABOUT = (
    "Shares of the machine. gain: saved work of fillers; net: gain, less what the jobs' load is below that without fillers; bound: "
    "idle (1 - t) c with the idle share without fillers; 0.1 (1 - t) c: the source's. lost: work after the last save; overhead: "
    "saving, restoring, waiting."
)


def page(
    name: str,
    simulated: pl.DataFrame,
    measured: pl.DataFrame | None,
    runs: Sequence[StudyRun],
    mains: Mapping[str, str],
    comparison: str | None,
) -> str:
    """The page as HTML.

    simulated, measured: `simulation.summary` of the simulations and of the runs (None: there were no runs)
    mains: of each workload, the accuracy at which all speeds were simulated
    comparison: name of the folder of the runs, beside the study's
    """
    return report(f"Study {name}", _summary(simulated, mains), _verdict(runs), _sections(simulated, measured, mains, comparison))


def _summary(simulated: pl.DataFrame, mains: Mapping[str, str]) -> Iterable[str]:
    yield (
        "Filler jobs on the processors that jobs leave idle, after Polyakov and Dubenskaya (2018): their gain by the share t of a "
        "slot that a start and a save take, and by their speed c compared with a bare process. Conservative backfilling, simulated "
        "without Slurm; intervals (95 %) are over workloads drawn with other seeds, of runs over replicas of the same jobs."
    )
    for workload, accuracy in mains.items():
        found = simulated.filter(col("workload") == workload, col("accuracy") == accuracy, col("c") == 1)
        for (variant, slot), rows in found.group_by("variant", "slot", maintain_order=True):
            reached = rows.filter(col("gain") >= 0.999 * col("bound"))
            ends = " and ".join(
                f"{_share(row['gain'])} at t = {row['t']:g} (bound {_share(row['bound'])})"
                for row in (rows.sort("t").row(place, named=True) for place in (0, -1))
            )
            yield (
                f"{_TITLES[workload].capitalize()}, {variant}, slots of {slot:g} s: gain {ends}; the bound is reached for "
                f"{reached.height} of {rows.height} t."
            )


def _verdict(runs: Sequence[StudyRun]) -> Verdict:
    if not runs:
        return Verdict(True, "Simulated only: there were no runs.")
    found = [(run.folder.name, run.metrics()["validity"]) for run in runs]
    wrong = [(folder, validity) for folder, validity in found if verdict_of(validity) != VALID]
    if not wrong:
        return Verdict(True, f"All {len(runs)} runs are valid.")
    counts = [(words, sum(verdict_of(one) == verdict for _, one in wrong)) for verdict, words in WORDS.items()]
    answer = ", ".join(f"{count} of {len(runs)} runs are {words}" for words, count in counts if count)
    return Verdict(False, f"{answer}.", [f"{folder}: {'; '.join(validity['reasons'])}" for folder, validity in wrong])


def _sections(
    simulated: pl.DataFrame, measured: pl.DataFrame | None, mains: Mapping[str, str], comparison: str | None
) -> Iterable[Section]:
    for workload, accuracy in mains.items():
        rows = simulated.filter(col("workload") == workload)
        main = rows.filter(col("accuracy") == accuracy)
        parts = [Part(one.description, one) for one in pictures(main, rows, workload)]
        cases = {
            f"By t, c = 1, {_estimates(accuracy)}": main.filter(col("c") == 1),
            f"By c, t = 0.1, {_estimates(accuracy)}": main.filter(col("t") == 0.1),
            "By accuracy of estimates, t = 0.1, c = 1": rows.filter(col("t") == 0.1, col("c") == 1),
        }
        tables = [Part(_ABOUT, table=_table(caption, case), is_wide=True) for caption, case in cases.items()]
        yield Section(f"Simulated: {_TITLES[workload]}", [*parts, *tables])
    if measured is None or measured.is_empty():
        lack = "TRACE=log plays a stretch of a log on an emulated cluster with fillers and without."
        yield Section("Runs", lacks=[lack])
        return
    words = "Runs on the emulated cluster beside the simulation of the same jobs and fillers. wait: mean wait beyond that without."
    yield Section("Runs beside the simulation", [Part(words, table=beside(simulated, measured), is_wide=True)])
    links = Table("Comparison", ("comparison", "page"), [(str(comparison),) * 2], links=[f"../{comparison}/report.html"])
    yield Section("All metrics of the runs", [Part("It has the pages of its runs.", table=links)])


def _estimates(accuracy: str) -> str:
    return "estimates as in the log" if accuracy == "keep" else f"accuracy {accuracy}"


def _share(value: float | None, half: float | None = None) -> str:
    """A share as per cent with two digits, and half its interval."""
    if value is None:
        return "-"
    return f"{100 * value:.2f}" + ("" if half is None else f" ± {100 * half:.2f}") + " %"


def _seconds(value: float | None, half: float | None = None) -> str:
    return "-" if value is None else f"{value:.1f}" + ("" if half is None else f" ± {half:.1f}") + " s"


_SHARES = ("idle", "gain", "net", "bound", "seed_bound", "lost", "overhead", "delayed")
_HEADINGS = ("idle", "gain", "net", "bound", "0.1 (1 - t) c", "lost", "overhead", "jobs delayed", "mean delay", "wait")


def _table(caption: str, rows: pl.DataFrame) -> Table:
    order = rows.sort("slot", "variant", "accuracy", "t", "c", descending=[False, True, False, False, False])
    shown = [
        (
            f"{row['variant']}, {row['slot']:g} s, p = {row['accuracy']}, t = {row['t']:g}, c = {row['c']:g}",
            *(_share(row[name], row[f"half_{name}"] if name in ("idle", "gain", "net") else None) for name in _SHARES),
            *(_seconds(row[name], row[f"half_{name}"]) for name in ("delay", "wait")),
        )
        for row in order.iter_rows(named=True)
    ]
    return Table(caption, ("fillers", *_HEADINGS), shown)


def beside(simulated: pl.DataFrame, measured: pl.DataFrame) -> Table:
    """The measured results beside the simulation of the same fillers."""
    keys = ["accuracy", "variant", "slot", "t", "c"]
    both = measured.join(simulated.filter(col("workload") == LOG), on=keys, how="left", suffix="_simulated")
    shown = []
    for row in both.sort("variant", "t", "c", descending=[True, False, False]).iter_rows(named=True):
        pair: list[str] = []
        for name in ("main", "filler", "gain"):
            pair += [_share(row[name], row[f"half_{name}"]), _share(row[f"{name}_simulated"])]
        pair += [_share(row["bound"]), _seconds(row["wait"], row["half_wait"]), _seconds(row["wait_simulated"])]
        shown.append((f"{row['variant']}, t = {row['t']:g}, c = {row['c']:g}", *pair))
    names = [f"{name}{of}" for name in ("jobs", "fillers", "gain") for of in ("", ", simulated")]
    return Table("Runs and simulation", ("fillers", *names, "bound", "wait", "wait, simulated"), shown)


def pictures(main: pl.DataFrame, rows: pl.DataFrame, workload: str) -> Iterable[Picture]:
    """Gain by t, gain by accuracy and delay by t.

    main: rows of the workload at its main accuracy; rows: all rows of the workload
    """
    title = _TITLES[workload]
    yield _lines(main.filter(col("c") == 1), "t", "gain", f"{workload}-gain", f"Gain by t: {title}", "share t of a slot")
    numeric = rows.filter(col("accuracy") != "keep", col("t") == 0.1, col("c") == 1).with_columns(
        p=col("accuracy").cast(pl.Float64)
    )
    if not numeric.is_empty():
        yield _lines(numeric, "p", "gain", f"{workload}-accuracy", f"Gain by accuracy: {title}", "accuracy of estimates p")
    late = main.filter(col("c") == 1, col("variant") == "planned")
    yield _lines(late, "t", "delay", f"{workload}-delay", f"Mean delay of jobs by saves: {title}", "share t of a slot")


def _lines(rows: pl.DataFrame, x: str, y: str, name: str, title: str, axis: str) -> Picture:
    """A line for each variant, and with a gain that of the bound; a panel for each length of slots."""
    drawn = rows.select("slot", col(x).alias("x"), series="variant", value=y)
    if y == "gain":
        bound = rows.filter(col("variant") == "slots").select("slot", col(x).alias("x"), series=pl.lit(_BOUND), value="bound")
        drawn = pl.concat([drawn, bound])
    order = [one for one in ("slots", "planned", _BOUND) if one in drawn["series"]]
    colours, dashes = theme.series_colours(order)
    values: Any = theme.percent_axis(y) if y == "gain" else alt.Axis(title="seconds", tickCount=5)
    panels = drawn.with_columns(panel=pl.format("slots of {} s", col("slot").cast(pl.Int64))).sort("slot", "series", "x")
    chart = (
        alt.Chart(panels)
        .mark_line(point=True, strokeWidth=1.8)
        .encode(
            alt.X("x:Q", title=axis),
            alt.Y("value:Q", axis=values, scale=theme.from_zero()),
            alt.Color("series:N", scale=colours, sort=order, legend=theme.line_legend()),
            strokeDash=alt.StrokeDash("series:N", scale=dashes, sort=order),
        )
        .properties(width=theme.WIDTH, height=theme.HEIGHT / 2)
        .facet(row=theme.panels("panel:N"))
    )
    told = []
    for (panel, series), line in panels.group_by("panel", "series", maintain_order=True):
        points = [
            f"{_share(value) if y == 'gain' else _seconds(value)} at {at:g}" for at, value in line.select("x", "value").rows()
        ]
        told.append(f"{panel}, {series}: {', '.join(points)}")
    return draw(chart, name, title, f"{'; '.join(told)}.")
