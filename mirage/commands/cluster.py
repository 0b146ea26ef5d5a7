"""`make cluster`: builds and starts the emulated cluster."""

from __future__ import annotations

import time

from mirage import ROOT
from mirage.commands.logs import LOGS, new_log
from mirage.experiment import clock_choice, fillers, malleability, managers, preflight, site
from mirage.experiment.cluster_variables import cluster_variables
from mirage.experiment.endings import Ending
from mirage.experiment.playbook import run_playbook
from mirage.experiment.prepare import machine_of
from mirage.knobs.parse import Value
from mirage.terminal.screen import Screen, about


def cluster(values: dict[str, Value], screen: Screen) -> Ending:
    """Check everything, then run the playbook."""
    inventory = preflight.inventory(values)
    managers.check(values)
    preflight.config(values)
    malleability.check(values)
    fillers.check(values)
    values = values | {"SPEED": clock_choice.of_a_cluster(values, screen)}
    full = LOGS / f"{values['CLUSTER']}-{site.LEFT_OUT}"
    site.write(values, full)
    for line in site.in_short(values, str(full.relative_to(ROOT))):
        screen.say(line)
    preflight.privileges(values)
    preflight.nothing_disturbed(values, None)
    preflight.has_room(values)
    began = time.monotonic()
    watcher = run_playbook("cluster", cluster_variables(values), inventory, screen, new_log("cluster", values))
    took = about(time.monotonic() - began)
    machine = machine_of(values).in_words()
    return Ending("ok", f"cluster {values['CLUSTER']} runs: {machine}, changed={watcher.changed}, {took}")
