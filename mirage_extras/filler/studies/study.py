"""`make study STUDY=filler`: gain and cost of filler jobs, simulated, and with TRACE also measured in runs (study.md).

The runs are a comparison of their own (results/STUDY-runs), so that an interrupted study goes on as `make compare` does.
results/STUDY holds simulated.csv, measured.csv and study.html.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from mirage.campaign.arms import Arms
from mirage.campaign.campaign import Campaign
from mirage.experiment import clock_choice, runs
from mirage.experiment.endings import Ending
from mirage.experiment.prepare import SLACK, selection_of
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import Value
from mirage.records.run_folder import RunFolder
from mirage.terminal.screen import Screen
from mirage.text.words import about
from mirage.traces.trace import Trace
from mirage.workloads.models import estimates
from mirage.workloads.workload import prepare
from mirage_extras.filler import experiment as filler
from slurm_mirage.base.files import read_json, write_atomically, write_json
from slurm_mirage.extras.filler.words import NO, PLANNED, SLOTS
from studies.own_knobs import chosen, name_of, refuse

if TYPE_CHECKING:
    from mirage_extras.filler.studies.simulation import Jobs, Point, Study

NAME = "study-filler"
KNOBS = {"NODES": "100", "CPUS": "1", "CONFIG": "backfill", "OFFSET": "19151", "REPLICAS": "3"}
JOBS, FULL_JOBS = "200", "500"
REPETITIONS, FULL_REPETITIONS = 3, 10
PLAYED = [(variant, t, 1.0) for t in (0.02, 0.2) for variant in (SLOTS, PLANNED)]
FULL_PLAYED = [*PLAYED, *((variant, 0.5, 0.8) for variant in (SLOTS, PLANNED))]
"""Variant, t and c of the runs."""
SLOT = 1800.0
"""Seconds of a slot in the runs, and in the simulation of the log: each end of a slot starts a program on every idle node."""
LOG_ACCURACIES = ("keep", "0", "0.5", "1")
# Seconds before progress is shown.
_PATIENCE = 5.0


def study_filler(given: Knobs, screen: Screen) -> Ending:
    """Run the simulations, then the runs if TRACE is given, and make the page."""
    is_full = given.campaign.is_full
    name = name_of(given, NAME)
    refuse(given, NAME, ("MODEL", "SLURM_CONF", "CLASSES", "CONFIGS", "FILLER", "FILLER_JOBS"))
    jobs = {} if given.workload.jobs else {"JOBS": FULL_JOBS if is_full else JOBS}
    knobs = chosen(given, {**KNOBS, "RUN": f"{name}-runs", **jobs})
    points = [_point(*one) for one in (FULL_PLAYED if is_full else PLAYED)]
    campaign = _campaign(knobs, points, screen) if given.workload.trace else None
    rows, mains = _simulated(name, knobs, campaign, is_full, points, screen)
    if campaign is None:
        _write(name, rows, mains, None, points)
        return Ending("ok", f"simulated, results/{name}/study.html; TRACE=log plays a stretch of it as well")
    ending = campaign.run(screen)
    if ending.is_final:
        _write(name, rows, mains, campaign.folder.name, points)
        screen.say(f"study: results/{name}/study.html")
    return ending


def _point(variant: str, t: float, c: float) -> Point:
    from mirage_extras.filler.studies.simulation import Point

    return Point(variant, SLOT, t, c)


def label(point: Point) -> str:
    """Name of the arm with these fillers."""
    return f"{point.variant}-t{100 * point.t:g}-c{100 * point.c:g}"


def arms(points: list[Point]) -> Arms:
    """One arm without fillers, and one for each point."""
    found: dict[str, Mapping[str, Value]] = {NO: {"FILLER": NO}}
    return found | {label(one): {"FILLER": one.variant, "FILLER_JOBS": one.words().text()} for one in points}


def _campaign(knobs: Knobs, points: list[Point], screen: Screen) -> Campaign:
    for arm in arms(points).values():
        filler.check(knobs.with_values(arm))
    return Campaign.of(knobs, clock_choice.chosen(knobs, screen), arms(points))


def study_of(seed: int, is_full: bool) -> Study:
    """The simulated part of the study: workloads of the model lomonosov, with some repetitions, or more of them if `is_full`."""
    from mirage.simulation import saturation
    from mirage_extras.filler.studies import simulation

    repetitions = FULL_REPETITIONS if is_full else REPETITIONS
    machine = saturation.Study(repetitions=repetitions, seed=seed)
    return simulation.Study(machine=machine)


def _simulated(
    name: str, knobs: Knobs, campaign: Campaign | None, is_full: bool, points: list[Point], screen: Screen
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Rows of all simulations, and the main accuracy of each workload; those of a begun study are not simulated again."""
    from mirage_extras.filler.studies.page import LOG, LOMONOSOV
    from mirage_extras.filler.studies.simulation import SCHEMA, lomonosov, measure, simulated

    study, folder = study_of(knobs.workload.seed, is_full), runs.RESULTS / name
    mains = {LOMONOSOV: study.main} | ({LOG: "keep"} if campaign else {})
    inputs = {"study": repr(study), "log": campaign.inputs if campaign else None}
    if (folder / "simulated.csv").exists() and read_json(folder / "simulated.json") == inputs:
        screen.say(f"results/{name}/simulated.csv is finished: nothing is simulated again")
        return pl.read_csv(folder / "simulated.csv", schema=SCHEMA), mains
    began = time.monotonic()

    def progress(done: int, wanted: int) -> None:
        passed = time.monotonic() - began
        if passed > _PATIENCE:
            screen.live(f"simulated {done} of {wanted} workloads, {about(passed * (wanted - done) / done)} left")

    tasks: list[Callable[[], Jobs]] = [
        functools.partial(lomonosov, study, accuracy, repetition)
        for accuracy in study.accuracies
        for repetition in range(study.machine.repetitions)
    ]
    threads = len(os.sched_getaffinity(0))
    found = [measure(study, tasks, threads, progress)]
    if campaign:
        of_log = replace(study, accuracies=LOG_ACCURACIES, main="keep", slots=(SLOT,))
        found += [
            simulated(jobs, dict.fromkeys([*of_log.points(accuracy), *(points if accuracy == "keep" else [])]))
            for accuracy in of_log.accuracies
            for jobs in [jobs_of_log(knobs, campaign.source.trace, accuracy)]
        ]
    folder.mkdir(parents=True, exist_ok=True)
    rows = pl.concat(found)
    write_json(folder / "simulated.json", inputs)
    write_atomically(folder / "simulated.csv", rows.write_csv())
    return rows, mains


