"""The phase of the scheduler on an event clock: its timers have the same distance to the first submission in each run.

A controller counts its timers (scheduling, backfilling, pings, saves) from its start. So the replay starts it again at a whole
STEP of the cluster's time, while time stands, and begins START_AFTER later. Backfilling rounds instants to whole minutes, and
accounting to whole hours, of the calendar: the calendar's phase is the same as well. Jobs of earlier runs would be purged during
this one, each time with a cycle of backfilling: the controller is made to forget them.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from ..base import processes
from ..clock import clock_page, real_time
from ..clock.event_clock import HOLD_BYTE
from ..farm import absent
from .process import Failed, Waker

STEP = 3600
"""Virtual seconds: the controller starts at a multiple of them since the epoch."""
START_AFTER = 120
"""Virtual seconds from the controller's start to the start of the run: by then all nodes have registered."""
PATIENCE = 60.0
"""Real seconds for the controller's restart."""
ENDING = 50_000_000
"""Virtual nanoseconds between two looks for the end of a controller that saves its state: it sleeps meanwhile, too."""
_LOCK = struct.Struct("@hhqqi4x")  # struct flock of fcntl(2): type, whence, start, length, process
_NS = 1_000_000_000


def restart_controller(instance: Path, driver: int, waker: Waker, forgotten: Iterable[Path]) -> int | None:
    """Start the controller again at a whole STEP; returns the virtual instant (ns since the epoch) at which the run begins.

    None: no controller has told the clock its process id, as slurmctld does.

    driver: the descriptor of `drive`. The farm, which starts the controller again, holds the clock until it is ready. forgotten:
    files of the controller's that it must not find at its start. Raises Failed or Stopped.
    """
    before = clock_page.scheduler(instance)
    if before <= 0:
        return None
    began = -(-time.time_ns() // (STEP * _NS)) * STEP * _NS
    waker.sleep_until(began)
    # A second controller counts its timers from its start, too. The farm starts it again while it holds the clock.
    absent.signal_standby(instance, signal.SIGKILL)
    if _is_running(before, instance):
        remove_from(before, forgotten)
    end_controller(instance, before, driver, waker)
    return began + START_AFTER * _NS


def remove_from(pid: int, files: Iterable[Path]) -> None:
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
