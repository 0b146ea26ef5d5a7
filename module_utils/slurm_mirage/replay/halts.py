"""Notices that the resource manager, or the replay itself, did nothing for some time, whatever held it up.

A controller that is stopped, swapped out, or waits for a slow disk accepts no job and starts none, but its clock goes on. It is
known by its answers: while a request waits, nothing else is answered either. So the controller was halted from the first request
without an answer until the next answer, but not before the last request that was answered; as long as that is more than a loaded
host explains. A failed request is one without an answer. A host that was suspended is known by the replay's own heartbeat.
"""

from __future__ import annotations

import statistics
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ..clock.time_source import TimeSource

Answer = TypeVar("Answer")

HALTED_AFTER = 5.0
"""Real seconds without an answer beyond which it is a halt: less happens on a loaded host."""
BEAT_MISSED_AFTER = 5.0
"""Real seconds between two heartbeats, which are a second apart, beyond which the replay was halted."""
HALTED_TIMES = 10.0
"""A halt is also this many times longer than the median of the last answers to requests of the same kind: with a long queue, or
with all processors busy, each takes long."""
REMEMBERED = 30
"""Number of answers of a kind from which the median is computed."""
CONTROLLER, REPLAY = "controller", "replay"


@dataclass(frozen=True)
class Halt:
    """The controller or the replay did nothing between two instants, in real seconds since the epoch."""

    what: str
    """CONTROLLER, or REPLAY: the replay itself did not run, because its host was suspended or its process was stopped."""
    since: float
    until: float


class Halts:
    """Halts that were noticed and not taken yet. Threads may call it at the same time."""

    def __init__(self, time: TimeSource) -> None:
        self._time = time
        self._lock = threading.Lock()
        self._lengths: dict[str, deque[float]] = {}
        self._alive_at = 0.0
        """Real instant at which the last answered request began."""
        self._unanswered: float | None = None
        """Real instant at which the first request began that failed since the last answer."""
        self._beat: float | None = None
        self._noticed: list[Halt] = []
        self.ended_at = 0.0
        """Real instant of the end of the controller's last halt."""

    def ask(self, kind: str, request: Callable[[], Answer]) -> Answer:
        """Make a request and return its answer. `kind`: requests that take about as long have the same.

        Raises what `request` does.
        """
        began = self._time.now()
        try:
            answer = request()
        except Exception:
            with self._lock:
                self._unanswered = min(began, self._unanswered or began)
            raise
        self._answered(kind, began, self._time.now())
        return answer

    def _answered(self, kind: str, began: float, now: float) -> None:
        with self._lock:
            since = max(self._alive_at, self.ended_at, min(began, self._unanswered or began))
            lengths = self._lengths.setdefault(kind, deque(maxlen=REMEMBERED))
            usual = statistics.median(lengths) if lengths else 0.0
            if now - since > max(HALTED_AFTER, HALTED_TIMES * usual):
                self._noticed.append(Halt(CONTROLLER, since, now))
                self.ended_at = now
            else:
                lengths.append(now - began)
            self._alive_at, self._unanswered = max(began, self._alive_at), None

    def beat(self) -> None:
        """Note a heartbeat of the replay, about once a second."""
        with self._lock:
            now = self._time.now()
            if self._beat is not None and now - self._beat > BEAT_MISSED_AFTER:
                self._noticed.append(Halt(REPLAY, self._beat, now))
            self._beat = now

    def missed(self, due: float, now: float) -> None:
        """Note when the replay woke up (`now`) from a wait until `due` on an event clock. This clock does not pass a deadline
        before the waiter has looked at it, so a long delay was a halt of the replay."""
        if now - due > BEAT_MISSED_AFTER:
            with self._lock:
                self._noticed.append(Halt(REPLAY, due, now))

    def take(self, until: float) -> list[Halt]:
        """The halts that ended before an instant, each once. Those of the replay come first: they delay what it sees."""
        with self._lock:
            taken = sorted(
                (halt for halt in self._noticed if halt.until <= until), key=lambda halt: (halt.what != REPLAY, halt.since)
            )
            self._noticed = [halt for halt in self._noticed if halt not in taken]
        return taken
