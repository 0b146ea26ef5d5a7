"""`make experiment`: one run, or a sweep of them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from mirage.campaign import sweep
from mirage.experiment import aspects, clock_choice, log_findings, managers, preflight, report, run_events, runs
from mirage.experiment.endings import Ending
from mirage.experiment.hosts import of_one_cluster
from mirage.experiment.instance_use import InstanceUse
from mirage.experiment.lane import Lane
from mirage.experiment.order import Order, announce, execute
from mirage.experiment.prepare import Prepared, source
from mirage.knobs.knobs import Knobs
from mirage.records.run_folder import RunFolder
from mirage.terminal import summary
from mirage.terminal.screen import Screen


def experiment(knobs: Knobs, screen: Screen) -> Ending:
    """Check everything, then run the experiment, or the sweep if SHRINK has several factors."""
    managers.check(knobs)
    run_events.check(knobs.events)
    jobs = source(knobs.workload, knobs.nodes.machine)
    order = Order(knobs, preflight.inventory(knobs.cluster), preflight.config(knobs.scheduler), jobs)
    aspects.check(knobs)
    played = knobs.at_speed(clock_choice.chosen(knobs, screen))
    prepared = [Prepared.make(played, order.source.trace, shrink) for shrink in knobs.jobs.shrinks]
    name = runs.name_for(knobs.output.run, knobs.workload.trace, order.inputs(knobs.jobs.shrinks), datetime.now())
    if len(prepared) == 1:
        return _single(order, prepared[0], name, screen)
    return sweep.play(order, prepared, name, screen)


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
            preflight.before_2038(order.knobs.cluster, prepared.passing)
        screen.say(*log_findings.severe(order.knobs, order.source.trace))
        announce(prepared, screen)
        return execute(order, prepared, folder, Lane.only(order.knobs.cluster, use, screen))


def _shown(folder: Path, ended: Ending, screen: Screen) -> Ending:
    screen.say(f"results/{folder.name} is finished: nothing is run again")
    if (run := RunFolder(folder)).metrics:
        summary.show(run, screen)
        report.show(folder, screen)
    return ended
