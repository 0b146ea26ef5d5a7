"""The real time that is left of a replay on the event clock.

The host works for jobs and for the timers of slurmctld, which pass with the cluster's time: the cost in real seconds of some jobs
and virtual seconds on a host at rest is JOB * jobs + timers(nodes) * seconds (half of a job's cost is its submission, half its
end). What is left costs as much more than that as what has passed has cost. So neither a quiet night nor a burst of jobs, both of
which change the pace of the clock, misleads the estimate. PRIOR seconds at rest count as seen before the replay begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JOB = 0.07
"""Real seconds for each job on the event clock, on 2 processors at rest (docs/accuracy.md)."""
TIMERS, TIMERS_NODES, TIMERS_POWER = 8e-5, 300.0, 1.2
"""Real seconds for each virtual second: the first at few nodes, and as much more as (nodes / TIMERS_NODES) ** TIMERS_POWER says."""
PRIOR = 1.0
FIRST_RANGE, LAST_RANGE = 2.0, 1.6
"""Factor between the estimate and both ends of its range, at the beginning and at the end of the replay."""


def timers(nodes: int) -> float:
    """Real seconds for each virtual second on a machine of so many nodes."""
    return TIMERS * (1.0 + float((nodes / TIMERS_NODES) ** TIMERS_POWER))


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
    per_second = timers(sum((progress.get("nodes") or {}).values()))
    played = min(jobs, (int(progress.get("submitted") or 0) + int(progress.get("done") or 0)) / 2)
    passed = JOB * played + per_second * elapsed
    slowness = (elapsed / max(pace, 1e-3) + PRIOR) / (passed + PRIOR)
    first, last = (slowness * (JOB * (jobs - played) + per_second * left) for left in (float(least), float(most)))
    share = passed / (passed + JOB * (jobs - played) + per_second * float(most)) if passed else 0.0
    factor = FIRST_RANGE + (LAST_RANGE - FIRST_RANGE) * share
    return first / factor, last * factor
