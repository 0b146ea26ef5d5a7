"""`make cluster`: builds and starts the emulated cluster."""

from __future__ import annotations

import time

from mirage import ROOT
from mirage.commands.logs import LOGS, new_log
from mirage.experiment import aspects, clock_choice, managers, preflight, site
from mirage.experiment.cluster_variables import cluster_variables
from mirage.experiment.endings import Ending
from mirage.experiment.playbook import run_playbook
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen
from mirage.text.words import about


def cluster(knobs: Knobs, screen: Screen) -> Ending:
    """Check everything, then run the playbook."""
    inventory = preflight.inventory(knobs.cluster)
    managers.check(knobs)
    preflight.config(knobs.scheduler)
    aspects.check(knobs)
    knobs, name = knobs.at_speed(clock_choice.of_a_cluster(knobs, screen)), knobs.cluster.name
    full = LOGS / f"{name}-{site.LEFT_OUT}"
    site.write(knobs.scheduler, full)
    for line in site.in_short(knobs.scheduler, str(full.relative_to(ROOT))):
        screen.say(line)
    preflight.privileges(knobs.cluster)
    preflight.nothing_disturbed(knobs, None)
    preflight.has_room(knobs)
    began = time.monotonic()
    watcher = run_playbook("cluster", cluster_variables(knobs), inventory, screen, new_log("cluster", name))
    took = about(time.monotonic() - began)
    machine = knobs.nodes.machine.in_words()
    return Ending("ok", f"cluster {name} runs: {machine}, changed={watcher.changed}, {took}")
