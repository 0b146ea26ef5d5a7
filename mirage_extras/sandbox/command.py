"""`make sandbox`: starts a cluster for tools and courses, with work that goes on when the command has ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from mirage.experiment import aspects, clock_choice, managers, preflight, run_events, runs
from mirage.experiment.endings import Ending
from mirage.experiment.hosts import of_one_cluster
from mirage.experiment.instance_use import InstanceUse
from mirage.experiment.lane import Lane
from mirage.experiment.order import Order, announce
from mirage.experiment.prepare import Prepared, source
from mirage.experiment.variables import replay_variables
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import AUTO
from mirage.records.file_names import ANSIBLE_LOG_FILE, EXPERIMENT_FILE, STATUS_FILE
from mirage.records.run_folder import RunFolder
from mirage.terminal.screen import Screen
from mirage_extras.sandbox.addresses import in_words
from mirage_extras.sandbox.knobs import TARGET, SandboxKnobs
from slurm_mirage.base.errors import WrongUse

MODEL, JOBS = "raijin", 3000
"""The work without TRACE and MODEL."""
AT_ONCE = 3
"""This part of generated jobs, one in AT_ONCE, is submitted at the beginning: the machine is full and has a queue."""


def sandbox(knobs: Knobs, screen: Screen) -> Ending:
    """Check everything, start the cluster and its work. If this work has ended, collect its records."""
    if knobs.clock.speed != AUTO:
        raise WrongUse("a sandbox has a constant clock, and PACE is its speed", parameter="speed")
    pace = knobs.part(SandboxKnobs).pace or Decimal(1)
    knobs = with_work(knobs.with_values({"PACE": pace}).at_speed(pace))
    managers.check(knobs)
    run_events.check(knobs.events)
    if len(knobs.jobs.shrinks) > 1:
        raise WrongUse("a sandbox has one factor", parameter="shrink")
    jobs = source(knobs.workload, knobs.nodes.machine)
    order = Order(knobs, preflight.inventory(knobs.cluster), preflight.config(knobs.scheduler), jobs)
    aspects.check(knobs)
    clock_choice.chosen(knobs, screen)
    prepared = at_once(Prepared.make(knobs, jobs.trace, knobs.jobs.shrinks[0]))
    name = runs.name_for(knobs.output.run, knobs.workload.trace or TARGET, order.inputs(knobs.jobs.shrinks), datetime.now())
    screen.say(
        f"clock: constant, {pace:f} times real time: clients have the host's clock, and the event clock would not wait for them"
    )
    return _start(order, prepared, runs.RESULTS / name, screen)


def with_work(knobs: Knobs) -> Knobs:
    """The knobs with work, where they name neither a log nor a model."""
    if knobs.workload.trace or knobs.workload.model:
        return knobs
    return knobs.with_values({"MODEL": MODEL, "JOBS": knobs.workload.jobs or JOBS})


def at_once(prepared: Prepared) -> Prepared:
    """The run with a part of its generated jobs submitted at its beginning; a log as it is."""
    if prepared.knobs.workload.trace:
        return prepared
    begin = sorted(prepared.dues)[len(prepared.dues) // AT_ONCE]
    return replace(prepared, dues=[max(0.0, due - begin) for due in prepared.dues])


def _start(order: Order, prepared: Prepared, folder: Path, screen: Screen) -> Ending:
    knobs, shrinks = order.knobs, (prepared.shrink,)
    cluster, name = knobs.cluster, folder.name
    if (ended := runs.earlier(folder, order.inputs(shrinks))) is not None:
        return ended
    of_one_cluster(cluster, "a sandbox")
    preflight.privileges(cluster)
    with InstanceUse(cluster, name, [name], [folder], screen) as use:
        use.when_free(lambda: preflight.nothing_disturbed(knobs, name))
        preflight.has_room(knobs)
        preflight.no_leftover(cluster, folder)
        lane = Lane.only(cluster, use, screen)
        is_new = not (folder / EXPERIMENT_FILE).exists()
        if is_new:
            preflight.before_2038(cluster, prepared.passing)
            announce(prepared, screen)
            prepared.write(folder, {"run": name, **lane.place()} | order.description(order.inputs(shrinks)))
        with runs.only_one(folder):
            (folder / STATUS_FILE).unlink(missing_ok=True)
            variables = {**replay_variables(prepared, prepared.knobs.clock.speed, name, folder), "experiment_follow": False}
            lane.play("experiment", variables, order.inventory, folder / ANSIBLE_LOG_FILE)
            if not (run := RunFolder(folder)).metrics:
                return Ending("ok", f"sandbox {cluster.name} runs, its work is results/{name}; {in_words(cluster)}")
            runs.complete(folder)
            count = run.metrics["jobs"]["submitted"]
            ending = Ending("ok", f"the work of sandbox {cluster.name} has ended: {count} jobs, results/{name}/jobs.csv")
            ending.store(folder)
            return ending
