"""`make deprovision`: deletes the servers that make provision created."""

from __future__ import annotations

from mirage.commands.logs import new_log
from mirage.experiment import preflight
from mirage.experiment.endings import Ending
from mirage.experiment.playbook import run_playbook
from mirage.knobs.parse import Value
from mirage.terminal.screen import Screen


def deprovision(values: dict[str, Value], screen: Screen) -> Ending:
    """Delete the servers of the cluster, and nothing else in the cloud."""
    inventory = preflight.inventory(values)
    variables = {"mirage_cluster": values["CLUSTER"]}
    watcher = run_playbook("deprovision", variables, inventory, screen, new_log("deprovision", values))
    return Ending("ok", f"the servers of cluster {values['CLUSTER']} are gone, changed={watcher.changed}; results stay")
