"""`python -m mirage TARGET`: what stands behind the targets of the Makefile.

The last line begins with `ok:`, `invalid:`, `failed:` or `wrong use:`, and the exit code is 0, 1, 1 or 2.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from mirage import ROOT
from mirage.experiment import preflight
from mirage.experiment.endings import Ending, Failed, Interrupted
from mirage.knobs import table as knobs
from mirage.knobs.table import Value
from mirage.terminal.screen import Screen, about
from slurm_mirage.base.errors import WrongUse

LOGS = ROOT / "results/.logs"
Knobs = dict[str, Value]
# Targets that an inventory need not have a host for.
MAKES_HOSTS = ("provision", "deprovision")


def _log(target: str, values: Knobs) -> Path:
    """A fresh log for the playbook of a target that is no run."""
    log = LOGS / f"{target}-{values['CLUSTER']}.log"
    log.unlink(missing_ok=True)
    return log


def cluster(values: Knobs, screen: Screen) -> Ending:
    """Build and start the cluster."""
    from mirage.commands.experiment import cluster_variables
    from mirage.experiment.playbook import run_playbook
    from mirage.experiment.prepare import machine_of
    from mirage.experiment.site import left_out

    inventory = preflight.inventory(values)
    preflight.config(values)
    for line in left_out(values):
        screen.say(line)
    preflight.privileges(values)
    preflight.nothing_disturbed(values, None)
    preflight.has_room(values)
    began = time.monotonic()
    log = _log("cluster", values)
    watcher = run_playbook("cluster", cluster_variables(values), inventory, screen, log)
    shape = machine_of(values).in_words()
    took = about(time.monotonic() - began)
    return Ending("ok", f"cluster {values['CLUSTER']} runs: {shape}, changed={watcher.changed}, {took}")


def experiment(values: Knobs, screen: Screen) -> Ending:
    """Run an experiment, or a sweep."""
    from mirage.commands.experiment import experiment as run

    return run(values, screen)


def compare(values: Knobs, screen: Screen) -> Ending:
    """Run the same workload under several configurations, and compare them."""
    from mirage.commands.compare import compare as run

    return run(values, screen)


def study_scms(values: Knobs, screen: Screen) -> Ending:
    """FIFO against backfill by waiting indices."""
    from mirage.commands.studies import study

    return study("study-scms", values, screen)


def study_suspend(values: Knobs, screen: Screen) -> Ending:
    """Suspension against none."""
    from mirage.commands.studies import study

    return study("study-suspend", values, screen)


def report(values: Knobs, screen: Screen) -> Ending:
    """The page about a run, a sweep or a comparison once more."""
    from mirage.experiment.report import report as make

    return make(values, screen)


def check(values: Knobs, screen: Screen) -> Ending:
    """What a run, a sweep or a comparison has computed once more, and whether it is the same."""
    from mirage.commands.check import check as again

    return again(values, screen)


def teardown(values: Knobs, screen: Screen) -> Ending:
    """Stop and remove the instance."""
    from mirage.experiment.playbook import run_playbook

    inventory = preflight.inventory(values)
    preflight.privileges(values)
    variables = {"mirage_cluster": values["CLUSTER"]}
    watcher = run_playbook("teardown", variables, inventory, screen, _log("teardown", values))
    return Ending("ok", f"cluster {values['CLUSTER']} is gone, changed={watcher.changed}; results stay")


def provision(values: Knobs, screen: Screen) -> Ending:
    """Make servers in a cloud; what the inventory says, which lists them afterwards."""
    from mirage.experiment.playbook import run_playbook

    inventory = preflight.inventory(values)
    variables = {"mirage_cluster": values["CLUSTER"]}
    watcher = run_playbook("provision", variables, inventory, screen, _log("provision", values))
    return Ending("ok", f"the servers of cluster {values['CLUSTER']} are there, changed={watcher.changed}; make cluster goes on")


def deprovision(values: Knobs, screen: Screen) -> Ending:
    """Delete the servers that provision made."""
    from mirage.experiment.playbook import run_playbook

    inventory = preflight.inventory(values)
    variables = {"mirage_cluster": values["CLUSTER"]}
    watcher = run_playbook("deprovision", variables, inventory, screen, _log("deprovision", values))
    return Ending("ok", f"the servers of cluster {values['CLUSTER']} are gone, changed={watcher.changed}; results stay")


def status(values: Knobs, screen: Screen) -> Ending:
    """One screen about the instance."""
    from mirage.experiment.playbook import run_playbook
    from mirage.terminal.status import host_lines, lines, read_progress

    inventory = preflight.inventory(values)
    preflight.privileges(values)
    variables = {"mirage_cluster": values["CLUSTER"]}
    watcher = run_playbook("status", variables, inventory, screen, _log("status", values), shows_tasks=False)
    run = preflight.running(values)
    progress = read_progress(preflight.instance_directory(values), run)
    told = watcher.information["slurm_farm_info"]
    for line in lines(told, progress):
        screen.say(line)
    others = {host: result for host, result in watcher.of_hosts["slurm_farm_info"].items() if result is not told}
    for line in host_lines(others):
        screen.say(line)
    run = run or (told.get("progress") or {}).get("run")
    does = f"{told['farm']['phase']}" + (f", run {run} goes on" if run else "")
    return Ending("ok", f"cluster {values['CLUSTER']}: {does}")


def watch(values: Knobs, screen: Screen) -> Ending:
    """A live screen about the instance."""
    from mirage.commands.watch import watch as show

    return show(values, screen)


def shell(values: Knobs, screen: Screen) -> Ending:
    """Become a shell of the instance; there is an ending only when that fails."""
    from mirage.commands.shell import enter

    preflight.privileges(values)
    if not preflight.is_here(values) and not preflight.instance_directory(values).exists():
        raise WrongUse("INVENTORY: make shell enters a cluster on this machine; call it on the head, in a clone that is there")
    enter(preflight.instance_directory(values), str(values["CLUSTER"]))
    raise AssertionError("exec returned")


def workload(values: Knobs, screen: Screen) -> Ending:
    """Generate or convert a workload."""
    from mirage.commands.workload import workload as make

    return make(values, screen)


def metrics(values: Knobs, screen: Screen) -> Ending:
    """Metrics of a recorded schedule."""
    from mirage.commands.metrics import metrics as measure

    return measure(values, screen)


def workload_report(values: Knobs, screen: Screen) -> Ending:
    """A page about a workload."""
    from mirage.commands.workload_report import workload_report as report

    return report(values, screen)


def simulate(values: Knobs, screen: Screen) -> Ending:
    """A simple scheduler's schedule of a workload, and its metrics."""
    from mirage.commands.simulate import simulate as run

    return run(values, screen)


