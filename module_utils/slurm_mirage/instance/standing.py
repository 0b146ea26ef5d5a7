"""Checks whether a cluster on one host already is as its inputs say, so that a run can begin without a build.

The record DIRECTORY/built.json, which belongs to root, is written at the end of a build. It has digests of the inputs, of the files
that the build wrote and of Slurm's programs, and facts that the tasks after the build need.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..base import hostlist, processes, user_folders
from ..base.errors import WrongUse
from ..base.files import file_digest, read_json, undamaged_json, write_json
from ..farm import absent
from ..farm.running import is_complete, running_farm
from ..farm.saved_state import FRESH_FOR
from ..rm.api import Commands, ResourceManagerError
from ..rm.managers import manager_of
from .instance import active_run
from .manager import manager_at
from .registration import Registration

RECORD = "built.json"
FOLDERS = ("etc", "lib", "bin")
"""Folders of root that a build fills."""
ACCOUNTING = "slurm_controller_accounting_wanted"
"""Name of the fact that says whether the cluster has a database."""
NAMED = 3
"""Number of changed files that a note names."""
READY_TIMEOUT = 30.0
"""Real seconds in which nodes that were returned to service, or whose slurmctld was restarted, have to be ready."""


@dataclass(frozen=True)
class Wanted:
    """The inputs of a cluster.

    inputs: digest of all that the cluster is built from, except for its configuration; empty if it is not known. configuration:
    digest of the scheduler's configuration. run: name of the run that follows. is_fresh: whether it needs a clean state.
    """

    inputs: str
    configuration: str
    run: str = ""
    is_fresh: bool = False


@dataclass(frozen=True)
class Standing:
    """What has to be done to the cluster.

    stands: whether nothing has to be done. is_installed: whether its daemons run, and at most slurmctld has to be configured and
    restarted. fresh: the name for which slurmctld has to begin with a clean state (`farm.saved_state`); empty if it may keep its
    state, or is cleared in another way. notes: lines for the user. facts: those of the build.
    """

    stands: bool = False
    is_installed: bool = False
    fresh: str = ""
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def as_result(self) -> dict[str, Any]:
        """Result of an Ansible module."""
        return asdict(self)


@dataclass(frozen=True)
class Record:
    """Content of built.json. boot: id of the host's boot; programs: size and time of change of each program; files: digests."""

    inputs: str
    configuration: str
    boot: str
    programs: dict[str, str]
    files: dict[str, str]
    facts: dict[str, Any]

    @classmethod
    def of_host(cls, directory: Path, wanted: Wanted, programs: Iterable[Path], facts: Mapping[str, Any]) -> Record:
        """The record of the cluster as it is now."""
        return cls(wanted.inputs, wanted.configuration, _boot(), _programs(programs), _files(directory), dict(facts))

    @classmethod
    def load(cls, directory: Path) -> Record | None:
        """The record of the last build; None if there is none."""
        content = undamaged_json(directory / RECORD)
        try:
            return cls(**content)
        except TypeError:
            return None

    def write(self, directory: Path) -> None:
        write_json(directory / RECORD, asdict(self), mode=0o600)


def forget(directory: Path) -> None:
    """Remove the record: an interrupted build leaves a cluster that does not stand."""
    with suppress(FileNotFoundError):
        (directory / RECORD).unlink()


def standing(directory: Path, wanted: Wanted, programs: Iterable[Path], bin_folder: Path, *, mends: bool = True) -> Standing:
    """What has to be done to the cluster in `directory`.

    If `mends`, unless a run goes on, nodes that were drained or set down are returned to service, and a slurmctld that only
    lacks a clean state is restarted with one.
    programs: those of the daemons. bin_folder: that of the commands. Raises WrongUse.
    """
    record = Record.load(directory)
    if not wanted.inputs or record is None or record.inputs != wanted.inputs:
        return Standing()
    goes_on = active_run(directory) is not None
    notes: list[str] = []
    if not goes_on and mends and (away := _return_absent(directory)):
        notes.append(f"nodes that an unfinished run had taken away are returned: {away}")
    if changes := [*_changes(record, directory, programs), *_missing_daemons(directory)]:
        return Standing(notes=[f"the cluster is built again: {'; '.join(changes)}"])
    manager, kind = manager_at(directory, bin_folder), manager_of(directory)
    try:
        if not goes_on and (note := _with_all_nodes(manager, mends)):
            notes.append(note)
        if record.configuration == wanted.configuration and (not wanted.is_fresh or _fresh_for(directory) == wanted.run):
            return Standing(stands=True, is_installed=True, notes=notes, facts=record.facts)
        if kind != "slurm" and not goes_on and record.configuration == wanted.configuration and _has_forgotten_runs(manager):
            return Standing(stands=True, is_installed=True, notes=notes, facts=record.facts)
        # A database keeps jobs and usage of the runs before.
        if goes_on or kind != "slurm" or record.facts.get(ACCOUNTING):
            return Standing(is_installed=kind == "slurm" and not wanted.is_fresh, notes=notes, facts=record.facts)
        is_empty = not manager.queue_owners()
    except ResourceManagerError as error:
        return Standing(notes=[f"the cluster is built again: {error}"])
    if is_empty and mends and record.configuration == wanted.configuration:
        try:
            _restart_clean(directory, record, wanted.run, manager)
        except ResourceManagerError as error:
            return Standing(notes=[*notes, f"the cluster is built again: {error}"])
        return Standing(stands=True, is_installed=True, notes=notes, facts=record.facts)
    if is_empty:
        return Standing(is_installed=True, fresh=wanted.run, notes=notes, facts=record.facts)
    return Standing(is_installed=not wanted.is_fresh, notes=notes, facts=record.facts)


