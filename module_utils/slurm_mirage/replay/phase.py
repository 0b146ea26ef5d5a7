"""The phase of the scheduler on an event clock: its timers have the same distance to the first submission in each run.

A controller counts its timers (scheduling, backfilling, pings, saves) from its start. So the replay starts it again, and begins
START_AFTER later. Backfilling rounds instants to whole minutes, accounting to hours, PriorityUsageResetPeriod to days or weeks of
the calendar: a run begins at the weekday and time of day that run.json says. The clock leaps there while the controller is stopped.
One whose timers are at multiples of their lengths since the epoch (`keeps_its_phase`) runs on.
Jobs of earlier runs would be purged during this one, each time with a cycle of backfilling, and their usage would count: the
controller is made to forget them.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import threading
import time
from collections.abc import Collection
from pathlib import Path

from ..base import processes
from ..clock import clock_page, real_time
from ..clock.event_clock import HOLD_BYTE
from ..farm import absent
from .process import Failed, Waker

WEEK = 7 * 86_400
_MONDAY = 4 * 86_400
"""The first Monday, 00:00, in seconds since the epoch."""
START_AFTER = 120
"""Virtual seconds from the controller's start to the start of the run: by then all nodes have registered."""
PATIENCE = 60.0
"""Real seconds for the controller's restart."""
ENDING = 50_000_000
"""Virtual nanoseconds between two looks for the end of a controller that saves its state: it sleeps meanwhile, too."""
_LOCK = struct.Struct("@hhqqi4x")  # struct flock of fcntl(2): type, whence, start, length, process
_NS = 1_000_000_000


def next_begin(now: int, second_of_week: int) -> int:
    """The first instant, at least START_AFTER after `now`, at that second of the week, which begins on Monday, 00:00 UTC.

    Instants are in ns since the epoch.
    """
    earliest = now + START_AFTER * _NS
    return earliest + ((_MONDAY + second_of_week) * _NS - earliest) % (WEEK * _NS)


def restart_controller(instance: Path, driver: int, waker: Waker, second_of_week: int, forgotten: Collection[Path]) -> int | None:
    """Start the controller again; returns the virtual instant (ns since the epoch) at which the run begins (`next_begin`).

    None: no controller has told the clock its process id, as slurmctld does.

    driver: the descriptor of `drive`. The farm, which starts the controller again, holds the clock until it is ready. forgotten:
    files of the controller's that it must not find at its start; none if a job has not ended: then time passes as ever until there,
    else in one leap. Raises Failed or Stopped.
    """
    before = clock_page.scheduler(instance)
    if before <= 0:
        return None
    if not _is_running(before, instance):
        end_controller(instance, before, driver, waker)
        before = clock_page.scheduler(instance)
    begin = next_begin(time.time_ns(), second_of_week)
    start = begin - START_AFTER * _NS
    if not forgotten:
        waker.sleep_until(start)
    # A second controller counts its timers from its start, too. The farm starts it again while it holds the clock.
    absent.signal_standby(instance, signal.SIGSTOP)
    remove_from(before, forgotten)
    if forgotten:
        _leap(instance, start, waker)
    absent.signal_standby(instance, signal.SIGKILL)
    end_controller(instance, before, driver, waker)
    return begin


def leap_to_begin(instance: Path, waker: Waker, second_of_week: int, *, is_idle: bool) -> int:
    """As `restart_controller`, but the controller runs on: have the clock set to START_AFTER before the run's begin.

    is_idle: all jobs have ended; else time passes as ever until there. Raises Failed or Stopped.
    """
    begin = next_begin(time.time_ns(), second_of_week)
    if is_idle:
        _leap(instance, begin - START_AFTER * _NS, waker)
    else:
        waker.sleep_until(begin - START_AFTER * _NS)
    return begin


def _leap(instance: Path, instant: int, waker: Waker) -> None:
    """Have the clock set to a later virtual instant (ns since the epoch), and wait until it is. Raises Failed or Stopped."""
    deadline, over = real_time.now() + PATIENCE, threading.Event()
    clock_page.leap(instance, instant)
    while time.time_ns() < instant:
        if real_time.now() > deadline:
            raise Failed(f"the clock was not set within {PATIENCE:g} s")
        waker.check()
        real_time.pause(over, 0.001)


def remove_from(pid: int, files: Collection[Path]) -> None:
    """Remove files of a process, which is stopped before so that it does not write them again. Raises Failed."""
    deadline, started = real_time.now() + PATIENCE, processes.start_time(pid)
    if started is None:
        return
    processes.send(pid, started, signal.SIGSTOP)
    while processes.is_alive(pid, started) and not processes.is_stopped(pid):
        if real_time.now() > deadline:
            raise Failed(f"process {pid} did not stop within {PATIENCE:g} s")
    for path in files:
        path.unlink(missing_ok=True)


def end_controller(instance: Path, pid: int, driver: int, waker: Waker, number: signal.Signals = signal.SIGKILL) -> None:
    """End the controller with this process id by a signal, and wait until the farm has started it again.

    driver: as of `restart_controller`. number: SIGKILL, or SIGTERM, after which it saves its state first. Raises Failed or Stopped.
    """
    deadline = real_time.now() + PATIENCE
    if _is_running(pid, instance):
        processes.send(pid, processes.start_time(pid) or 0, number)
        while number != signal.SIGKILL and _is_running(pid, instance) and real_time.now() < deadline:
            waker.sleep_until(time.time_ns() + ENDING)
        # No pause until the farm holds the clock: time stands while this thread works.
        while not _is_held(driver) and clock_page.scheduler(instance) == pid and real_time.now() < deadline:
            pass
    over = threading.Event()
    while _is_held(driver) or clock_page.scheduler(instance) == pid:
        if real_time.now() > deadline:
            raise Failed(f"the controller was not ready within {PATIENCE:g} s after its restart")
        waker.check()
        real_time.pause(over, 0.01)


def _is_running(pid: int, instance: Path) -> bool:
    """Whether a process of the instance has this id. None has if the controller has ended and the farm starts another one."""
    return processes.start_time(pid) is not None and processes.belongs(pid, str(instance))


def _is_held(driver: int) -> bool:
    """Whether another process, such as the farm, has locked the byte by which it keeps the clock from jumping."""
    asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, HOLD_BYTE, 1, 0)
    return bool(_LOCK.unpack(fcntl.fcntl(driver, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK)
