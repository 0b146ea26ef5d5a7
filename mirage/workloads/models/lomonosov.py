"""lomonosov: the jobs of Polyakov and Dubenskaya's simulation (GRID 2018), from data of Lomonosov-1 of 2017.

See docs/models.md.
"""

from __future__ import annotations

import numpy as np

from mirage.workloads.models.draft import Draft, Model, uniform_submissions
from mirage.workloads.models.lognormal import Ceiled

MINUTE = 60
SLOTS = 512

# The paper gives mean, standard deviation and maximum of both. The family is our choice; mu and sigma are the
# solution for the first two, to 8 digits, with the maximum as ceiling.
SIZES = Ceiled(mu=0.93352519, sigma=1.4239422, above=0, most=SLOTS)  # mean 7.5, deviation 16.7
MINUTES = Ceiled(mu=3.15261586, sigma=2.24540582, above=0, most=15 * 24 * 60)  # mean 255, deviation 1204

# Our choice: the usual load of a supercomputer, as the paper puts it.
LOAD = 0.9


def draw(rng: np.random.Generator, jobs: int, processors: int) -> Draft:
    """Everything in whole minutes, the paper's time slot. Users' estimates are exact: its accuracy p is ESTIMATES=p."""
    sizes = SIZES.draw(rng, jobs, at_most=processors)
    runs = MINUTE * MINUTES.draw(rng, jobs)
    span = jobs * SIZES.moments(at_most=processors)[0] * MINUTES.moments()[0] * MINUTE / (processors * LOAD)
    return Draft(uniform_submissions(rng, jobs, span), sizes, runs, requested=runs)


MODEL = Model(
    draw,
    computer="Lomonosov-1, Moscow State University, as a model of CPU slots",
    parameters=f"slots {SIZES}, minutes {MINUTES}, offered load {LOAD}",
    unix_start=1_483_228_800,  # 2017-01-01
    step=MINUTE,
)
