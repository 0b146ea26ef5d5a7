"""Brings the farm of an instance into the wanted state: its specification, its process, its daemons. For root."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base import processes, user_folders
from ..base.files import file_digest, undamaged_json, write_json
from ..clock import instance_clock
from ..rm.managers import DAEMON_KINDS
from . import service
from .farm import STATE
from .hosts_file import HostsFile
from .running import running_farm
from .waiting import wait_for

SPECIFICATION = "etc/farm.json"
STOP_TIMEOUT = 40.0  # seconds; the farm ends processes in up to four steps of 8 s
STOPPED_PER_SECOND = 50  # processes, at least
RESTARTED_IN_RUNS = [name for name, kind in DAEMON_KINDS.items() if kind.may_restart_in_run]


def identity(directory: Path, own: Sequence[str]) -> str:
    """Digest of the farm's code and of what else a running farm cannot change (`own`): if it differs, the farm is restarted."""
    code = [file_digest(path) for path in sorted((directory / "lib/slurm_mirage").rglob("*.py"))]
    return hashlib.sha256("\0".join([*code, *own]).encode()).hexdigest()[:16]


def ensure_started(
    directory: Path,
    wanted: dict[str, Any],
    fresh: str,
    python: str,
    seconds: int,
    check_mode: bool,
    refuse: Callable[[Path], None],
) -> dict[str, Any]:
    """Write the specification, start or reload the farm, and wait until its daemons are ready; returns what changed.

    wanted: the content of etc/farm.json; fresh: as `Spec.fresh`, empty for that of the present specification; python: the farm's
    interpreter; seconds: as for `wait_for`; refuse: raises WrongUse if the instance in a directory may not be changed now

    Raises WrongUse, RuntimeError and OSError.
    """
    spec_file = directory / SPECIFICATION
    written = undamaged_json(spec_file)
    if kept := fresh or (written.get("fresh") if isinstance(written, dict) else ""):
        wanted = {**wanted, "fresh": kept}
    state = running_farm(directory) if (directory / "run").is_dir() else None
    # An earlier call may have been killed after it wrote the file and before the farm read it.
    changed = written != wanted or state is None or state.get("specification") != file_digest(spec_file)
    if state is not None and changed and not is_allowed_in_run(written, wanted):
        refuse(directory)
    if check_mode:
        return {"changed": changed, "clock": clock_line(directory)}
    if wanted.get("network"):
        # The farm, which runs as the instance's user, cannot change this file.
        HostsFile(directory, is_roots=True).write(wanted["addresses"])
    if written != wanted:
        write_json(spec_file, wanted)
    if state is not None and state.get("identity") != wanted["identity"]:
        ensure_stopped(directory, check_mode=False)
        state = None
    if state is None:
        service.start(directory, python)
    elif changed:
        processes.send(state["pid"], state["start_time"], signal.SIGHUP)
    farm = wait_for(directory, seconds)
    instance_clock.share(directory)
    line = clock_line(directory)
    if wanted["clock"]["speed"] != 1 and not line:
        raise RuntimeError(f"{directory}/{instance_clock.FILE} is gone, which the farm has written; run the same command again")
    return {"changed": changed, "farm": farm, "clock": line}


def ensure_stopped(directory: Path, check_mode: bool) -> dict[str, Any]:
    """End the farm and all processes of the instance; returns what changed. Raises WrongUse and RuntimeError."""
    enabled = service.is_enabled(directory)
    exists = (directory / "run").is_dir()
    running = processes.of_instance(str(directory)) if exists else {}
    if check_mode or not (running or enabled):
        return {"changed": bool(running or enabled), "ended": len(running)}
    if enabled:
        service.disable(directory)
    if exists:
        state = running_farm(directory)
        if state is not None:
            processes.end([state["pid"]], STOP_TIMEOUT + len(running) / STOPPED_PER_SECOND)
        processes.end(processes.of_instance(str(directory)), 5.0)
        user_folders.remove(directory, STATE)
    return {"changed": True, "ended": len(running)}


def clock_line(directory: Path) -> str:
    """Content of the clock file; empty if there is none, as in real time. Raises WrongUse if it is not that of a clock."""
    return clock.line() if (clock := instance_clock.current(directory)) else ""


def is_allowed_in_run(written: Any, wanted: Mapping[str, Any]) -> bool:
    """Return whether only digests of daemons change for which a run waits, such as that of munged's key."""

    def others(content: Mapping[str, Any]) -> dict[str, Any]:
        daemons = content.get("daemons", [])
        return {**content, "daemons": [{**one, "digest": ""} if one["kind"] in RESTARTED_IN_RUNS else one for one in daemons]}

    return isinstance(written, dict) and written != wanted and others(written) == others(wanted)
