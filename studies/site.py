"""`make study STUDY=site SITE=archive`: a site's week beside its record, and what the archive lacks, ranked (studies/site.md).

The week is a comparison (results/STUDY-week) whose arms are the models below. results/STUDY holds study.csv and study.html.
"""

from __future__ import annotations

from mirage.campaign.campaign import Campaign
from mirage.experiment import clock_choice, runs
from mirage.experiment.endings import Ending
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from studies.beside_record import played_of, write
from studies.own_knobs import chosen, name_of, refuse
from studies.unknowns import NOTHING, USERS, Model

NAME = "study-site"
KNOBS = {"REPLICAS": "1"}
OWN = ("MODEL", "CONFIGS", "ESTIMATES", "ACCOUNTING")
"""Knobs that the study chooses."""
PRESET = "all"
"""What an archive sets; models have others."""
ABOUT = "The real slurmctld with a site's own slurm.conf, users and QOS plays the week of an archive of mirage-capture."
BEGIN, AGES, USAGE = "what ran and waited at the beginning", "ages of the jobs that waited", "usage of fair share at the beginning"
MODELS: dict[str, Model] = {
    "replay": Model(NOTHING, "the archive as it is"),
    "running": Model(BEGIN, "nothing waits at the beginning (PRESET=running)", knobs={"PRESET": "running"}),
    "empty": Model(BEGIN, "nothing runs and waits at the beginning (PRESET=none)", knobs={"PRESET": "none"}),
    "no-age": Model(AGES, "age does not count (PriorityWeightAge=0)", knobs={"SETTINGS": "PriorityWeightAge=0"}),
    "no-usage": Model(
        USAGE, "fair share does not count (PriorityWeightFairshare=0)", knobs={"SETTINGS": "PriorityWeightFairshare=0"}
    ),
    "nobody": Model(USERS, "no users, QOS, limits and shares (ACCOUNTING=no)", knobs={"ACCOUNTING": "no"}),
}
"""The models by the names of their arms. The archive does not say what the first three unknowns were; each is left out, to show how
far it could move the waits."""


def study_site(given: Knobs, screen: Screen) -> Ending:
    """Play the week under each model, or go on where an earlier command stopped, and make the page."""
    refuse(given, NAME, OWN)
    if not given.workload.site:
        raise WrongUse(f"{NAME} needs the archive of a site's week (docs/site.md)", parameter="site")
    if given.text("PRESET") != PRESET:
        raise WrongUse(f"{NAME} has its own values; leave it out", parameter="preset")
    name = name_of(given, NAME)
    knobs = chosen(given, {**KNOBS, "RUN": f"{name}-week"})
    campaign = Campaign.of(knobs, clock_choice.chosen(knobs, screen), {label: model.knobs for label, model in MODELS.items()})
    ending = campaign.run(screen)
    if not ending.is_final:
        return ending
    machine = knobs.nodes.machine
    largest = max(of_class.cpus for of_class in machine.classes)
    played = played_of(campaign, machine.processors, largest, "week", "the archive's window")
    write(runs.RESULTS / name, ABOUT, [played], MODELS)
    screen.say(f"study: results/{name}/study.html")
    return ending if ending.word != "ok" else Ending("ok", f"mean waits {played.in_words()} (results/{name}/study.html)")
