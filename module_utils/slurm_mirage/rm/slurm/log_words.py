"""Words of the lines in slurmctld's logs: time stamps, which are those of the cluster's clock in UTC, and jobs."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache

# 22.05: `TRACE_JOBS: cleanup_completing: JobId=2`; 17.11: `cleanup_completing:  JobID=2 State=0x3 NodeCnt=1`. The number of a task
# of an array, or of a part of a heterogeneous job, is in parentheses.
JOB = rb"JobI[dD]=(?:(\d+)_(\d+)\(|\d+[_+][^ (]*\()?(\d+)"
"""Expression for a job, with the groups array, task and own id."""
STAMP = rb"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})\]"
"""Expression for a time stamp, with its text as a group."""


@lru_cache(maxsize=16)
def seconds_of(stamp: bytes) -> float | None:
    """Seconds since the epoch of a time stamp; None if there is no such time."""
    try:
        return datetime.fromisoformat(stamp.decode()).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
