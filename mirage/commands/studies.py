"""`make study-...`: published comparisons, each a set of knobs for make compare (docs/studies.md).

By default a study takes an hour or two on 2 cores; FULL=yes is the published size. Knobs that are given override the study's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from mirage.commands.compare import compare
from mirage.experiment.endings import Ending
from mirage.knobs.parse import Value
from mirage.knobs.resolve import parse
from mirage.knobs.table import BY_NAME
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse


@dataclass(frozen=True)
class Study:
    """A published comparison.

    knobs: those of both sizes. smoke, full: those of the small and the published size, and how long these take on 2 cores.
    """

    title: str
    knobs: Mapping[str, str]
    smoke: Mapping[str, str]
    full: Mapping[str, str]
    smoke_takes: str
    full_takes: str


STUDIES = {
    "study-scms": Study(
        "FIFO against backfill by waiting indices, on 166 nodes of 8 CPUs and a workload like South Ural State University's",
        {"MODEL": "susu", "NODES": "166", "CPUS": "8", "CONFIGS": "fifo backfill", "SPEED": "500"},
        # A higher load than the model's, so that the empty machine fills up within 300 jobs.
        {"JOBS": "300", "LOAD": "3"},
        {"JOBS": "32567"},
        "about 40 min: one run of each, which claims nothing; REPLICAS=3 takes about 2 h",
        "about 31 h: ten months, twice, at SPEED=500",
    ),
    "study-suspend": Study(
        "suspension of jobs by urgent ones against none, on a workload like Raijin's",
        {"MODEL": "raijin", "CPUS": "16", "CONFIGS": "backfill suspend", "SPEED": "300"},
        {"JOBS": "400", "LOAD": "3", "NODES": "50"},
        {"JOBS": "100000", "NODES": "3600", "SPEED": "20", "REPLICAS": "3"},
        "about 1 h 45 min: three runs of each",
        "about 40 days: five days of the machine and their drain, six times, at SPEED=20",
    ),
}


def study_scms(values: dict[str, Value], screen: Screen) -> Ending:
    """FIFO against backfill by waiting indices."""
    return study("study-scms", values, screen)


def study_suspend(values: dict[str, Value], screen: Screen) -> Ending:
    """Suspension of jobs against none."""
    return study("study-suspend", values, screen)


def study(name: str, values: dict[str, Value], screen: Screen) -> Ending:
    """Run the comparison, or continue it where it stopped."""
    chosen = STUDIES[name]
    for given in ("TRACE", "SLURM_CONF", "CLASSES"):
        if values[given]:
            raise WrongUse(
                f"{name} has a workload and a machine of its own; make compare takes yours", parameter=BY_NAME[given].parameter
            )
    is_full = values["FULL"] == "yes"
    size, takes = (chosen.full, chosen.full_takes) if is_full else (chosen.smoke, chosen.smoke_takes)
    own = {**chosen.knobs, **size, "RUN": f"{name}-full" if is_full else name}
    knobs = values | {knob: parse(knob, text) for knob, text in own.items() if not os.environ.get(knob)}
    screen.say(f"{chosen.title}: {takes}" + ("" if is_full else "; FULL=yes is the published size"))
    return compare(knobs, screen)
