"""`make diff RUNS="a b"`: where two runs of a workload part: what of their inputs and hosts differs, the first job that started or
ended at another instant or had other nodes, with the queue and the free processors of both runs then, how many jobs that moved, and
how near the first run comes to the second. Nothing is written.

Two runs of one command on the event clock have the same schedule (docs/event-clock.md). For two runs of one command at a constant
speed the nearness is the least that a comparison with a log can show (docs/results.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from mirage.experiment.endings import Ending
from mirage.experiment.report import folder_of
from mirage.knobs.knobs import Knobs
from mirage.records.file_names import JOBS_FILE
from mirage.records.first_difference import Differences
from mirage.records.run_folder import RunFolder
from mirage.records.schedule import of_run
from mirage.statistics.nearness import overall, pairs_of
from mirage.terminal.screen import Screen
from mirage.verdict.advice import counted
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.registry import IMPLEMENTATIONS

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
    parted = Differences((first, second), (names[0], names[1]))
    if parted.alone:
        return Ending(
            "failed", f"{counted(parted.alone, 'job')} of {names[0]} and {names[1]} are in one of them only: other workloads"
        )
    jobs = counted(parted.pairs.height, "job")
    if parted.parted.is_empty():
        return Ending("ok", f"equal: all {jobs} of {names[0]} and {names[1]} start and end at the same instants")
    for line in parted.first_lines():
        screen.say(line)
    if (near := _nearness(of_run(first).jobs, of_run(second).jobs)) is not None:
        screen.say(near)
    waits, elsewhere = parted.mean_waits, parted.parted.height - parted.moved.height
    nodes = f", {elsewhere} more have other nodes only" if elsewhere else ""
    words = f"{parted.moved.height} of {jobs} differ, {parted.far.height} of them by more than a minute{nodes}; mean wait"
    return Ending("failed", f"{words} {waits[0]:.6g} s in {names[0]}, {waits[1]:.6g} s in {names[1]}")


def _run(name: str) -> RunFolder:
    """The folder of a finished run. Raises WrongUse."""
    try:
        run = RunFolder(folder_of(name))
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
    for part in (*IMPLEMENTATIONS, "clock", "host", "versions", "git"):
        for name, was, now in _differing(one.get(part) or {}, two.get(part) or {}):
            if name != "began":
                yield f"{part} {name}: {was}, {now}"


def _differing(one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Name and both values of each member that differs."""
    for name in sorted({*one, *two}):
        if one.get(name) != two.get(name):
            yield name, one.get(name, "none"), two.get(name, "none")


def _nearness(one: pl.DataFrame, two: pl.DataFrame) -> str | None:
    """How near the waits of the first run come to those of the second, in a line; None if no job started in both."""
    pairs = pairs_of(one, two)
    if pairs.is_empty():
        return None
    near = overall(pairs)
    mean, share, rho = near["differences"]["mean"], near["differences"]["within_minute"], near["rank_correlation"]
    words = f"nearness: mean difference of waits {mean['value']:.6g} s"
    if rho is not None:
        words += f", rank correlation {rho['value']:.4f}"
    return f"{words}, {100 * share['value']:.1f} % of the jobs within a minute"
