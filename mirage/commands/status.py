"""`make status`: one screen about the instance."""

from __future__ import annotations

from mirage.commands.logs import new_log
from mirage.experiment import preflight
from mirage.experiment.endings import Ending
from mirage.experiment.playbook import run_playbook
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen
from mirage.terminal.status import host_lines, lines
from slurm_mirage.instance.instance import read_progress


def status(knobs: Knobs, screen: Screen) -> Ending:
    """Ask the farms of all hosts, and show what they answer: nodes and jobs by state, the progress of a run."""
    cluster, inventory = knobs.cluster, preflight.inventory(knobs.cluster)
    preflight.privileges(cluster)
    variables = {"mirage_cluster": cluster.name}
    watcher = run_playbook("status", variables, inventory, screen, new_log("status", cluster.name), shows_tasks=False)
    run = preflight.running(cluster)
    progress = read_progress(preflight.instance_directory(cluster), run)
    head = watcher.information["slurm_farm_info"]
    for line in lines(head, progress):
        screen.say(line)
    others = {host: result for host, result in watcher.of_hosts["slurm_farm_info"].items() if result is not head}
    for line in host_lines(others):
        screen.say(line)
    work = watcher.information["slurm_instance_lock_info"]
    run = work["order"] or run or (head.get("progress") or {}).get("run")
    phase = f"{head['farm']['phase']}" + (f", run {run} goes on {work['by_whom']}".rstrip() if run else "")
    return Ending("ok", f"cluster {cluster.name}: {phase}")
