"""`make diff RUNS="a b"`: where two runs of a workload part: what of their inputs and hosts differs, the first job that started at
another instant, with the queue and the free processors of both runs then, how many jobs that moved, and how near the first run
comes to the second. Nothing is written.

Two runs of one command on the event clock have the same schedule (docs/event-clock.md). For two runs of one command at a constant
speed the nearness is the least that a comparison with a log can show (docs/results.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
from polars import col

from mirage.experiment.endings import Ending
from mirage.experiment.report import folder_of
from mirage.knobs.knobs import Knobs
from mirage.records.file_names import JOBS_FILE
from mirage.records.run_folder import RunFolder
from mirage.statistics.nearness import overall, pairs_of
from mirage.terminal.screen import Screen
from mirage.verdict.advice import counted
from slurm_mirage.base.errors import WrongUse

MOVED = 60.0
"""Trace seconds: starts that differ by more are counted beside the others."""
SHOWN = 8
"""Differences of the inputs and hosts that are printed."""
NOT_OF_THE_RUN = frozenset({"CLUSTER", "INVENTORY"})
"""Inputs that change no schedule."""


def diff(knobs: Knobs, screen: Screen) -> Ending:
    """Compare two runs. The command fails if their jobs differ."""
    names = (knobs.output.runs or "").split()
    if not names:
        raise WrongUse("nothing is given; it may be the names of two finished runs of results/, as in RUNS='a b'", parameter="runs")
    first, second = (_run(name) for name in names)
    differences = list(_of_inputs(first, second))
    for line in differences[:SHOWN]:
        screen.say(line)
    if len(differences) > SHOWN:
        screen.say(f"and {counted(len(differences) - SHOWN, 'other difference')} of the inputs and hosts")
    pairs, alone = _pairs(first.schedule.jobs, second.schedule.jobs)
    if alone:
        return Ending("failed", f"{counted(alone, 'job')} of {names[0]} and {names[1]} are in one of them only: other workloads")
    moved = pairs.filter(col("start").ne_missing(col("start_2")) | col("end").ne_missing(col("end_2")))
    if moved.is_empty():
        return Ending(
            "ok", f"equal: all {counted(pairs.height, 'job')} of {names[0]} and {names[1]} start and end at the same instants"
        )
    job = moved.with_columns(at=pl.min_horizontal("start", "start_2", "end", "end_2")).sort("at", "id").row(0, named=True)
    at = job["at"]
    screen.say(f"the first job that differs, at {at:.6f}: {job['id']}, {counted(job['processors'], 'processor')}")
    for name, run, suffix in ((names[0], first, ""), (names[1], second, "_2")):
        screen.say(f"  {name}: {_instants(job[f'start{suffix}'], job[f'end{suffix}'])}; {_at(run, at)}")
    if (near := _nearness(first.schedule.jobs, second.schedule.jobs)) is not None:
        screen.say(near)
    far = moved.filter((col("start") - col("start_2")).abs() > MOVED).height
    waits = [pairs.select((col(f"start{suffix}") - col(f"submit{suffix}")).mean()).item() or 0.0 for suffix in ("", "_2")]
    words = f"{len(moved)} of {counted(pairs.height, 'job')} differ, {far} of them by more than a minute; mean wait"
    return Ending("failed", f"{words} {waits[0]:.6g} s in {names[0]}, {waits[1]:.6g} s in {names[1]}")


def _run(name: str) -> RunFolder:
    """The folder of a finished run. Raises WrongUse."""
    top, _, member = name.partition("/")
    try:
        run = RunFolder(folder_of(top) / member)
    except WrongUse as error:
        raise WrongUse(f"results/{name} is not there", parameter="runs") from error
    if not run.has(JOBS_FILE):
        raise WrongUse(f"results/{name} is no finished run ({JOBS_FILE} is not there)", parameter="runs")
    return run


def _of_inputs(first: RunFolder, second: RunFolder) -> Iterator[str]:
    """Lines about inputs, releases and hosts that differ, those that explain most first."""
    one, two = first.experiment, second.experiment
    for name, was, now in _differing(one.get("inputs", {}), two.get("inputs", {})):
        if name not in NOT_OF_THE_RUN:
            yield f"{name}: {was}, {now}"
    for part in ("slurm", "openpbs", "clock", "host", "versions", "git"):
        for name, was, now in _differing(one.get(part) or {}, two.get(part) or {}):
            if name != "began":
                yield f"{part} {name}: {was}, {now}"


def _differing(one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Name and both values of each member that differs."""
    for name in sorted({*one, *two}):
        if one.get(name) != two.get(name):
            yield name, one.get(name, "none"), two.get(name, "none")


def _pairs(one: pl.DataFrame, two: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The jobs of both runs: id, processors, submit, start and end, those of the second run with the suffix _2; and how many jobs
    only one of them has."""
    columns = ["id", "processors", "submit", "start", "end"]
    pairs = one.select(columns).join(two.select(columns), on="id", suffix="_2", maintain_order="left")
    return pairs, one.height + two.height - 2 * pairs.height


def _nearness(one: pl.DataFrame, two: pl.DataFrame) -> str | None:
    """How near the waits of the first run come to those of the second, in a line; None if no job started in both."""
    pairs = pairs_of(one, two)
    if pairs.is_empty():
        return None
    near = overall(pairs)
    mean, share, rho = near["differences"]["mean"], near["differences"]["within_minute"], near["rank_correlation"]
    words = f"nearness: mean difference of waits {mean['value']:.6g}{_error(mean['error'])} s"
    if rho is not None:
        ends = "" if rho["low"] is None else f" ({rho['low']:.4f} to {rho['high']:.4f})"
        words += f", rank correlation {rho['value']:.4f}{ends}"
    per_cent = None if share["error"] is None else 100 * share["error"]
    return f"{words}, {100 * share['value']:.1f}{_error(per_cent)} % of the jobs within a minute"


def _error(width: float | None) -> str:
    return "" if width is None else f" ± {width:.2g}"


def _at(run: RunFolder, instant: float) -> str:
    """The queue and the machine of a run at an instant, before what happens then."""
    jobs, never = run.schedule.jobs, float("inf")
    present = jobs.filter(col("submit").lt(instant) & col("end").fill_null(never).ge(instant))
    runs = present.filter(col("start").lt(instant))
    words = f"{counted(present.height - runs.height, 'job')} waiting, {runs.height} running"
    processors = run.schedule.processors
    return words if processors is None else f"{words}, {processors - int(runs['processors'].sum())} of {processors} processors free"


def _instants(start: float | None, end: float | None) -> str:
    """`starts at 12, ends at 40`, as far as it did."""
    words = "never starts" if start is None else f"starts at {start:.6f}"
    return words if end is None else f"{words}, ends at {end:.6f}"
