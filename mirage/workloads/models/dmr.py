"""dmr: conjugate gradient, Jacobi and N-body in equal parts, as in the study of the DMR API. See docs/models.md.

"DMR API: Improving the cluster productivity by turning applications into malleable" (docs/references.md).

Known: the sizes of table 1 (32, 32 and 16 processes on as many nodes at submission), applications in random order, and arrivals
by Feitelson's model with "a Poisson distribution of factor 10". This is read as a Poisson process: independent exponential gaps of
mean 10 s. (Gaps of a Poisson-distributed number of seconds have the same mean and a smaller deviation; the queue, which grows to
hours, does not depend on it.)

Assumed: equal parts of the applications, and their run times. All jobs of an application are equal, since table 1 fixes their
iterations. Conjugate gradient and Jacobi are taken as equal, because table 4 has means of all jobs only. Run times and parallel
fractions are those for which a simulation of first come, first served with backfilling, and of the policy with preferred sizes,
gives the waits, execution times and utilisation of table 4 with the least squares of the relative errors (4 sizes of workload, 3
seeds): at most 13 % off. A test repeats the simulation.
"""

from __future__ import annotations

import numpy as np

from mirage.workloads.models.draft import Draft, Model

CONJUGATE_GRADIENT, JACOBI, N_BODY = 1, 2, 3
"""Numbers of the applications (field 14 of SWF)."""
NAMES = {CONJUGATE_GRADIENT: "CG", JACOBI: "Jacobi", N_BODY: "N-body"}
SIZES = {CONJUGATE_GRADIENT: 32, JACOBI: 32, N_BODY: 16}
"""Processors at submission: the maximum of table 1."""
RUN_TIMES = {CONJUGATE_GRADIENT: 245, JACOBI: 245, N_BODY: 1250}
"""Run times in seconds with these numbers of processors."""
MEAN_GAP = 10.0


def draw(rng: np.random.Generator, jobs: int, processors: int) -> Draft:
    """Equal parts of the applications in random order. Below 32 processors the jobs are smaller, with the same run times."""
    executables = rng.permutation(1 + np.arange(jobs) % len(SIZES))
    sizes, runs = (np.array([0, *of.values()], np.int64)[executables] for of in (SIZES, RUN_TIMES))
    submit = np.cumsum(rng.standard_exponential(jobs) * MEAN_GAP)
    return Draft(submit, np.minimum(sizes, processors), runs, executables=executables)


MODEL = Model(
    draw,
    computer="64 nodes of MareNostrum III, as a model",
    parameters="; ".join(f"{NAMES[one]} {SIZES[one]} processors, {RUN_TIMES[one]} s" for one in NAMES)
    + f"; equal parts in random order; Poisson arrivals, mean {MEAN_GAP:g} s",
    unix_start=1_483_228_800,  # 2017-01-01
)
