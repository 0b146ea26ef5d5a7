"""A requested experiment, and the course of one of its runs: preparation, calibration, replay, ending."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from mirage.experiment import host_pace, launch_costs, preflight, report, run_length, runs, site
from mirage.experiment.calibration import speed_for
from mirage.experiment.endings import OF_VERDICT, Ending, Failed, Interrupted
from mirage.experiment.lane import Lane
from mirage.experiment.prepare import Prepared, Source
from mirage.experiment.remarks import remarks
from mirage.experiment.variables import replay_variables
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import Speed
from mirage.knobs.resolve import user_message
from mirage.records.file_names import ANSIBLE_LOG_FILE, EXPERIMENT_FILE, STATUS_FILE
from mirage.records.run_clock import EVENT
from mirage.records.run_folder import RunFolder
from mirage.terminal import summary
from mirage.terminal.screen import Screen
from mirage.verdict.verdict import VALID, verdict_of
from slurm_mirage.base.errors import WrongUse


@dataclass(frozen=True)
class Order:
    """The requested experiment, checked as far as possible without a cluster."""

    knobs: Knobs
    inventory: Path
    config: Path
    source: Source

    def inputs(self, shrinks: tuple[Decimal, ...]) -> dict[str, str]:
        """Inputs of a run with this shrink factor, or of a sweep over several."""
        knobs = replace(self.knobs, jobs=replace(self.knobs.jobs, shrinks=shrinks))
        return runs.inputs(knobs, self.source.trace.sha256, self.config)

    def description(self, wanted: dict[str, str]) -> dict[str, Any]:
        """Content of experiment.json before a run or a sweep with these inputs."""
        return runs.describe(self.knobs, wanted, self.source.description)


def announce(prepared: Prepared, screen: Screen) -> None:
    """Print the remarks on a run, and the line that announces it."""
    for remark in remarks(prepared):
        screen.say(remark)
    screen.say(prepared.announcement())


def execute(order: Order, prepared: Prepared, folder: Path, lane: Lane, campaign: Path | None = None) -> Ending:
    """Start or continue the run, and write status.json. campaign: folder of the sweep that the run is part of."""
    is_new = not (folder / EXPERIMENT_FILE).exists()
    if is_new:
        wanted = order.inputs((prepared.shrink,))
        prepared.write(folder, {"run": folder.name, **lane.place()} | order.description(wanted))
        if campaign is None:  # that of a sweep has the knobs of all its runs
            runs.keep_knobs(folder, order.knobs)
    with runs.only_one(folder):
        if not is_new:
            is_there = preflight.has_journal(lane.cluster, folder.name)
            where = "where it was" if is_there else "from its beginning: its cluster is gone"
            runs.set_place(folder, lane.place())
            lane.screen.say(f"results/{folder.name} goes on {where}")
        (folder / STATUS_FILE).unlink(missing_ok=True)
        began = time.monotonic()
        ending = _ending(order, prepared, folder, lane, campaign)
        if is_new and ending.word == "wrong use":
            # A role refused an input, such as a port that is in use: nothing was changed, so the folder is removed.
            shutil.rmtree(folder)
            return ending
        runs.complete(folder)
        ending.store(folder)
        if is_new and ending.is_final and prepared.knobs.clock.speed == EVENT:
            clock = RunFolder(folder).metrics["validity"].get("event_clock") or {}
            _keep_pace(prepared, clock, time.monotonic() - began)
        if ending.is_final:
            if campaign is None:
                report.write(folder, lane.screen)
            else:
                report.write_meanwhile(folder)
    return ending


def _ending(order: Order, prepared: Prepared, folder: Path, lane: Lane, campaign: Path | None) -> Ending:
    screen, manager = lane.screen, order.knobs.scheduler.managers[0]
    report.prepare()

    def replay(run: str, speed: Speed, results: Path, more: Mapping[str, Any]) -> None:
        variables = replay_variables(prepared, speed, run, results)
        lane.play("experiment", {**variables, **more}, order.inventory, folder / ANSIBLE_LOG_FILE)

    try:
        speed = speed_for(prepared, folder, replay, screen)
        if prepared.knobs.clock.speed != speed:
            again = Prepared.make(order.knobs.at_speed(speed), order.source.trace, prepared.shrink)
            recorded = None if prepared.recorded is None else again.recorded
            prepared = replace(again, replica=prepared.replica, recorded=recorded)
            prepared.write_again(folder)
            announce(prepared, screen)
        replay(folder.name, speed, folder, {} if campaign is None else launch_costs.variables(campaign, manager, lane.host))
        if campaign is not None:
            launch_costs.keep(campaign, folder, manager, lane.host)
        run = RunFolder(folder)
        if not run.metrics:
            raise Failed(f"the run left no metrics.json (all of its output: {folder / 'ansible.log'})")
        for line in site.not_taken(order.knobs.scheduler, folder):
            screen.say(line)
        if campaign is None:  # a sweep has one table of all runs
            summary.show(run, screen)
        return _verdict(run.metrics, folder)
    except WrongUse as error:
        return Ending("wrong use", user_message(error))
    except Failed as error:
        return Ending("failed", str(error))
    except Interrupted:
        if preflight.running(lane.cluster) != folder.name:
            return Ending("failed", f"interrupted; the same command (with RUN={folder.name}) goes on")
        words = f"the same command (with RUN={folder.name}) follows it, make teardown ends it"
        return Ending("failed", f"interrupted; the replay itself goes on: {words}")


def _keep_pace(prepared: Prepared, clock: Mapping[str, float], took: float) -> None:
    """Keep what a run on the event clock took for the estimates of later ones.

    clock: figures of its verdict. took: real seconds of the whole run
    """
    real, scheduler = clock.get("real_seconds"), clock.get("scheduler_seconds")
    if real and scheduler:
        slow = math.sqrt(run_length.slowness() * run_length.measured_slowness())
        host_pace.keep(host_pace.Played(replace(prepared.predicted, slow=slow), scheduler, real - scheduler, took - real))


def _verdict(metrics: dict[str, Any], folder: Path) -> Ending:
    validity = metrics["validity"]
    if (verdict := verdict_of(validity)) != VALID:
        return Ending(OF_VERDICT[verdict], f"{'; '.join(validity['reasons'])} (results/{folder.name})")
    return Ending("ok", f"{metrics['jobs']['submitted']} jobs, results/{folder.name}")
