"""susu: workload of a cluster of South Ural State University over ten months, from few published figures.

See docs/models.md.
"""

from __future__ import annotations

import numpy as np

from mirage.workloads.models.draft import Draft, Model, rounded_requests, uniform_submissions
from mirage.workloads.models.lognormal import Ceiled

JOBS, NODES, CORES_A_NODE, DAYS = 32_567, 166, 8, 304

# The source gives the range of 1 to 100 nodes. The distribution and its mean of 2.5 nodes are our choice: with this mean, jobs wait
# 26,000 s on average under first come first served (9,000 to 52,000 s with 24 seeds); the source measured 28,597 s. One job
# in 3,000 has 100 nodes.
SIZES = Ceiled(mu=-0.44656874, sigma=1.48157158, above=0, most=100)
# The source gives the mean of 12 h and the minimum of 20 s. The deviation of 24 h and the maximum of 14 days are our choice.
SECONDS = Ceiled(mu=9.76260439, sigma=1.36041442, above=20, most=14 * 86400)


def offered_load() -> float:
    """Offered load of the jobs on their cluster in the ten months."""
    return JOBS * SIZES.moments()[0] * SECONDS.moments()[0] / (NODES * DAYS * 86400)


def draw(rng: np.random.Generator, jobs: int, processors: int) -> Draft:
    """Jobs have whole nodes of 8 cores (a smaller machine: all it has), submissions are uniform in time, at the source's load."""
    nodes = max(1, processors // CORES_A_NODE)
    cores = min(CORES_A_NODE, processors)
    sizes = cores * SIZES.draw(rng, jobs, at_most=nodes)
    runs = SECONDS.draw(rng, jobs)
    span = jobs * cores * SIZES.moments(at_most=nodes)[0] * SECONDS.moments()[0] / (processors * offered_load())
    return Draft(uniform_submissions(rng, jobs, span), sizes, runs, rounded_requests(rng, runs))


MODEL = Model(
    draw,
    computer="cluster of South Ural State University, 166 nodes of 8 cores, as a model",
    parameters=f"nodes {SIZES}, seconds {SECONDS}",
    unix_start=1_293_840_000,  # 2011-01-01: the log's own dates are not known
)
