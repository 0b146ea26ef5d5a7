"""Real time for threads of a program that uses an event clock (files/virtual_clock preloaded). Other programs have it already.

A thread that looks at the cluster from outside, at intervals of real time, is an observer: it must not keep the clock from jumping,
and its wake-ups are no work of the cluster. The library knows whose calls are to get real time, and the coordinator knows observers
by their name.
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

OBSERVER = "mirage-observer"
"""The name of threads (comm in /proc) whose wake-ups the coordinator does not count as false quiets, because of its beginning."""
REPLAY = "slurm-replay"
"""The name of the replay's main thread: while it is stopped, the coordinator holds time up, because of the name's beginning."""
_PR_SET_NAME = 15  # prctl(2)
_TIMER_ABSTIME = 1  # clock_nanosleep(2)
_SECOND = 1_000_000_000


class _Timespec(ctypes.Structure):
    _fields_: ClassVar = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


_libc = ctypes.CDLL(None)


def is_preloaded() -> bool:
    """Return whether the library of the event clock is preloaded into this program."""
    return hasattr(_libc, "mirage_real_time")


def become_observer() -> None:
    """Name the calling thread OBSERVER, if this program uses an event clock."""
    if is_preloaded():
        name_thread(OBSERVER)


def name_thread(name: str) -> None:
    """Give the calling thread a name of up to 15 bytes."""
    _libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


@contextmanager
def real_time() -> Iterator[None]:
    """Give the calling thread real time from all calls, for the duration of the context. Contexts may not be nested."""
    _set(True)
    try:
        yield
    finally:
        _set(False)


def pause(over: threading.Event, seconds: float) -> bool:
    """Wait for so many real seconds, or until `over` is set; returns whether it is."""
    with real_time():
        return over.wait(seconds)


def now() -> float:
    """Return the real time of this moment, in seconds since the epoch."""
    with real_time():
        return time.time()


def nanoseconds(instant: float) -> int:
    """Return an instant in ns that was given in seconds since the epoch: of equal fractions of a second equal ones."""
    seconds = math.floor(instant)
    return seconds * _SECOND + round((instant - seconds) * _SECOND)


def sleep_until(instant: int) -> None:
    """Sleep until a virtual instant (ns since the epoch), to the nanosecond; in a program that lives on an event clock."""
    _libc.clock_nanosleep(time.CLOCK_REALTIME, _TIMER_ABSTIME, ctypes.byref(_Timespec(*divmod(instant, _SECOND))), None)


def _set(on: bool) -> None:
    if is_preloaded():
        _libc.mirage_real_time(int(on))