def _has_forgotten_runs(manager: Commands) -> bool:
    """Return True if the cluster has no jobs and keeps nothing of earlier runs that changes schedules. Raises
    ResourceManagerError."""
    return manager.forgets_runs() and not manager.queue_owners()


def _restart_clean(directory: Path, record: Record, run: str, manager: Commands) -> None:
    """Let the farm restart slurmctld with a clean state for the run. Raises ResourceManagerError if nodes are not ready then."""
    forget(directory)
    specification = directory / "etc/farm.json"
    write_json(specification, {**read_json(specification), "fresh": run})
    if (farm := running_farm(directory)) is None:
        raise ResourceManagerError("the farm does not run")
    processes.send(farm["pid"], farm["start_time"], signal.SIGHUP)
    digest, deadline, registration = file_digest(specification), time.monotonic() + READY_TIMEOUT, Registration(manager)
    while not _is_clean(directory, digest, run) or not _are_ready(registration):
        if time.monotonic() > deadline:
            raise ResourceManagerError("slurmctld did not get ready with a clean state")
        time.sleep(0.1)
    replace(record, files=_files(directory)).write(directory)


def _is_clean(directory: Path, specification: str, run: str) -> bool:
    """Whether the farm has read this specification, and its slurmctld runs with a state that is clean for the run."""
    state = running_farm(directory)
    return state is not None and state.get("specification") == specification and is_complete(state) and _fresh_for(directory) == run


def _are_ready(registration: Registration) -> bool:
    """Whether all nodes are ready; False also while slurmctld does not answer."""
    try:
        return registration.look().all_ready
    except ResourceManagerError:
        return False


def _with_all_nodes(manager: Commands, mends: bool) -> str:
    """Return nodes to service that are not ready; returns what was done. Raises ResourceManagerError if they do not get ready."""
    if manager.registered().all_ready:
        return ""
    names = manager.return_nodes() if mends else ""
    registration, deadline = Registration(manager), time.monotonic() + READY_TIMEOUT
    while not (nodes := registration.look()).all_ready:
        if not mends or time.monotonic() > deadline:
            states = ", ".join(f"{number} {state}" for state, number in sorted(nodes.states.items()))
            raise ResourceManagerError(f"nodes are not ready: {states}")
        time.sleep(0.2)
    return f"nodes were out of service and are returned to it: {names}" if names else ""


def _return_absent(directory: Path) -> str:
    """Let the farm start the daemons again that a run had taken away; returns which ones. Raises WrongUse."""
    gone, stopped = absent.parse(absent.read(directory))
    state = running_farm(directory) if gone or stopped else None
    if state is None:
        user_folders.remove(directory, absent.FILE)
        return ""
    with suppress(absent.NoFarm):
        absent.request(directory, state, "")
    deadline = time.monotonic() + READY_TIMEOUT
    while not is_complete(state) or state.get(absent.STATE_KEY):
        if time.monotonic() > deadline or (state := running_farm(directory)) is None:
            break
        time.sleep(0.1)
    return hostlist.compress(gone | stopped)


def _changes(record: Record, directory: Path, programs: Iterable[Path]) -> list[str]:
    """What differs from the record, in words."""
    if record.boot != _boot():
        return ["the host was started again"]
    replaced = [path for path, status in _programs(programs).items() if record.programs.get(path) != status]
    files = _files(directory)
    changed = sorted(name for name in {*files, *record.files} if files.get(name) != record.files.get(name))
    words = [f"{path} was replaced" for path in replaced]
    if changed:
        more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
        words.append(f"{', '.join(changed[:NAMED])}{more} {'were' if len(changed) > 1 else 'was'} changed")
    return words


def _missing_daemons(directory: Path) -> list[str]:
    """Daemons that do not run, in words."""
    state = running_farm(directory) if (directory / "run").is_dir() else None
    if state is None or state.get("specification") != file_digest(directory / "etc/farm.json"):
        return ["the farm does not run"]
    if is_complete(state):
        return []
    kinds = state["daemons"].items()
    return [f"{one['ready']} of {one['wanted']} {kind} run" for kind, one in kinds if one["ready"] != one["wanted"]] or [
        "its daemons are being started"
    ]


def _fresh_for(directory: Path) -> str:
    """The name for which slurmctld's state was removed last; empty for none. The file belongs to the instance's user."""
    try:
        return user_folders.read_text(directory, FRESH_FOR, user_folders.SMALL)
    except (OSError, WrongUse, UnicodeDecodeError):
        return ""


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _programs(paths: Iterable[Path]) -> dict[str, str]:
    """Size and time of the last change of each program that exists."""
    statuses = {}
    for path in paths:
        with suppress(FileNotFoundError):
            status = path.stat()
            statuses[str(path)] = f"{status.st_size} {status.st_mtime_ns}"
    return statuses


def _files(directory: Path) -> dict[str, str]:
    """Digest of each file of the build; of the many small files of nodes one for the folder."""
    digests: dict[str, str] = {}
    for folder in FOLDERS:
        for path, folders, names in os.walk(directory / folder):
            folders[:] = [name for name in folders if name != "__pycache__"]
            of_files = {name: _digest(Path(path, name)) for name in sorted(names)}
            relative = Path(path).relative_to(directory)
            if relative.name == "nodes":
                digests[str(relative)] = hashlib.sha256(repr(of_files).encode()).hexdigest()[:16]
            else:
                digests |= {str(relative / name): digest for name, digest in of_files.items()}
    return digests


def _digest(path: Path) -> str:
    """Digest of a file's content and mode, or of what a link names."""
    if path.is_symlink():
        return str(path.readlink())
    return f"{file_digest(path)} {path.stat().st_mode:o}"
