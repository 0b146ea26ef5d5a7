"""Pauses a sandbox, and resumes it: the replay stops, no job starts, and those that run are suspended by Slurm.

The cluster's time goes on, and all daemons answer. What was paused is noted in RECORD before it is done, so that a call that was
killed, or that did not reach all jobs, can be repeated. A sandbox that was cleared for another run since is not paused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ....base.errors import WrongUse
from ....base.files import undamaged_json, write_json
from ....farm.farm import read_state
from ....instance.instance import active_run, commands_of
from ....instance.manager import manager_at
from ....instance.replay_control import apply as bring_replay
from ....rm.api import ResourceManagerError
from ..addresses import rest_url
from ..commands import ask

RECORD = "transfer/paused.json"
"""In the instance's directory, root's: the run, the partitions and the jobs that were paused, and the content of CLEARED then."""
CLEARED = "cleared_for"
"""In the instance's directory, root's: the run that the instance was cleared for (roles/experiment)."""
AT_ONCE = 200
"""Jobs in one call of scontrol."""


def check(directory: Path) -> None:
    """Raise WrongUse if the instance in `directory` is no sandbox that runs."""
    if not rest_url(directory):
        raise WrongUse("is no sandbox, as make sandbox makes one; only those are paused", "cluster", directory.name)
    if read_state(directory) is None:
        raise WrongUse(f"does not run: make sandbox CLUSTER={directory.name} starts it", "cluster", directory.name)


def apply(parameters: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Pause or resume; returns what the module slurm_pause returns, by its parameters. Raises ResourceManagerError, WrongUse."""
    directory, is_wanted = Path(parameters["directory"]), parameters["state"] == "paused"
    noted = undamaged_json(directory / RECORD)
    before = noted if isinstance(noted, dict) and noted.get("cleared_for") == _cleared_for(directory) else {}
    if not is_wanted and not before:
        return {"changed": False, "jobs": 0}
    if check_mode:
        return {"changed": True, "jobs": 0}
    return _pause(directory, before, parameters) if is_wanted else _resume(directory, before, parameters)


def _cleared_for(directory: Path) -> str:
    with suppress(FileNotFoundError):
        return (directory / CLEARED).read_text().strip()
    return ""


def _pause(directory: Path, before: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    manager = manager_at(directory)
    run, suspended, closed = active_run(directory), {*before.get("jobs", [])}, {*before.get("partitions", [])}

    def note() -> None:
        paused = {"run": run or before.get("run"), "partitions": sorted(closed), "jobs": sorted(suspended)}
        write_json(directory / RECORD, {"cleared_for": _cleared_for(directory), **paused}, mode=0o600)

    note()
    if run is not None:
        _bring(directory, run, "stopped", parameters)
    # A replay that stops opens those that it has closed itself.
    closed |= {*(partitions := manager.open_partitions())}
    note()
    manager.set_partitions(partitions, are_open=False)
    suspended |= {*(jobs := _jobs(directory, "RUNNING"))}
    note()
    _control(directory, "suspend", jobs, "RUNNING")
    return {"changed": bool(run or partitions or jobs), "jobs": len(suspended), "notes": [f"jobs suspended: {len(suspended)}"]}


def _resume(directory: Path, before: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    jobs = sorted({*before["jobs"]} & {*_jobs(directory, "SUSPENDED")})
    _control(directory, "resume", jobs, "SUSPENDED")
    manager_at(directory).set_partitions(before["partitions"], are_open=True)
    if before.get("run"):
        _bring(directory, before["run"], "started", parameters)
    (directory / RECORD).unlink()
    return {"changed": True, "jobs": len(jobs), "notes": [f"jobs resumed: {len(jobs)}"]}


def _bring(directory: Path, run: str, state: str, parameters: Mapping[str, Any]) -> None:
    own = {"instance": str(directory), "run": run, "state": state, "user": parameters["user"], "timeout": 60}
    bring_replay({**own, "python": "/usr/bin/python3", "package_path": None}, check_mode=False)


def _jobs(directory: Path, state: str) -> list[int]:
    """Numbers of the jobs in a state; each task of an array has its own."""
    words = ("--noheader", f"--states={state}", "--format=%A")
    return sorted({int(line) for line in ask(directory, commands_of(directory), "squeue", *words).split()})


def _control(directory: Path, action: str, jobs: Iterable[int], state: str) -> None:
    """Suspend or resume jobs, which are in this state. One that has ended meanwhile is left alone. Raises ResourceManagerError if
    any is in the state still."""
    numbers = [str(job) for job in jobs]
    reason = ""
    for first in range(0, len(numbers), AT_ONCE):
        try:
            ask(directory, commands_of(directory), "scontrol", action, ",".join(numbers[first : first + AT_ONCE]))
        except ResourceManagerError as error:
            reason = reason or f" ({error})"
    if numbers and (left := {*map(int, numbers)} & {*_jobs(directory, state)}):
        raise ResourceManagerError(
            f"{len(left)} of {len(numbers)} jobs are {state} still, such as {min(left)}{reason}: the same command tries again"
        )
