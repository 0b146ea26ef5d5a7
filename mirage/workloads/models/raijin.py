"""raijin: the workload of the thesis (NCI Raijin, 2016), calibrated to the figures of its section 4.1.

See docs/models.md.
"""

from __future__ import annotations

import numpy as np

from mirage.workloads.models.draft import Draft, Floats, Model, Wholes, pick, rounded_requests, uniform_submissions
from mirage.workloads.models.thesis import OTHERS, SIZES

JOBS, CORES, NODES, DAYS = 4_417_018, 57_472, 3_592, 214

# The thesis counts 193 sizes and names 7. The other 186 are our choice: the remaining sizes below 16 cores, then multiples of 16
# cores (whole nodes) at growing distances.
OTHER_SIZES = np.array(
    [size for size in [*range(3, 16), *range(32, 1025, 16), *range(1088, 4097, 64), *range(4352, 20993, 256)] if size not in SIZES]
)
# The share of jobs falls with a power of the size, which is a line in a picture with logarithmic axes, as in Figure 4.1 of the
# thesis. With this exponent the mean of these sizes is 221 cores, and jobs of one core have 1.6 % of the service units, as there.
DECLINE = 0.86678

# The distribution of run times, the same for all sizes: bounds in seconds, and the share of jobs that run no longer. Between two
# bounds the logarithm of the run time is uniform. This is our assumption: half of the jobs run for at most 5 minutes, the longest
# for the two days that are allowed. With the mean of 1.74 h the jobs offer the machine 80 % of its capacity in the 214 days.
RUN_BOUNDS = np.array([1, 10, 30, 60, 150, 300, 900, 1800, 3600, 10800, 86400, 172800], dtype=np.float64)
RUN_SHARES = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.983, 1.0])


def sizes_and_shares(processors: int) -> tuple[Wholes, Floats]:
    """The job sizes that fit the machine, and the share of the jobs that has each size. The shares are scaled to a sum of 1."""
    others = OTHER_SIZES.astype(np.float64) ** -DECLINE
    values = np.concatenate([np.array(list(SIZES)), OTHER_SIZES])
    shares = np.concatenate([np.array(list(SIZES.values()), dtype=np.float64), OTHERS * others / others.sum()])
    fitting = values <= processors
    return values[fitting], shares[fitting] / shares[fitting].sum()


def mean_run() -> float:
    """Mean run time in seconds."""
    return float((np.diff(RUN_SHARES) * np.diff(RUN_BOUNDS) / np.diff(np.log(RUN_BOUNDS))).sum())


def offered_load() -> float:
    """Offered load of the thesis's jobs on its machine in its 214 days, with these run times."""
    values, shares = sizes_and_shares(CORES)
    return JOBS * float(values @ shares) * mean_run() / (CORES * DAYS * 86400)


def draw(rng: np.random.Generator, jobs: int, processors: int) -> Draft:
    """Submissions are uniform, at the rate that gives any machine the offered load that Raijin has from the thesis's jobs."""
    values, shares = sizes_and_shares(processors)
    sizes = values[pick(rng, shares, jobs)]
    runs = np.exp(np.interp(rng.random(jobs), RUN_SHARES, np.log(RUN_BOUNDS))).round().astype(np.int64)
    span = jobs * float(values @ shares) * mean_run() / (processors * offered_load())
    return Draft(uniform_submissions(rng, jobs, span), sizes, runs, rounded_requests(rng, runs))


MODEL = Model(
    draw,
    computer="Raijin, NCI Australia (Fujitsu Primergy), as a model",
    parameters="sizes of the thesis's Table 4.1, others falling with size^-0.86678; run times and requested times are assumptions",
    unix_start=1_459_468_800,  # 2016-04-01
)
