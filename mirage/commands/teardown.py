"""`make teardown`: stops and removes the instance; results stay."""

from __future__ import annotations

from mirage.commands.logs import new_log
from mirage.experiment import preflight
from mirage.experiment.endings import Ending
from mirage.experiment.playbook import run_playbook
from mirage.knobs.parse import Value
from mirage.terminal.screen import Screen


def teardown(values: dict[str, Value], screen: Screen) -> Ending:
    """Run the playbook, which stops and removes only what the instance CLUSTER has started."""
    inventory = preflight.inventory(values)
    preflight.privileges(values)
    variables = {"mirage_cluster": values["CLUSTER"]}
    watcher = run_playbook("teardown", variables, inventory, screen, new_log("teardown", values))
    if not watcher.changed:
        return Ending("ok", f"no host has a cluster {values['CLUSTER']}, changed=0; results stay")
    return Ending("ok", f"cluster {values['CLUSTER']} is gone, changed={watcher.changed}; results stay")