def jobs_of_log(knobs: Knobs, trace: Trace, accuracy: str) -> Jobs:
    """The jobs of the comparison, with the log's time limits (keep) or estimates of this accuracy."""
    from mirage_extras.filler.studies.page import LOG
    from mirage_extras.filler.studies.simulation import Jobs

    machine = knobs.nodes.machine
    changed = replace(trace, frame=estimates.replace(trace.frame, accuracy, knobs.workload.seed))
    classes = tuple((item.count, item.cpus) for item in machine.classes)
    jobs = prepare(changed, selection_of(knobs.workload), classes=classes, slack=SLACK, sizes=knobs.jobs.sizes).jobs
    plan = jobs["limit_minutes"] * 60 if accuracy == "keep" else jobs["requested"]
    cancel = jobs.select(pl.col("submit") + pl.col("cancel_after_virtual").fill_null(float("inf"))).to_series()
    submit, runtime, cancels, plans = (
        column.to_numpy().astype(np.float64) for column in (jobs["submit"], jobs["runtime"], cancel, plan)
    )
    return Jobs(LOG, accuracy, 0, machine.processors, submit, jobs["processors"].to_numpy(), runtime, plans, cancels)


def _write(name: str, rows: pl.DataFrame, mains: dict[str, str], comparison: str | None, points: list[Point]) -> None:
    """Write the page and the measured results."""
    from mirage_extras.filler.studies.measured import StudyRun
    from mirage_extras.filler.studies.measured import rows as measured_rows
    from mirage_extras.filler.studies.page import LOG, page
    from mirage_extras.filler.studies.simulation import summary

    found: list[StudyRun] = []
    if comparison is not None:
        by_label = {label(one): one for one in points}
        of_runs = runs.RESULTS / comparison
        members = RunFolder(of_runs).experiment["comparison"]
        found = [StudyRun(by_label.get(one["label"]), one["replica"], RunFolder(of_runs / one["folder"])) for one in members]
    folder = runs.RESULTS / name
    measured = None
    if found:
        table = measured_rows(found, LOG, "keep")
        write_atomically(folder / "measured.csv", table.write_csv())
        measured = summary(table)
    parts = [summary(part) for _, part in rows.group_by("workload", maintain_order=True)]
    write_atomically(folder / "study.html", page(name, pl.concat(parts), measured, found, mains, comparison))
