"""What a replay on the event clock costs in real time, by the size of the machine and the scheduler.

The constants were fitted by hand to runs on 2 processors, Slurm 22.05.8, 150 to 9,496 jobs on 8 to 5,544 nodes (November 2026):
TESTED and TRIED to `scheduler_seconds` of validity.event_clock, less OF_SCHEDULER of the seconds for jobs and timers, over the
tests of the run's own queue; the others to what is left of `real_seconds`. Measured over predicted: 0.66 to 1.7 in 13 of 14 runs. A
test took 16 ms beside 13 waiting jobs on 3,600 nodes of 16 processors, 0.12 s beside 59 on 5,544.
`python -m benchmarks.estimates` prints the runs of this host, measured over predicted, which is what to multiply them by.
"""

from __future__ import annotations

from slurm_mirage.replay.real_left import Costs

JOB, JOB_NODES = 0.045, 1900.0
"""Real seconds for each job: the first at few nodes, twice that at so many."""
TIMERS = 2.5e-5
"""Real seconds for each virtual second."""
TESTED = 2.5e-5
"""Real seconds for each test of a backfill cycle, where one job waits."""
TRIED, TRIED_CPUS = 1.4e-7, 32.0
"""Real seconds for each node, by which a test takes longer for every two waiting jobs: the first at few processors of a node, twice
that at so many. Half of the waiting jobs come before a job in the plan, at whose times it is tried."""
LOOKS = 3.0
"""Cycles after a change of the queue that look at it: later ones are left out."""
BUILTIN = 0.2
"""The same of sched/builtin, which only computes when waiting jobs may start, as a part of that."""
OF_SCHEDULER = 0.25
"""Part of the seconds for jobs and timers that is slurmctld's processor time; the seconds for tests are all of it."""


def of_a_job(nodes: int) -> float:
    """Real seconds for each job on a machine of so many nodes."""
    return JOB * (1.0 + nodes / JOB_NODES)


def costs(nodes: int, processors: int, interval: float | None, depth: int, *, backfills: bool) -> Costs:
    """The costs of a replay. interval: seconds from one cycle to the next; None for a scheduler without cycles. depth: waiting jobs
    that a cycle looks at, at most."""
    if interval is None:
        return Costs(of_a_job(nodes), TIMERS, 0.0, depth)
    tried = TRIED * nodes * (1.0 + processors / nodes / TRIED_CPUS)
    test = TESTED * (1.0 if backfills else BUILTIN)
    return Costs(of_a_job(nodes), TIMERS, test / interval, depth, doubled=2.0 * TESTED / tried, until=LOOKS * interval)
