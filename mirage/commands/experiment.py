"""`make experiment`: one run, or a sweep of them."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from mirage.experiment import (
    clock_choice,
    fillers,
    launch_costs,
    malleability,
    managers,
    preflight,
    report,
    run_length,
    runs,
    site,
    sweep,
)
from mirage.experiment.at_once import first_run_host, home_of, note_on, places_of, runs_at_once
from mirage.experiment.calibration import speed_for
from mirage.experiment.endings import OF_VERDICT, Ending, Failed, Interrupted
from mirage.experiment.hosts import of_one_cluster
from mirage.experiment.instance_use import InstanceUse
from mirage.experiment.lanes import Lane, RunsLeft
from mirage.experiment.prepare import Prepared, Source, source
from mirage.experiment.remarks import remarks
from mirage.experiment.variables import replay_variables
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import Speed, format_number
from mirage.knobs.resolve import user_message
from mirage.records.shapes import EXPERIMENT_JSON, METRICS_JSON
from mirage.records.verdict import VALID, verdict_of
from mirage.terminal import summary
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_json


@dataclass(frozen=True)
class Order:
    """The requested experiment, checked as far as possible without a cluster."""

    knobs: Knobs
    inventory: Path
    config: Path
    source: Source

    def inputs(self, shrinks: tuple[Decimal, ...]) -> dict[str, str]:
        knobs = replace(self.knobs, jobs=replace(self.knobs.jobs, shrinks=shrinks))
        return runs.inputs(knobs, self.source.trace.sha256, self.config)


def experiment(knobs: Knobs, screen: Screen) -> Ending:
    """Check everything, then run the experiment, or the sweep if SHRINK has several factors."""
    managers.check(knobs)
    jobs = source(knobs.workload, knobs.nodes.machine)
    order = Order(knobs, preflight.inventory(knobs.cluster), preflight.config(knobs.scheduler), jobs)
    malleability.check(knobs)
    fillers.check(knobs)
    played = knobs.at_speed(clock_choice.chosen(knobs, screen))
    prepared = [Prepared.make(played, order.source.trace, shrink) for shrink in knobs.jobs.shrinks]
    name = runs.name_for(knobs.output.run, knobs.workload.trace, order.inputs(knobs.jobs.shrinks), datetime.now())
    if len(prepared) == 1:
        return _single(order, prepared[0], name, screen)
    return _sweep(order, prepared, name, screen)


def _single(order: Order, prepared: Prepared, name: str, screen: Screen) -> Ending:
    folder = runs.RESULTS / name
    if (ended := runs.earlier(folder, order.inputs((prepared.shrink,)))) is not None:
        return _shown(folder, ended, screen)
    of_one_cluster(order.knobs.cluster, "a single run")
    preflight.privileges(order.knobs.cluster)
    with InstanceUse(order.knobs.cluster, name, [name, runs.calibration_of(name)], [folder], screen) as use:
        # Another make may have finished it while this one waited.
        if (ended := runs.earlier(folder, order.inputs((prepared.shrink,)))) is not None:
            return _shown(folder, ended, screen)
        use.when_free(lambda: preflight.nothing_disturbed(order.knobs, name))
        preflight.has_room(order.knobs)
        preflight.no_leftover(order.knobs.cluster, folder)
        if not folder.exists():
            preflight.before_2038(order.knobs.cluster, prepared.estimate())
        _announce(prepared, screen)
        return _execute(order, prepared, folder, Lane.only(order.knobs.cluster, use, screen))


def _announce(prepared: Prepared, screen: Screen) -> None:
    for remark in remarks(prepared):
        screen.say(remark)
    screen.say(prepared.announcement())


def _shown(folder: Path, ended: Ending, screen: Screen) -> Ending:
    screen.say(f"results/{folder.name} is finished: nothing is run again")
    if (metrics := read_json(folder / "metrics.json", METRICS_JSON)) is not None:
        summary.show(metrics, read_json(folder / "experiment.json", EXPERIMENT_JSON) or {}, folder.name, screen)
        report.show(folder, screen)
    return ended


def _sweep(order: Order, prepared: list[Prepared], name: str, screen: Screen) -> Ending:
    """Run one experiment for each shrink factor, in results/NAME-FACTOR, and write results/NAME/sweep.csv."""
    parent = runs.RESULTS / name
    folders = [runs.RESULTS / f"{name}-{format_number(run.shrink)}" for run in prepared]
    wanted = order.inputs(tuple(run.shrink for run in prepared))
    if (ended := _shown_sweep(parent, wanted, screen)) is not None:
        return ended
    preflight.privileges(order.knobs.cluster)
    own = [one for folder in folders for one in (folder.name, runs.calibration_of(folder.name))]
    with InstanceUse(order.knobs.cluster, name, own, folders, screen, first_run_host(order.knobs.cluster)) as use:
        if (ended := _shown_sweep(parent, wanted, screen)) is not None:
            return ended
        return _play_sweep(order, list(zip(prepared, folders, strict=True)), parent, wanted, use, screen)


def _shown_sweep(parent: Path, wanted: dict[str, str], screen: Screen) -> Ending | None:
    """The ending of a finished sweep, whose results are shown; None if it is new or unfinished."""
    ended = runs.earlier(parent, wanted)
    if ended is not None:
        sweep.show(parent, screen)
        report.show(parent, screen)
    return ended


def _play_sweep(
    order: Order, parts: list[tuple[Prepared, Path]], parent: Path, wanted: dict[str, str], use: InstanceUse, screen: Screen
) -> Ending:
    done = [runs.earlier(folder, order.inputs((run.shrink,))) for run, folder in parts]
    names = {folder.name for _, folder in parts}
    active = preflight.running(order.knobs.cluster)
    use.when_free(lambda: preflight.nothing_disturbed(order.knobs, active if active in names else parent.name))
    preflight.has_room(order.knobs)
    for _, folder in parts:
        preflight.no_leftover(order.knobs.cluster, folder)
    results = {folder: end for (_, folder), end in zip(parts, done, strict=True) if end is not None}
    left = [part for part in parts if part[1] not in results]
    speed = parts[0][0].knobs.clock.speed
    count = runs_at_once(order.knobs, speed, len(left))
    if count > 1:
        random.Random(f"order {order.knobs.workload.seed}").shuffle(left)
    takes = sum(run.estimate() for run, _ in left) / count
    if not parent.exists():
        preflight.before_2038(order.knobs.cluster, sum(run.estimate() for run, _ in left))
    lengths = [length for run, _ in left if (length := run.length()) is not None]
    words = run_length.in_words(speed, takes, run_length.total(lengths, count) if lengths else None)
    factors = ", ".join(format_number(run.shrink) for run, _ in parts)
    screen.say(f"sweep over SHRINK={factors}: {len(parts)} runs{f', {count} at once' if count > 1 else ''}, {words}")
    if (note := note_on(order.knobs.cluster, speed, count)) is not None:
        screen.say(note)
    if not parent.exists():
        parent.mkdir(parents=True)
        write_json(parent / "experiment.json", _description(order, wanted))
    (parent / "status.json").unlink(missing_ok=True)
    writing = threading.Lock()

    def ended() -> list[tuple[Decimal, Path, Ending]]:
        return [(run.shrink, folder, results[folder]) for run, folder in parts if folder in results]

    def play(part: tuple[Prepared, Path], lane: Lane) -> bool:
        run, folder = part
        lane.screen.tell(run.announcement())
        ending = _execute(order, run, folder, lane, parent)
        lane.screen.tell(ending.line)
        with writing:
            results[folder] = ending
            sweep.write(parent, ended())
        return ending.is_final

    for _, folder in parts:
        if folder in results:
            screen.say(f"results/{folder.name} is finished: {results[folder].line}")
    rest = RunsLeft(
        order.knobs,
        order.inventory,
        speed,
        parent,
        use,
        on_head=[one for name in names for one in (name, runs.calibration_of(name))],
        left=left,
        play=play,
        which=lambda part: f"results/{part[1].name}",
        name=lambda part: part[1].name,
        folder_of=lambda part: part[1],
        home=lambda part: home_of(order.knobs.cluster, part[1], part[1].name),
        foot=lambda: f"{len(results)} of {len(parts)} runs finished",
    )
    try:
        is_complete = rest.run(places_of([folder for _, folder in parts]), screen)
    except WrongUse:
        if not any(folder.exists() for _, folder in parts):
            shutil.rmtree(parent)
        raise
    if not is_complete and all(ending.is_final for ending in results.values()):
        raise Interrupted
    sweep.write(parent, ended())
    sweep.show(parent, screen)
    total = _sweep_ending(parent, ended(), len(parts))
    total.store(parent)
    report.write(parent, screen)
    return total


def _sweep_ending(parent: Path, results: list[tuple[Decimal, Path, Ending]], wanted: int) -> Ending:
    for _, folder, ending in results:
        if not ending.is_final:
            return Ending(ending.word, f"{folder.name}: {ending.message}")
    for word in ("invalid", "inconclusive"):
        if named := [folder.name for _, folder, ending in results if ending.word == word]:
            return Ending(word, f"{len(named)} of {wanted} runs ({', '.join(named)}), results/{parent.name}/sweep.csv")
    return Ending("ok", f"{wanted} runs, results/{parent.name}/sweep.csv")


def _description(order: Order, wanted: dict[str, str]) -> dict[str, Any]:
    return runs.describe(order.knobs, wanted, order.source.description)


def _execute(order: Order, prepared: Prepared, folder: Path, lane: Lane, campaign: Path | None = None) -> Ending:
    """Start or continue the run, and write status.json. campaign: folder of the sweep that the run is part of."""
    is_new = not (folder / "experiment.json").exists()
    if is_new:
        wanted = order.inputs((prepared.shrink,))
        prepared.write(folder, {"run": folder.name, **lane.place()} | _description(order, wanted))
    with runs.only_one(folder):
        if not is_new:
            where = (
                "where it was" if preflight.has_journal(lane.cluster, folder.name) else "from its beginning: its cluster is gone"
            )
            runs.set_place(folder, lane.place())
            lane.screen.say(f"results/{folder.name} goes on {where}")
        (folder / "status.json").unlink(missing_ok=True)
        ending = _ending(order, prepared, folder, lane, campaign)
        if is_new and ending.word == "wrong use":
            # A role refused an input, such as a port that is in use: nothing was changed, so the folder is removed.
            shutil.rmtree(folder)
            return ending
        runs.complete(folder)
        ending.store(folder)
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
        lane.play("experiment", {**variables, **more}, order.inventory, folder / "ansible.log")

    try:
        speed = speed_for(prepared, folder, replay, screen)
        if prepared.knobs.clock.speed != speed:
            prepared = Prepared.make(order.knobs.at_speed(speed), order.source.trace, prepared.shrink)
            prepared.write_again(folder)
            _announce(prepared, screen)
        replay(folder.name, speed, folder, {} if campaign is None else launch_costs.variables(campaign, manager, lane.host))
        if campaign is not None:
            launch_costs.keep(campaign, folder, manager, lane.host)
        metrics = read_json(folder / "metrics.json", METRICS_JSON)
        if metrics is None:
            raise Failed(f"the run left no metrics.json (all of its output: {folder / 'ansible.log'})")
        for line in site.not_taken(order.knobs.scheduler, folder):
            screen.say(line)
        if campaign is None:  # a sweep has one table of all runs
            summary.show(metrics, read_json(folder / "experiment.json", EXPERIMENT_JSON) or {}, folder.name, screen)
        return _verdict(metrics, folder)
    except WrongUse as error:
        return Ending("wrong use", user_message(error))
    except Failed as error:
        return Ending("failed", str(error))
    except Interrupted:
        if preflight.running(lane.cluster) != folder.name:
            return Ending("failed", f"interrupted; the same command (with RUN={folder.name}) goes on")
        words = f"the same command (with RUN={folder.name}) follows it, make teardown ends it"
        return Ending("failed", f"interrupted; the replay itself goes on: {words}")


def _verdict(metrics: dict[str, Any], folder: Path) -> Ending:
    validity = metrics["validity"]
    if (found := verdict_of(validity)) != VALID:
        return Ending(OF_VERDICT[found], f"{'; '.join(validity['reasons'])} (results/{folder.name})")
    return Ending("ok", f"{metrics['jobs']['submitted']} jobs, results/{folder.name}")
