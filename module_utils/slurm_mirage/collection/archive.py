"""The archive of a run's records on a host: a tar file that only root can read."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

from .. import extras
from ..base import user_folders
from ..base.errors import WrongUse
from ..instance.manager import manager_at
from ..replay.cluster_events import OUTPUT
from ..replay.journal import start_of
from ..rm.managers import manager_of
from ..rm.registry import tools
from .incidents import incidents, span_of

COMPLAINTS_FILE = "complaints.json"
LARGEST = 16 << 30
"""Bytes of all records of a run on a host."""
MOST_JOBS = 1000
"""Jobs of the queue that are kept."""


def pack(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Write the archive; returns what the module run_records returns, by its parameters.

    Raises WrongUse, ResourceManagerError and OSError.
    """
    instance, run, host, span = Path(parameters["instance"]), parameters["run"], parameters["host"], parameters["span"]
    if span is None:
        made, span = of_head(instance, run, parameters["bin"], host, parameters["accounting"])
        of_extras = (path for of in extras.offers("records", "files") for path in of(run))
        files = [*parameters["files"], *of_extras, *outputs_of_commands(instance, run)]
        of_manager = tools(manager_of(instance)).files(instance, run)
    else:
        made, files, of_manager = of_other_host(instance, host, span), parameters["files"], []
    records = [*((instance, name) for name in files), *of_manager]
    return {"names": write(Path(parameters["dest"]), records, made), "span": span}


def write(path: Path, files: Iterable[tuple[Path, str]], made: Mapping[str, str]) -> list[str]:
    """Write the archive in one step; returns the names of its files. Raises WrongUse and OSError.

    files: folders of root's, such as the instance's directory, and paths in them; those that do not exist are left out. They may
    grow while they are read, and links are not followed: the instance's user could have made them. A file with holes is refused:
    its copy would need more space.
    made: further files, content by name.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    names = []
    try:
        with (
            os.fdopen(os.open(new, flags, 0o600), "wb") as stream,
            tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as tar,
        ):
            left = LARGEST
            for folder, relative in files:
                size = _add(tar, folder, relative, left)
                if size is not None:
                    left -= size
                    names.append(PurePath(relative).name)
            for name, text in made.items():
                content = text.encode()
                tar.addfile(_entry(name, len(content)), io.BytesIO(content))
                names.append(name)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return names


def _add(tar: tarfile.TarFile, folder: Path, relative: str, left: int) -> int | None:
    """Add a record; its size in bytes, None if it does not exist. left: bytes that it may have."""
    try:
        source = user_folders.open_file(folder, relative)
    except FileNotFoundError:
        return None
    with os.fdopen(source, "rb") as stream:
        size = os.fstat(source).st_size
        if size > left:
            raise user_folders.Refused(f"{folder / relative}: the records of the run are larger than {LARGEST} bytes")
        if user_folders.is_sparse(source):
            raise user_folders.Refused(f"{folder / relative}: has holes, which no record has; remove it")
        tar.addfile(_entry(PurePath(relative).name, size), stream)
    return size


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    return entry


def of_head(
    instance: Path, run: str, bin_folder: str | None, host: str, has_accounting: bool
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return what the head adds to the archive of a run, content by name of the file, and the time span of the run.

    These are the configuration in force, the queue (jobs that the run did not submit may still be there), the errors in the
    daemons' logs, when the processors of jobs were free again, and with accounting sacct's record.
    host: the head's name. Raises WrongUse and ResourceManagerError.
    """
    commands = manager_at(instance, bin_folder)
    span, offset = span_of(instance, run)
    made = {
        tools(manager_of(instance)).in_force_file: f"{commands.configuration().strip()}\n",
        "queue.json": _json(commands.queue_owners()[:MOST_JOBS]),
    }
    if span:
        of_host = {name: {host: value} for name, value in incidents(instance, span, offset).items()}
        made[COMPLAINTS_FILE] = _json({"head": host, **of_host})
    return {**made, **of_manager(instance, run, bin_folder, has_accounting)}, span


def of_manager(instance: Path, run: str, bin_folder: str | None, has_accounting: bool) -> dict[str, str]:
    """Return what the resource manager has besides, content by name of the file. Raises WrongUse and ResourceManagerError."""
    collected = tools(manager_of(instance)).collected
    return {} if collected is None else collected(instance, run, _start(instance, run), bin_folder, has_accounting)


def outputs_of_commands(instance: Path, run: str) -> list[str]:
    """Return the paths of what commands wrote that were events of the run. Raises WrongUse."""
    folder = f"runs/{run}"
    return [f"{folder}/{name}" for name in user_folders.entries(instance, folder) if OUTPUT.fullmatch(name)]


def _start(instance: Path, run: str) -> dict[str, Any]:
    """The first line of the run's journal. Raises WrongUse if there is none."""
    start = start_of(instance, run)
    if start is None:
        raise WrongUse(f"it has not begun in {instance}", parameter="run", value=run)
    return start


def of_other_host(instance: Path, host: str, span: dict[str, Any]) -> dict[str, str]:
    """Return what another host than the head adds to the archive of a run: the errors in its daemons' logs, and what the resource
    manager has there. Raises WrongUse."""
    of_host = {name: {host: value} for name, value in incidents(instance, span).items()}
    made = {COMPLAINTS_FILE: _json(of_host)}
    collected = tools(manager_of(instance)).collected_elsewhere
    return made if collected is None or not span else {**made, **collected(instance, span["virtual"])}


def _json(content: Any) -> str:
    return json.dumps(content, indent=4, sort_keys=True) + "\n"
