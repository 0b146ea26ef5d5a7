"""The time in which the threads of a replay live, and their waits: the process's own; tests have one that they move."""

from __future__ import annotations

import select
import threading
import time

from . import real_time


class TimeSource:
    """The time of this process. On an event clock it is the cluster's, and only `real_now` and `pause` are of real time."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Seconds since an instant in the past, for durations."""
        return time.monotonic()

    def real_now(self) -> float:
        """Real time, in seconds since the epoch."""
        return real_time.now()

    def wait(self, over: threading.Event, seconds: float) -> bool:
        """Wait for so many seconds, or until `over` is set; returns whether it is."""
        return over.wait(seconds)

    def pause(self, over: threading.Event, seconds: float) -> bool:
        """As `wait`, in real seconds."""
        return real_time.pause(over, seconds)

    def is_readable(self, descriptor: int, seconds: float | None) -> bool:
        """Wait until a file has data, for so many seconds at most, None: without a limit; returns whether it has."""
        return bool(select.select([descriptor], [], [], seconds)[0])
