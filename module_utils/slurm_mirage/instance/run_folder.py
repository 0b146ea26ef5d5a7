"""Creates and removes the folder of a run in an instance, which belongs to the instance's user. For root."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import extras
from ..base import user_folders
from ..base.errors import WrongUse
from ..rm import managers

PLAN, SETTINGS = "plan.csv", "run.json"
LARGEST = 4 << 30  # bytes of a plan
BLOCK = 1 << 20


def ensure_present(parameters: Mapping[str, Any], check_mode: bool) -> bool:
    """Create the folder with its files; returns whether anything changed. Raises WrongUse."""
    directory, relative = Path(parameters["instance"]), f"runs/{parameters['run']}"
    if check_mode and user_folders.status(directory, relative) is None:
        return True
    changed = not check_mode and user_folders.make_folder(directory, relative, 0o755, owner_of(parameters["user"]))
    with user_folders.open_folder(directory, relative) as folder:
        return write(folder, parameters, check_mode) or changed


def ensure_absent(parameters: Mapping[str, Any], check_mode: bool) -> bool:
    """Remove the folder and the further ones; returns whether one was there. Raises WrongUse."""
    directory = Path(parameters["instance"])
    if not directory.is_dir():
        return False
    paths = [f"runs/{parameters['run']}", *parameters["folders"]]
    existing = [path for path in paths if user_folders.status(directory, path) is not None]
    if not check_mode:
        for path in existing:
            user_folders.remove(directory, path)
    return bool(existing)


def write(folder: user_folders.Folder, parameters: Mapping[str, Any], check_mode: bool) -> bool:
    """Write the plan and the settings into the run's folder; returns whether they differed. Raises WrongUse."""
    changed = False
    if parameters["plan"] is not None:
        earlier = digest_of(folder, PLAN)
        if earlier not in (None, parameters["plan_sha256"]):
            raise WrongUse(
                f"{folder.path} on the head belongs to a run with other inputs; remove the folder, or choose another RUN",
                parameter="run",
                value=parameters["run"],
            )
        if earlier is None:
            changed = True
            if not check_mode:
                folder.write_atomically(PLAN, Path(parameters["plan"]).read_bytes())
    if parameters["settings"] is not None:
        content = settings_text(parameters["settings"], Path(parameters["instance"]), parameters["rm"]).encode()
        if not folder.is_file(SETTINGS) or folder.read_bytes(SETTINGS, user_folders.SMALL) != content:
            changed = True
            if not check_mode:
                folder.write_atomically(SETTINGS, content)
    return changed


def settings_text(given: str, instance: Path, manager: str | None) -> str:
    """The content of run.json: the settings `given`, with those that a manager and extras need besides. Raises WrongUse."""
    if manager is not None:
        settings = {**json.loads(given), **managers.manager(manager).run_settings(instance)}
        for of in extras.offers("kinds", "run_settings"):
            settings |= of(instance, settings.get("kind", ""))
        given = json.dumps(settings, indent=4, sort_keys=True)
    return f"{given.rstrip()}\n"


def digest_of(folder: user_folders.Folder, name: str) -> str | None:
    """SHA-256 of a file, or of the first LARGEST bytes of a larger one; None if there is none. Raises WrongUse."""
    try:
        descriptor = folder.open(name)
    except FileNotFoundError:
        return None
    digest, left = hashlib.sha256(), LARGEST
    with os.fdopen(descriptor, "rb") as stream:
        while left > 0 and (block := stream.read(BLOCK)):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def owner_of(user: str) -> tuple[int, int] | None:
    """User and group id of an account; None if this process does not run as root. Raises WrongUse."""
    try:
        account = pwd.getpwnam(user)
    except KeyError as error:
        raise WrongUse(f"user: there is no account {user}") from error
    return (account.pw_uid, account.pw_gid) if os.geteuid() == 0 else None