def figure_load(values: Knobs, screen: Screen) -> Ending:
    """Average load against the accuracy of estimates."""
    from mirage.commands.figure_load import figure_load as draw

    return draw(values, screen)


TARGETS: dict[str, Callable[[Knobs, Screen], Ending]] = {
    "cluster": cluster,
    "experiment": experiment,
    "compare": compare,
    "study-scms": study_scms,
    "study-suspend": study_suspend,
    "report": report,
    "check": check,
    "metrics": metrics,
    "workload": workload,
    "workload-report": workload_report,
    "simulate": simulate,
    "figure-load": figure_load,
    "status": status,
    "watch": watch,
    "shell": shell,
    "teardown": teardown,
    "provision": provision,
    "deprovision": deprovision,
}


def run(arguments: Sequence[str], screen: Screen) -> Ending:
    """The ending of a command; nothing is written before all that can be checked is checked."""
    try:
        if len(arguments) != 1 or arguments[0] not in TARGETS:
            raise WrongUse(f"target: {' '.join(arguments) or 'none'}; it may be one of: {', '.join(TARGETS)}")
        target = arguments[0]
        values = knobs.resolve(os.environ)
        needs_hosts = target in knobs.BY_NAME["INVENTORY"].targets and target not in MAKES_HOSTS
        if values["INVENTORY"] != knobs.BY_NAME["INVENTORY"].default and needs_hosts:
            from mirage.experiment.hosts import knobs_of

            values |= knobs_of(values, os.environ)
        for name in knobs.unused(target, os.environ):
            screen.say(f"note: make {target} does not look at {name}")
        return TARGETS[target](values, screen)
    except WrongUse as error:
        return Ending("wrong use", str(error))
    except Failed as error:
        return Ending("failed", str(error))
    except (Interrupted, KeyboardInterrupt):
        return Ending("failed", "interrupted; the same command goes on")
    except Exception as error:
        # A mistake of this program: its trace is kept for a report, the user gets a line.
        LOGS.mkdir(parents=True, exist_ok=True)
        path = LOGS / "error.log"
        path.write_text(traceback.format_exc())
        words = textwrap.shorten(f"{type(error).__name__}: {error}", 200, placeholder=" ...")
        return Ending("failed", f"{words} (our mistake; details: {path})")


def main(arguments: Sequence[str]) -> int:
    """Run a target, print its last line, return the exit code."""
    screen = Screen()
    ending = run(arguments, screen)
    screen.say(ending.line)
    return ending.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
