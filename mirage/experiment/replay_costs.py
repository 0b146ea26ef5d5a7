"""What a replay on the event clock costs in real time, by the size of the machine and the scheduler.

The constants were fitted by hand to runs on 2 processors, Slurm 22.05.8, 3 to 9,496 jobs on 12 to 3,600 nodes (November 2026):
those of TESTED to `scheduler_seconds` of validity.event_clock, less 8 ms for each job and 26 us for each virtual second, over the
tests of the run's own queue; the others to what is left of `real_seconds`. A test took 53 us on 20 nodes of 4 processors, 0.16 ms
on 100 of 1, 0.19 on 100 of 4, 0.47 on 100 of 64, 1.0 on 360 of 16, 2.4 to 3.5 on 3,600 of 16.
`python -m benchmarks.estimates` prints the runs of this host, measured over predicted, which is what to multiply them by.
"""

from __future__ import annotations

from slurm_mirage.replay.real_left import Costs

JOB, JOB_NODES = 0.045, 1900.0
"""Real seconds for each job: the first at few nodes, twice that at so many."""
TIMERS = 2.5e-5
"""Real seconds for each virtual second."""
TESTED, NODES_POWER, TESTED_CPUS = 2.1e-6, 0.75, 32.0
"""Real seconds for each test of a backfill cycle: the first times nodes to this power at few processors of a node, twice that at so
many."""
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
    test = TESTED * nodes**NODES_POWER * (1.0 + processors / nodes / TESTED_CPUS) * (1.0 if backfills else BUILTIN)
    return Costs(of_a_job(nodes), TIMERS, 0.0 if interval is None else test / interval, depth)
