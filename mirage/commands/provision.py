"""`make provision`: creates servers for a cluster in an OpenStack cloud."""

from __future__ import annotations

from mirage.commands.logs import new_log
from mirage.experiment import preflight
from mirage.experiment.endings import Ending
from mirage.experiment.playbook import run_playbook
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen


def provision(knobs: Knobs, screen: Screen) -> Ending:
    """Create the servers that the inventory describes. The inventory lists them afterwards."""
    inventory, cluster = preflight.inventory(knobs.cluster), knobs.cluster.name
    variables = {"mirage_cluster": cluster}
    watcher = run_playbook("provision", variables, inventory, screen, new_log("provision", cluster))
    return Ending("ok", f"the servers of cluster {cluster} are there, changed={watcher.changed}; make cluster goes on")
