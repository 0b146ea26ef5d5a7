"""The page of a prediction: when the waiting jobs of a site start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import altair as alt
import polars as pl

from mirage.records.run_folder import RunFolder
from mirage.records.start_estimates import AT_SUBMISSION, HORIZONS
from mirage.reports import theme
from mirage.reports.measures import inputs
from mirage.reports.page import Part, Section, Table, Verdict, report
from mirage.reports.pictures import Picture, draw
from mirage.text.words import about, counted, percent

DRAWN = 40
"""Most jobs in the picture: the first ones of the queue."""
LISTED = 1000
"""Most jobs in the table."""
ENOUGH = 4
"""Courses from which on intervals hold nearly as many starts as they say (start_intervals.py)."""
WORDS = (
    "Each line is a waiting job, in the order of the queue: a point where it has started in half of the courses, a thick line that "
    "holds the start with 50 %, a thin one with 90 %, and a diamond where Slurm planned its start when the queue was taken."
)

OF_SLURM = (
    "What the backfill scheduler planned for jobs in the courses (StartTime of squeue), when it planned them first, and "
    "in each hour after that, beside when they started. Plans are made with time limits. start_estimates.csv of a course has each."
)


def page(folder: Path) -> str:
    """The page as HTML, from predict.json, experiment.json and status.json in the folder."""
    run = RunFolder(folder)
    content, ending = run.prediction, run.status.get("ending", "")
    answer = "All courses are valid." if ending == "ok" else "A course is not valid: its page says why."
    return report(f"Prediction {folder.name}", _summary(content), Verdict(ending == "ok", answer), _sections(run, content))


def text_of(seconds: float | None) -> str:
    """A time from now on; None: later than the courses say."""
    return "later" if seconds is None else "now" if seconds < 1 else about(seconds)


def remarks(content: Mapping[str, Any]) -> list[str]:
    """What limits the answer, a sentence each. content: of predict.json"""
    lines = []
    if (count := len(content["courses"])) < ENOUGH:
        lines.append(
            f"{counted(count, 'course')}: too few for the intervals, which are too narrow; REPLICAS may be {ENOUGH} or more."
        )
    if content["not_placed"] > 0:
        lines.append(
            f"{100 * content['not_placed']:.1f} % of the running jobs did not get their nodes at once in the courses: other jobs "
            "may have started too early."
        )
    if content["beyond_horizon"] > 0:
        lines.append(
            f"{100 * content['beyond_horizon']:.1f} % of the starts are later than {about(content['horizon'])} from now, after "
            "which no job comes in the courses: they may be too early."
        )
    return lines


def _summary(content: Mapping[str, Any]) -> Iterable[str]:
    begin = datetime.fromtimestamp(content["now"], UTC).astimezone(ZoneInfo(content["zone"]))
    yield (
        f"{counted(len(content['jobs']), 'waiting job')} and {content['running']} running ones at {begin:%Y-%m-%d %H:%M} "
        f"({content['zone']}), continued {len(content['courses'])} times with the site's scheduler. Run times, and the jobs that "
        "come in the next hours, are drawn from the site's record. Times are counted from then on."
    )
    yield from (f"Not predicted: {count} {reason}." for reason, count in content["left"].items())
    yield from remarks(content)


def _sections(run: RunFolder, content: Mapping[str, Any]) -> Iterable[Section]:
    jobs = content["jobs"]
    picture = starts_picture(jobs[:DRAWN])
    more = "" if len(jobs) <= DRAWN else f" The first {DRAWN} of {len(jobs)} jobs."
    yield Section("Starts", [Part(WORDS + more, picture)])
    headings = ("job", "processors", "time limit", "started with 50 %", "with 90 %", "50 % between", "90 % between", "Slurm says")
    rows = [
        (
            job["job"], str(job["processors"]), "-" if job["requested"] is None else about(job["requested"]),
            text_of(job["start_50"]), text_of(job["start_90"]), _span(job, "50"), _span(job, "90"),
            "-" if job["promised"] is None else text_of(job["promised"]),
        )
        for job in jobs[:LISTED]
    ]  # fmt: skip
    all_of = "them" if len(jobs) <= LISTED else f"all {len(jobs)}"
    yield Section(
        "Jobs", [Part(f"starts.csv has {all_of} in seconds.", table=Table("When jobs start", headings, rows), is_wide=True)]
    )
    if content["slurm"]:
        yield Section("Slurm's own plans", [Part(OF_SLURM, table=_plans(content["slurm"]), is_wide=True)])
    links = [f"../{name}/report.html" for name in content["courses"]]
    courses = Table("Courses", ("run", ""), [(name, "its page") for name in content["courses"]], links=links)
    yield Section("Courses", [Part("Each course is a run of its own.", table=courses)])
    yield Section("Inputs", [Part("", table=table, is_wide=True) for table in inputs(run.experiment, frozenset())])


def _plans(errors: Mapping[str, Any]) -> Table:
    headings = (
        "planned to start within",
        "plans",
        "later than planned, median",
        "error, median",
        "|log10| of both, median",
        "right to 1 min",
    )
    rows = [
        (
            name, str(one["plans"]), ("-" if one["late"] < 0 else "") + about(abs(one["late"])), about(one["error"]),
            f"{one['log10']:.2f}", percent(one["within_minute"]),
        )
        for name in (AT_SUBMISSION, *HORIZONS)
        if (one := errors.get(name)) is not None
    ]  # fmt: skip
    return Table("Slurm's plans beside the starts", headings, rows)


def _span(job: Mapping[str, Any], share: str) -> str:
    first, last = (text_of(job[f"{end}_{share}"]) for end in ("from", "to"))
    return first if first == last else f"{first} and {last}"


def starts_picture(jobs: Sequence[Mapping[str, Any]]) -> Picture:
    """The starts of these jobs."""
    longest = max(
        [value for job in jobs for name in ("to_90", "start_50", "promised") if (value := job[name]) is not None], default=60.0
    )
    names = ("from_90", "to_90", "from_50", "to_50", "start_50")
    rows = pl.DataFrame(
        [
            {"job": job["job"], **{name: max(longest if job[name] is None else job[name], 1.0) for name in names},
             "promised": None if job["promised"] is None else max(job["promised"], 1.0)}
            for job in jobs
        ],
        schema={"job": pl.String, **dict.fromkeys((*names, "promised"), pl.Float64)},
    )  # fmt: skip
    axis, scale = theme.duration_axis(longest, "from now")
    y = alt.Y("job:N", sort=rows["job"].to_list(), axis=alt.Axis(title="job", ticks=False))

    def x(name: str) -> alt.X:
        return alt.X(f"{name}:Q", axis=axis, scale=scale)

    thin = alt.Chart(rows).mark_rule(strokeWidth=1.5, color=theme.BLUE).encode(y=y, x=x("from_90"), x2="to_90:Q")
    thick = alt.Chart(rows).mark_rule(strokeWidth=5, color=theme.BLUE, opacity=0.6).encode(y=y, x=x("from_50"), x2="to_50:Q")
    points = alt.Chart(rows).mark_point(size=50, filled=True, color=theme.INK, opacity=1).encode(y=y, x=x("start_50"))
    layers = [thin, thick, points]
    known = rows.drop_nulls("promised")
    if not known.is_empty():
        mark = alt.Chart(known).mark_point(size=60, shape="diamond", stroke=theme.ORANGE, strokeWidth=2, opacity=1)
        layers.append(mark.encode(y=y, x=x("promised")))
    chart = alt.layer(*layers).properties(width=theme.WIDTH, height=max(80, 18 * len(jobs)))
    text = "; ".join(f"job {job['job']}: {text_of(job['start_50'])}, {_span(job, '90')}" for job in jobs)
    return draw(chart, "starts", "When jobs start", f"{text}.")
