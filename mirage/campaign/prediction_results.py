"""Results of a prediction: predict.json and starts.csv from its runs, and the table on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich import box
from rich.table import Table

from mirage.experiment.courses import Courses
from mirage.experiment.endings import Ending, of_worst
from mirage.records import start_estimates
from mirage.records.file_names import ESTIMATES_FILE, EXECUTIONS_FILE, JOBS_FILE, PREDICTION_FILE, STARTS_FILE
from mirage.reports.prediction_page import remarks, text_of
from mirage.statistics.start_intervals import FIFTY, NINETY, quantiles
from mirage.terminal.screen import Screen
from mirage.terminal.table import print_all
from mirage.text.words import counted
from slurm_mirage.base import csv_text
from slurm_mirage.base.files import write_atomically, write_json

QUANTILES = {"start_50": 0.5, "start_90": 0.9, "from_50": FIFTY[0], "to_50": FIFTY[1], "from_90": NINETY[0], "to_90": NINETY[1]}
"""Members of a job: by then it has started in so many of the courses; the bounds of the intervals of 50 and 90 %."""
_MOST_JOBS = 10**10
PLACED = 60.0
"""Seconds within which the jobs that run have to have their nodes in a course."""
LINES = 30
"""Most lines of the table; of more jobs the first and the last ones are printed."""


def write(folder: Path, courses: Courses, runs: Sequence[Path]) -> dict[str, Any]:
    """Write predict.json and starts.csv; returns the content of predict.json. runs: the folders of the courses that have ended."""
    queue = courses.queue
    starts = [_starts(run, queue.instant) for run in runs]
    waits = np.array([[one.get(number, np.nan) for one in starts] for number in queue.waiting["job_number"]]).reshape(-1, len(runs))
    found = quantiles(waits, list(QUANTILES.values()))
    jobs: list[dict[str, Any]] = []
    for place, row in enumerate(queue.waiting.iter_rows(named=True)):
        promised = None if row["promised"] is None else max(row["promised"] - queue.instant, 0.0)
        jobs.append(
            {
                "job": row["name"],
                "processors": max(row["requested_processors"], row["allocated_processors"]),
                "requested": row["requested_time"] if row["requested_time"] > 0 else None,
                "promised": promised,
                **{name: _known(value) for name, value in zip(QUANTILES, found[place].tolist(), strict=True)},
                "courses": [_known(wait) for wait in waits[place].tolist()],
            }
        )
    late = [one.get(number, np.inf) for one in starts for number in queue.running["job_number"]]
    content = {
        "now": courses.taken.end,
        "zone": courses.taken.zone,
        "courses": [run.name for run in runs],
        "horizon": courses.horizon,
        "running": queue.running.height,
        "not_placed": float(np.mean(np.array(late) > PLACED)) if late else 0.0,
        "beyond_horizon": float(np.mean(~(waits <= courses.horizon))),
        "left": dict(queue.left),
        "slurm": _of_slurm(runs),
        "jobs": jobs,
    }
    write_json(folder / PREDICTION_FILE, content)
    write_atomically(folder / STARTS_FILE, _as_csv(jobs, len(runs)))
    return content


def _of_slurm(runs: Sequence[Path]) -> Mapping[str, Any]:
    """How far Slurm's own plans were from the starts in the courses; empty without any."""
    tables = [start_estimates.read(run / ESTIMATES_FILE) for run in runs if (run / ESTIMATES_FILE).is_file()]
    return start_estimates.summary(pl.concat([_numbered(table, place) for place, table in enumerate(tables)])) if tables else {}


def _numbered(table: pl.DataFrame, place: int) -> pl.DataFrame:
    """The table with other numbers of jobs for each course."""
    return table.with_columns(job=pl.col("job") + place * _MOST_JOBS)


def _known(value: float) -> float | None:
    return round(value, 1) if np.isfinite(value) else None


def _starts(run: Path, instant: float) -> dict[int, float]:
    """Seconds from now to the first start of each job in a course, by its number there: a job that is preempted starts again."""
    kinds = {"id": pl.Int64, "job": pl.Int64, "start": pl.Float64}
    tables = [pl.read_csv(run / JOBS_FILE, columns=["id", "start"], schema_overrides=kinds)]
    if (run / EXECUTIONS_FILE).is_file():
        lost = pl.read_csv(run / EXECUTIONS_FILE, columns=["job", "start"], schema_overrides=kinds)
        tables.append(lost.rename({"job": "id"}))
    first = pl.concat(tables).drop_nulls().group_by("id").agg(pl.col("start").min() - instant)
    return dict(first.iter_rows())


def _as_csv(jobs: Sequence[Mapping[str, Any]], courses: int) -> str:
    columns = ("job", "processors", "requested", "promised", *QUANTILES)
    rows: list[Sequence[object]] = [[*columns, *(f"course_{number}" for number in range(1, courses + 1))]]
    rows += [["" if value is None else value for value in (*(job[name] for name in columns), *job["courses"])] for job in jobs]
    return csv_text.text(rows)


def show(content: Mapping[str, Any], wanted: Sequence[str], screen: Screen) -> None:
    """Print when the wanted jobs start, and what the answer rests on."""
    jobs = [job for job in content["jobs"] if job["job"] in set(wanted)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("job", "processors", "50 %: within", "90 %: within", "half of the time", "Slurm says"):
        table.add_column(name, justify="right", no_wrap=True)
    for job in jobs if len(jobs) <= LINES else [*jobs[: LINES // 2], *jobs[-LINES // 2 :]]:
        span = f"{text_of(job['from_50'])} to {text_of(job['to_50'])}"
        says = text_of(job["promised"]) if job["promised"] is not None else "-"
        table.add_row(job["job"], str(job["processors"]), text_of(job["start_50"]), text_of(job["start_90"]), span, says)
    lines = [f"{len(jobs) - LINES} jobs between them are in {STARTS_FILE}"] if len(jobs) > LINES else []
    print_all(screen, table, *lines, *remarks(content))


def ending_of(folder: Path, runs: Sequence[Path], jobs: int) -> Ending:
    """The ending of the prediction: that of the worst of its runs."""
    endings = {run.name: ending for run in runs if (ending := Ending.load(run)) is not None}
    where = f"results/{folder.name}/{STARTS_FILE}"
    return of_worst(endings, "courses", where) or Ending("ok", f"{counted(jobs, 'job')}, {len(runs)} courses, {where}")
