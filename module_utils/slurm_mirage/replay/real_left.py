"""The real time that is left of a replay on the event clock.

The host works for jobs and for the timers of slurmctld, which pass with the cluster's time: the cost in real seconds of some jobs
and virtual seconds on a host at rest is of_a_job(nodes) * jobs + TIMERS * seconds (half of a job's cost is its submission, half its
end). What is left costs as much more than that as what has passed has cost. So neither a quiet night nor a burst of jobs, both of
which change the pace of the clock, misleads the estimate. PRIOR seconds at rest count as seen before the replay begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JOB, JOB_NODES = 0.055, 1900.0
"""Real seconds for each job on the event clock, on 2 processors at rest (docs/accuracy.md): the first at few nodes,
twice that at so many."""
TIMERS = 9e-5
"""Real seconds for each virtual second."""
TIMERS_WITH_COMPANION = 1e-2
"""The same of a run with a companion, whose jobs are launched all the time (100 nodes full of short ones)."""
PRIOR = 1.0
FIRST_RANGE, LAST_RANGE = 2.0, 1.6
"""Factor between the estimate and both ends of its range, at the beginning and at the end of the replay."""


def of_a_job(nodes: int) -> float:
    """Real seconds for each job on a machine of so many nodes."""
    return JOB * (1.0 + nodes / JOB_NODES)


def real_left(progress: Mapping[str, Any]) -> tuple[float, float] | None:
    """Least and most real seconds until the end of the replay with this progress.json; None if it is not known.

    On a clock with a constant speed, which has no `pace`, they are those of the progress.
    """
    least, most = progress.get("time_left_least"), progress.get("time_left_most")
    if least is None or most is None:
        return None
    if not (pace := progress.get("pace")):
        return float(least), float(most)
    elapsed, jobs = float(progress.get("elapsed") or 0.0), int(progress.get("jobs") or 0)
    per_job = of_a_job(sum((progress.get("nodes") or {}).values()))
    played = min(jobs, (int(progress.get("submitted") or 0) + int(progress.get("done") or 0)) / 2)
    timers = TIMERS_WITH_COMPANION if progress.get("has_companion") else TIMERS
    passed = per_job * played + timers * elapsed
    slowness = (elapsed / max(pace, 1e-3) + PRIOR) / (passed + PRIOR)
    first, last = (slowness * (per_job * (jobs - played) + timers * left) for left in (float(least), float(most)))
    share = passed / (passed + per_job * (jobs - played) + timers * float(most)) if passed else 0.0
    factor = FIRST_RANGE + (LAST_RANGE - FIRST_RANGE) * share
    return first / factor, last * factor
