"""Time for tests of programs with threads: it stands while any of them works, and jumps when all of them wait."""

from __future__ import annotations

import math
import select
import threading
from collections.abc import Callable

from slurm_mirage.clock.time_source import TimeSource

_SECOND = 1_000_000_000
_LOOK = 0.01
"""Real seconds after which a thread looks again whether its wait is over, where no other thread that waits has told it."""


class VirtualTime(TimeSource):
    """Time that passes only while each thread waits for it: then it jumps to the end of the wait that ends first.

    So it does not depend on the machine how long anything takes. Threads that ran before it was made do not count. A wait raises
    AssertionError when more than `most` seconds would have passed, or when no thread waits for an instant.

    began: seconds since the epoch
    """

    def __init__(self, most: float = 3600.0, began: int = 1_800_000_000) -> None:
        self._now = self._began = began * _SECOND
        self._last = self._now + round(most * _SECOND)
        self._others = set(threading.enumerate()) - {threading.current_thread()}
        self._changed = threading.Condition()
        self._waits: dict[threading.Thread, tuple[Callable[[], bool], float]] = {}
        """What each thread waits for: a condition, or an instant (ns since the epoch)."""
        self._planned: list[tuple[Callable[[], bool], Callable[[], None]]] = []

    def when(self, condition: Callable[[], bool], action: Callable[[], None]) -> None:
        """Do something once, when all threads wait and a condition is true, before time passes."""
        self._planned.append((condition, action))

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""
        self._wait(lambda: False, seconds)

    def now(self) -> float:
        return self._now / _SECOND

    def now_ns(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._began) / _SECOND

    def real_now(self) -> float:
        return self.now()

    def wait(self, over: threading.Event, seconds: float) -> bool:
        return self._wait(over.is_set, seconds)

    def pause(self, over: threading.Event, seconds: float) -> bool:
        return self._wait(over.is_set, seconds)

    def is_readable(self, descriptor: int, seconds: float | None) -> bool:
        return self._wait(lambda: bool(select.select([descriptor], [], [], 0)[0]), math.inf if seconds is None else seconds)

    def _wait(self, is_over: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition is true, or for so many seconds; returns whether it is true."""
        thread = threading.current_thread()
        until = self._now + (seconds * _SECOND if seconds == math.inf else math.ceil(seconds * _SECOND))
        with self._changed:
            self._waits[thread] = is_over, until
            self._changed.notify_all()
            try:
                while not is_over():
                    if self._now >= until:
                        return False
                    if self._all_wait() and not self._do_planned():
                        self._jump()
                    else:
                        self._changed.wait(_LOOK)
                return True
            finally:
                del self._waits[thread]

    def _all_wait(self) -> bool:
        """Whether no thread works, or is about to."""
        working = set(threading.enumerate()) - self._others - self._waits.keys()
        return not working and not any(is_over() or self._now >= until for is_over, until in self._waits.values())

    def _do_planned(self) -> bool:
        for planned in self._planned:
            condition, action = planned
            if condition():
                self._planned.remove(planned)
                action()
                return True
        return False

    def _jump(self) -> None:
        first = min(until for _, until in self._waits.values())
        assert first <= self._last, "all threads wait, and nothing will happen in time"
        self._now = int(first)
        self._changed.notify_all()
