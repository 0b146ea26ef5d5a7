"""Time limits of jobs that shrink, which then need more time.

The limit of a job at its start, times its nodes then, is the work that it may do. It works with the nodes that it has, but never
with more than at its start. After each change of size the remaining time is enough for the remaining work. A limit is never
lowered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class AllowedWork:
    """The work that one run of a job may do, in node seconds, and what it has done of it."""

    start: int | None
    """Start time of the run, which distinguishes the runs of a requeued job."""
    limit: int
    """Time limit at the start, in seconds."""
    nodes: int
    """Number of nodes at the start."""
    size: int
    """Present number of nodes."""
    done: float = 0.0
    counted: float = 0.0
    """For how many seconds of the run the work is in `done`."""

    def resize(self, used: float, size: int) -> None:
        """The job has `size` nodes after it has run for `used` seconds."""
        self.done += min(self.size, self.nodes) * max(0.0, used - self.counted)
        self.counted, self.size = max(used, self.counted), size

    def new_limit(self, used: float, size: int, limit: int) -> int | None:
        """The time limit in whole minutes for `size` nodes from now on; None if the present one (seconds) is long enough."""
        done = self.done + min(self.size, self.nodes) * max(0.0, used - self.counted)
        needed = used + max(0.0, self.limit * self.nodes - done) / min(size, self.nodes)
        return math.ceil(needed / 60) if needed > limit else None
