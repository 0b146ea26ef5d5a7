"""Measures the cost of a launch: for how long the resource manager holds a job's processors beyond the run time of its program.

A launch takes 15 to 40 ms of real time, which are 8 to 20 s of a clock that runs 500 times as fast; each job would hold its
processors for that much longer than in the log, and those that wait for them would wait longer, one after the other. The run time
in a log is what the resource manager there recorded from start to end, its own launch included. So on a virtual clock the replay
measures what a launch costs here, and has each job's program run for that much less: then the record has the log's run time.
What remains is measured in every run (`runtime_stretch_p50`, docs/validity.md).
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Sequence

from ..clock.clock import Clock
from ..rm.api import CompletedJob, CompletionReader, ResourceManager, Submission

log = logging.getLogger("replay")

JOBS = 25
CUT = 3  # of them, at either end, that count for nothing
GAP = 0.15  # real seconds from one to the next: longer than a launch, so that each is alone
RUN = 0.05  # real seconds that their programs run, and up to a virtual second more
PATIENCE = 20.0  # real seconds: on a cluster that is full they do not start
LIMIT_MINUTES = 10


def run_times(speed: float) -> list[float]:
    """Virtual seconds that the programs run: spread evenly over a second, because the manager's record has whole ones."""
    return [RUN * speed + (number + 0.5) / JOBS for number in range(JOBS)]


def of_jobs(held: Sequence[float], runs: Sequence[float], speed: float) -> float:
    """Real seconds that a launch costs, from the virtual seconds for which processors were held for programs that ran `runs`.

    It is a mean without the largest and the smallest ones: the fractions of seconds that the record lacks cancel out.
    """
    beyond = sorted(whole - run for whole, run in zip(held, runs))
    return max(0.0, statistics.fmean(beyond[CUT:-CUT]) / speed)


def measure(
    manager: ResourceManager,
    completions: CompletionReader,
    clock: Clock,
    submission: Callable[[float], Submission],
    sleep: Callable[[float], None],
) -> float:
    """Real seconds that a launch costs on this cluster now; 0 if its jobs have not all ended within PATIENCE.

    `submission` makes the submission of a job of one processor that runs for so many virtual seconds; all have one name.
    `completions` is read from here on. Raises ResourceManagerError, and what `sleep` raises.
    """
    runs: dict[int, float] = {}
    for run in run_times(clock.speed):
        runs[manager.submit(submission(run)).job_id] = run
        sleep(GAP)
    held: dict[int, float] = {}
    deadline = time.monotonic() + PATIENCE
    while len(held) < JOBS and time.monotonic() < deadline:
        sleep(GAP)
        held.update({job.job_id: _held(job) for job in completions.read() if job.job_id in runs and job.state == "COMPLETED"})
    if len(held) < JOBS:
        manager.cancel_named(submission(0.0).name)
        log.warning("what a launch costs is not known: %d of %d short jobs ran within %.0f s", len(held), JOBS, PATIENCE)
        return 0.0
    cost = of_jobs(list(held.values()), [runs[job_id] for job_id in held], clock.speed)
    log.info("a launch costs %.1f ms of real time", cost * 1000)
    return cost


def _held(job: CompletedJob) -> float:
    """Virtual seconds from the start to the end of a job in the manager's record, which a completed job has."""
    return float((job.end or 0) - (job.start or 0))
