"""`make deprovision`: deletes the servers that make provision created."""

from __future__ import annotations

from mirage.commands.logs import new_log
from mirage.experiment import preflight
from mirage.experiment.endings import Ending
from mirage.experiment.playbook import run_playbook
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen


def deprovision(knobs: Knobs, screen: Screen) -> Ending:
    """Delete the servers of the cluster, and nothing else in the cloud."""
    inventory, cluster = preflight.inventory(knobs.cluster), knobs.cluster.name
    variables = {"mirage_cluster": cluster}
    watcher = run_playbook("deprovision", variables, inventory, screen, new_log("deprovision", cluster))
    return Ending("ok", f"the servers of cluster {cluster} are gone, changed={watcher.changed}; results stay")
