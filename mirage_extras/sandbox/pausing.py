"""`make pause` and `make resume`: a sandbox in which nothing starts and no job runs, until it is resumed."""

from __future__ import annotations

from mirage.commands.logs import new_log
from mirage.experiment import preflight
from mirage.experiment.endings import Ending
from mirage.experiment.playbook import run_playbook
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen
from mirage.text.words import counted

PLAYBOOK = "../mirage_extras/sandbox/playbooks/pause"
"""Beside the core's playbooks."""


def pause(knobs: Knobs, screen: Screen) -> Ending:
    """Stop the replay, close the partitions, and have Slurm suspend the jobs that run."""
    jobs = _bring(knobs, screen, "paused")
    words = f"{counted(jobs, 'job')} suspended, and none starts; make resume goes on"
    return Ending("ok", f"sandbox {knobs.cluster.name} is paused: {words}")


def resume(knobs: Knobs, screen: Screen) -> Ending:
    """Undo `pause`."""
    return Ending("ok", f"sandbox {knobs.cluster.name} goes on: {counted(_bring(knobs, screen, 'resumed'), 'job')} resumed")


def _bring(knobs: Knobs, screen: Screen, state: str) -> int:
    cluster, inventory = knobs.cluster, preflight.inventory(knobs.cluster)
    preflight.privileges(cluster)
    variables = {"mirage_cluster": cluster.name, "sandbox_state": state}
    watcher = run_playbook(PLAYBOOK, variables, inventory, screen, new_log(state, cluster.name))
    return int(watcher.information["slurm_pause"]["jobs"])
