"""Waits until the farm of an instance has started its daemons, with messages that say why it does not."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ..base import user_folders
from ..base.disk import no_space
from ..base.errors import WrongUse
from ..base.files import file_digest
from ..rm.managers import NODE_KINDS
from . import service
from .events import full_folders
from .farm import failure_of, read_state
from .pacing import host_memory
from .running import is_complete

MEMORY_TIMEOUT = 60  # seconds without growth of the available memory
FARM_TIMEOUT = 10  # seconds until the farm has written its state, or written it again after it ended


def wait_for(directory: Path, seconds: int) -> dict[str, Any]:
    """Wait until the farm has read its specification and its daemons are ready; returns its state.

    The duration of a start is not limited. Raises RuntimeError if there is no progress for `seconds`, if no farm runs for
    FARM_TIMEOUT, or if a daemon ends again and again.
    """
    specification = file_digest(directory / "etc/farm.json")
    best = (False, 0, 0)
    deadline, last_seen = time.monotonic() + seconds, time.monotonic()
    while True:
        state = read_state(directory)
        progress = progress_of(state, specification) if state else best
        if state and progress[0]:
            if is_complete(state):
                return state
            if cause := failure_of(state, directory):
                raise RuntimeError(cause)
            if (state["waiting_for_memory"] or 0) >= MEMORY_TIMEOUT:
                raise RuntimeError(out_of_memory(state, directory))
        if progress > best or (state and state.get("waiting_for_memory") is not None):
            best, deadline = max(best, progress), time.monotonic() + seconds
        if time.monotonic() > deadline:
            last_state = (
                json.dumps({key: state[key] for key in ("phase", "daemons", "leaving")}) if state else "the farm does not run"
            )
            raise RuntimeError(f"no further daemon is there after {seconds} s: {last_state}; see {directory}/log")
        if state is not None:
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > FARM_TIMEOUT:
            raise RuntimeError(end_of_farm(directory))
        time.sleep(0.1)


def progress_of(state: dict[str, Any], specification: str) -> tuple[bool, int, int]:
    """Progress of the farm with its specification, as a tuple that grows.

    Whether the farm has read it, negative number of daemons that have yet to end, number of ready daemons.
    """
    if state.get("specification") != specification:
        return (False, 0, 0)
    return (True, -state["leaving"], sum(kind["ready"] for kind in state["daemons"].values()))


def out_of_memory(state: dict[str, Any], directory: Path) -> str:
    """Error message for a host without memory for more daemons."""
    memory, waited = host_memory(), state["waiting_for_memory"]
    kind, nodes = next((kind, state["daemons"][kind]) for kind in NODE_KINDS if kind in state["daemons"])
    return (
        f"the host has no memory for more {kind}: {nodes['up']} of {nodes['wanted']} run, {memory.available:.0f} of "
        f"{memory.total:.0f} MiB are available, of which {memory.reserve:.0f} stay free, and that did not grow in {waited} s; "
        f"take fewer NODES, or end what else takes memory (make teardown CLUSTER={directory.name} ends this)"
    )


def end_of_farm(directory: Path) -> str:
    """Error message for a farm that has ended or does not start, with its own last words."""
    if (full := next(iter(full_folders(directory).values()), None)) is not None:
        return f"the farm does not run: {no_space(full)}"
    if service.has_systemd():
        return f"the farm does not run; see journalctl -u {service.unit_of(directory)}"
    try:
        with os.fdopen(user_folders.open_file(directory, "log/farm.log"), "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
            lines = log.read(2000).decode(errors="replace").splitlines()
    except (OSError, WrongUse):
        lines = []
    return f"the farm does not run: {lines[-1].strip() if lines else 'its log is empty'}; see {directory}/log/farm.log"
