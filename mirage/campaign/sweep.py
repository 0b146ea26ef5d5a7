"""A sweep: one run for each shrink factor, and sweep.csv over all of them."""

from __future__ import annotations

import random
import threading
from decimal import Decimal
from pathlib import Path

from mirage.campaign import sweep_table
from mirage.campaign.at_once import first_run_host, home_of, note_on, runs_at_once
from mirage.campaign.lanes import RunsLeft
from mirage.experiment import log_findings, preflight, report, run_length, runs
from mirage.experiment.endings import Ending, of_worst
from mirage.experiment.instance_use import InstanceUse
from mirage.experiment.lane import Lane
from mirage.experiment.order import Order, execute
from mirage.experiment.prepare import Prepared
from mirage.knobs.parse import format_number
from mirage.records.file_names import EXPERIMENT_FILE, STATUS_FILE
from mirage.terminal.screen import Screen
from slurm_mirage.base.files import write_json


def play(order: Order, prepared: list[Prepared], name: str, screen: Screen) -> Ending:
    """Run one experiment for each shrink factor, in results/NAME-FACTOR, and write results/NAME/sweep.csv."""
    parent = runs.RESULTS / name
    folders = [runs.RESULTS / f"{name}-{format_number(run.shrink)}" for run in prepared]
    wanted = order.inputs(tuple(run.shrink for run in prepared))
    if (ended := _shown(parent, wanted, screen)) is not None:
        return ended
    preflight.privileges(order.knobs.cluster)
    own = [one for folder in folders for one in (folder.name, runs.calibration_of(folder.name))]
    with InstanceUse(order.knobs.cluster, name, own, folders, screen, first_run_host(order.knobs.cluster)) as use:
        if (ended := _shown(parent, wanted, screen)) is not None:
            return ended
        return _play(order, list(zip(prepared, folders, strict=True)), parent, wanted, use, screen)


def _shown(parent: Path, wanted: dict[str, str], screen: Screen) -> Ending | None:
    """The ending of a finished sweep, whose results are shown; None if it is new or unfinished."""
    ended = runs.earlier(parent, wanted)
    if ended is not None:
        sweep_table.show(parent, screen)
        report.show(parent, screen)
    return ended


def _play(
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
        preflight.before_2038(order.knobs.cluster, sum(run.passing for run, _ in left))
    lengths = [length for run, _ in left if (length := run.length()) is not None]
    words = run_length.in_words(speed, takes, run_length.total(lengths, count) if lengths else None)
    factors = ", ".join(format_number(run.shrink) for run, _ in parts)
    screen.say(f"sweep over SHRINK={factors}: {len(parts)} runs{f', {count} at once' if count > 1 else ''}, {words}")
    if (note := note_on(order.knobs.cluster, speed, count)) is not None:
        screen.say(note)
    screen.say(*log_findings.severe(order.knobs, order.source.trace))
    if not parent.exists():
        parent.mkdir(parents=True)
        write_json(parent / EXPERIMENT_FILE, order.description(wanted))
        runs.keep_knobs(parent, order.knobs)
    (parent / STATUS_FILE).unlink(missing_ok=True)
    writing = threading.Lock()

    def ended() -> list[tuple[Decimal, Path, Ending]]:
        return [(run.shrink, folder, results[folder]) for run, folder in parts if folder in results]

    def play(part: tuple[Prepared, Path], lane: Lane) -> bool:
        run, folder = part
        lane.screen.tell(run.announcement())
        ending = execute(order, run, folder, lane, parent)
        lane.screen.tell(ending.line)
        with writing:
            results[folder] = ending
            sweep_table.write(parent, ended())
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
    rest.run_beside([folder for _, folder in parts], results, screen)
    sweep_table.write(parent, ended())
    sweep_table.show(parent, screen)
    total = _ending(parent, ended())
    total.store(parent)
    report.write(parent, screen)
    return total


def _ending(parent: Path, results: list[tuple[Decimal, Path, Ending]]) -> Ending:
    for _, folder, ending in results:
        if not ending.is_final:
            return Ending(ending.word, f"{folder.name}: {ending.message}")
    where = f"results/{parent.name}/sweep.csv"
    worst = of_worst({folder.name: ending for _, folder, ending in results}, "runs", where)
    return worst or Ending("ok", f"{len(results)} runs, {where}")
