"""The replay as the driver of an event clock: while it runs, the clock waits for the host's work and jumps over idle time.

Without a driver the clock runs as fast as real time, so nothing is lost between a replay that was killed and the next one.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import user_folders
from ..base.errors import WrongUse
from ..clock import clock_page, instance_clock, real_time
from ..clock.event_clock import DRIVER, EventClock


def drive(instance: Path) -> int:
    """Become the driver of the instance's clock; the open descriptor returned keeps it so. Raises WrongUse.

    The calling thread should be the main one: it gets the name by which the coordinator knows the replay.

    The lock is one of fcntl(2): it ends with this process, and with the first descriptor of the file that it closes.
    """
    if not isinstance(instance_clock.current(instance), EventClock):
        raise WrongUse(f"event in run.json, but {instance} has no event clock", parameter="speed")
    if not real_time.is_preloaded():
        raise WrongUse(f"the replay has to be started with the library of the event clock, {instance_clock.library(instance)}")
    descriptor = user_folders.open_file(instance, DRIVER, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    except OSError as error:
        os.close(descriptor)
        raise WrongUse(f"{instance}/{DRIVER}: another process drives the clock") from error
    real_time.name_thread(real_time.REPLAY)
    return descriptor


def figures_since(instance: Path, before: Mapping[str, int]) -> dict[str, Any]:
    """Return what the coordinator has counted since its figures (`clock_page.figures`) were `before`. Raises WrongUse.

    jumps: over idle time; false_quiets: wake-ups that jumps did not foresee; false_quiet_seconds: virtual seconds that
    these may have cost at most; real_seconds, virtual_seconds: that passed while a driver existed; busy_real_seconds: of them those
    in which the instance worked; mode: how that was known, 1 by BPF, 2 by looks at /proc; coordinator_starts: how often the
    coordinator was replaced; given_up: waits that did not end at their deadline; unlisted: waits of whose end the clock did not
    know, because its page was full; charged_seconds: virtual seconds for the scheduler's processor time; scheduler_seconds: this
    time, whether it counted or not; reader_steps: steps of time for programs that wait by reading the clock; idle_cycles: cycles of
    the scheduler that could decide nothing new and were left out
    """
    now = clock_page.figures(instance)
    grown = {name: max(0, value - before.get(name, 0)) for name, value in now.items()}
    return {
        "jumps": grown["jumps"],
        "false_quiets": grown["false_quiets"],
        "false_quiet_seconds": grown["false_quiet_ns"] / 1e9,
        "real_seconds": grown["driven_real_ns"] / 1e9,
        "virtual_seconds": grown["driven_ns"] / 1e9,
        "busy_real_seconds": grown["busy_ns"] / 1e9,
        "mode": now["mode"],
        "coordinator_starts": grown["starts"],
        "given_up": grown["given_up"],
        "unlisted": grown["unlisted"],
        "charged_seconds": grown["charged_ns"] / 1e9,
        "scheduler_seconds": grown["scheduler_ns"] / 1e9,
        "reader_steps": grown["reader_steps"],
        "idle_cycles": grown["left_out"],
    }
