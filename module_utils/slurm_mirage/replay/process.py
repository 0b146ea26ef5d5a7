"""The replay as a process: its settings, its lock, and waits that a signal ends."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.errors import WrongUse
from ..base.processes import start_time
from ..base.run_lock import signed_by
from ..base.run_settings import RunSettings
from ..clock import real_time
from ..clock.event_clock import SPEED
from ..clock.time_source import TimeSource
from ..rm.api import SUBMIT_TIMEOUT
from .real_left import Costs

LONGEST_WAIT = 3600.0
"""Seconds of one wait for a file: longer ones are made of several."""


_NEVER = 2**63
_ROUNDING = 1000  # ns: the present time in seconds since the epoch, as a floating-point number, is less than that too early


class Stopped(Exception):
    """SIGTERM or SIGINT: leave everything as it is; the same command goes on."""


class Failed(Exception):
    """The run cannot go on; the message is one line."""


@dataclass(frozen=True)
class Settings:
    """The settings of the replay itself in run.json. The resource manager and the kind of the jobs read their own."""

    run: str
    instance: str
    plan_sha256: str
    clock: str | None
    speed: float
    sample_interval: float
    launch_cost: Mapping[str, Any] | None = None
    """What a launch costs, as another run of the campaign measured it (launch_cost.py); None: this run measures it."""
    event_clock: bool = False
    """Whether the cluster has an event clock. The replay then uses virtual time, unless said otherwise, and what is called real
    here is virtual."""
    second_of_week: int = 0
    """Second of the week, from Monday, 00:00 of the cluster's calendar on, at which a run on an event clock begins."""
    costs: Costs = field(default_factory=Costs)
    """What the replay costs in real time on an event clock."""

    @classmethod
    def of(cls, settings: RunSettings) -> Settings:
        """The settings in run.json. Raises WrongUse if a key is missing or of another type."""
        return cls(
            run=settings.text("run"),
            instance=settings.text("instance"),
            plan_sha256=settings.text("plan_sha256"),
            clock=settings.text_or_none("clock"),
            speed=settings.positive("speed"),
            sample_interval=settings.positive("sample_interval"),
            event_clock=settings.text("clock_kind", "constant") == SPEED,
            launch_cost=settings.mapping_or_none("launch_cost"),
            second_of_week=settings.whole("second_of_week"),
            costs=Costs.of(settings.mapping_or_none("costs") or {}),
        )


class Waker:
    """Lets signals and other threads interrupt a wait of the main thread, without losing a wake-up.

    On an event clock a wait with a limit and a file would look at the clock every few milliseconds, and time would stand until it
    has. So the main thread waits without a limit, and other threads, which only sleep, wake it up to the nanosecond.

    time: in which the replay lives
    """

    def __init__(self, time: TimeSource | None = None) -> None:
        self.time = time or TimeSource()
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._alarms: set[int] = set()
        """Virtual instants (ns since the epoch) at which a thread wakes the main thread."""
        self.stopping = False

    def install(self) -> None:
        """Have SIGTERM and SIGINT stop the replay."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def _stop(self, number: int, frame: object) -> None:
        self.stopping = True
        self.wake()

    def wake(self) -> None:
        """End the wait that is going on, or the next one."""
        with suppress(BlockingIOError):  # the pipe is full of wake-ups already
            os.write(self._writer, b".")

    def check(self) -> None:
        """Raises Stopped after a signal to stop."""
        if self.stopping:
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Wait for this time, or until `wake` is called. Raises Stopped."""
        self.check()
        if seconds > 0:
            limit: float | None = min(seconds, LONGEST_WAIT)
            if real_time.is_preloaded():
                # Time stands while this thread works: the sum is the instant that the caller has subtracted from.
                instant = real_time.nanoseconds(self.time.now() + min(seconds, LONGEST_WAIT))
                self._set_alarm(instant // _ROUNDING * _ROUNDING + 2 * _ROUNDING)
                limit = None
            if self.time.is_readable(self._reader, limit):
                os.read(self._reader, 4096)
        self.check()

    def _set_alarm(self, instant: int) -> None:
        """Have the main thread woken up at an instant, or earlier: then it waits again."""
        if min(self._alarms, default=_NEVER) > instant:
            self._alarms.add(instant)
            threading.Thread(target=self._sleep_until, args=(instant,), name="alarm", daemon=True).start()

    def _sleep_until(self, instant: int) -> None:
        real_time.sleep_until(instant)
        self._alarms.discard(instant)
        self.wake()

    def sleep_until(self, instant: int) -> None:
        """Wait until a virtual instant (ns since the epoch) of an event clock, also if `wake` is called. Raises Stopped."""
        while self.time.now_ns() < instant:
            self.check()
            self._set_alarm(instant)
            self.time.is_readable(self._reader, None)
            os.read(self._reader, 4096)
        self.check()

    def sleep(self, seconds: float) -> None:
        """Wait for this time, also if `wake` is called. Raises Stopped."""
        until = self.time.monotonic() + seconds
        while (left := until - self.time.monotonic()) > 0:
            self.wait(left)


def take_lock(path: Path, waker: Waker) -> int:
    """Lock the run folder for this process, without writing its name; the open descriptor returned keeps the lock. Raises WrongUse
    if a replay holds it.

    A submission that a killed replay had begun holds the lock, too: it is waited for, because it is not known before its end
    whether its job exists.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = waker.time.monotonic() + SUBMIT_TIMEOUT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            holder = signed_by(descriptor)
            if holder is not None:
                raise WrongUse(f"{path.parent}: is being replayed by process {holder[0]}") from None
            if waker.time.monotonic() > deadline:
                raise WrongUse(f"{path.parent}: a submission of an earlier replay has not ended") from None
            waker.wait(0.1)
    os.ftruncate(descriptor, 0)
    return descriptor


def sign_lock(descriptor: int) -> None:
    """Write into the lock file which process holds it: from now on `signed_by` returns this process."""
    os.pwrite(descriptor, f"{os.getpid()} {start_time(os.getpid())}\n".encode(), 0)
