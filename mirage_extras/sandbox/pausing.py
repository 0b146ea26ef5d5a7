"""`make pause` and `make resume`: a sandbox in which nothing starts and no job runs, until it is resumed."""

from __future__ import annotations

from mirage.commands.logs import new_log
from mirage.experiment import preflight
from mirage.experiment.endings import Ending
from mirage.experiment.playbook import run_playbook
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen
from mirage_extras.sandbox.addresses import of

PLAYBOOK = "../mirage_extras/sandbox/playbooks/pause"
"""Beside the core's playbooks."""


def pause(knobs: Knobs, screen: Screen) -> Ending:
    """Stop the replay, close the partitions, and have Slurm suspend the jobs that run."""
    _bring(knobs, screen, "paused")
    return Ending("ok", f"sandbox {knobs.cluster.name} is paused: no job starts; make resume{of(knobs.cluster)} goes on")


def resume(knobs: Knobs, screen: Screen) -> Ending:
    """Undo `pause`."""
    _bring(knobs, screen, "resumed")
    return Ending("ok", f"sandbox {knobs.cluster.name} goes on")


def _bring(knobs: Knobs, screen: Screen, state: str) -> None:
    cluster, inventory = knobs.cluster, preflight.inventory(knobs.cluster)
    preflight.privileges(cluster)
    variables = {"mirage_cluster": cluster.name, "sandbox_state": state}
    run_playbook(PLAYBOOK, variables, inventory, screen, new_log(state, cluster.name))
