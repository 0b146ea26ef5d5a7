"""`make provision`: creates servers for a cluster in an OpenStack cloud."""

from __future__ import annotations

from mirage.commands.logs import new_log
from mirage.experiment import preflight
from mirage.experiment.endings import Ending
from mirage.experiment.playbook import run_playbook
from mirage.knobs.parse import Value
from mirage.terminal.screen import Screen


def provision(values: dict[str, Value], screen: Screen) -> Ending:
    """Create the servers that the inventory describes. The inventory lists them afterwards."""
    inventory = preflight.inventory(values)
    variables = {"mirage_cluster": values["CLUSTER"]}
    watcher = run_playbook("provision", variables, inventory, screen, new_log("provision", values))
    return Ending("ok", f"the servers of cluster {values['CLUSTER']} are there, changed={watcher.changed}; make cluster goes on")
