"""Runs a target: the program behind the targets of the Makefile.

The last line begins with a word of `endings.CODES`: `ok:`, `invalid:`, `inconclusive:`, `failed:` or `wrong use:`, and the exit
code is 0, 1, 1, 1 or 2. Only make shell has none: it becomes the shell.
"""

from __future__ import annotations

import importlib
import os
import pwd
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mirage import PROGRAM
from mirage.aspects import offers
from mirage.commands.logs import LOGS
from mirage.experiment.endings import Ending, Failed, Interrupted
from mirage.knobs import resolve, run_file
from mirage.knobs.knobs import Knobs
from mirage.knobs.resolve import STUDY, STUDY_TARGET
from mirage.knobs.table import BY_NAME
from mirage.terminal.screen import Screen
from mirage.text import output_file
from slurm_mirage.base.disk import out_of_space
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.printing import log_text, one_line

Command = Callable[[Knobs, Screen], Ending]
# Module and function of each target. Modules are imported when they are called, because some load polars, which takes longer than
# the other targets.
TARGETS = {
    "cluster": ("mirage.commands.cluster", "cluster"),
    "experiment": ("mirage.commands.experiment", "experiment"),
    "compare": ("mirage.commands.compare", "compare"),
    "gate": ("mirage.commands.gate", "gate"),
    "search": ("mirage.commands.search", "search"),
    "predict": ("mirage.commands.predict", "predict"),
    "report": ("mirage.commands.report", "report"),
    "check": ("mirage.commands.check", "check"),
    "why": ("mirage.commands.why", "why"),
    "diff": ("mirage.commands.diff", "diff"),
    "metrics": ("mirage.commands.metrics", "metrics"),
    "workload": ("mirage.commands.workload", "workload"),
    "workload-report": ("mirage.commands.workload_report", "workload_report"),
    "simulate": ("mirage.commands.simulate", "simulate"),
    "figure-load": ("mirage.commands.figure_load", "figure_load"),
    "status": ("mirage.commands.status", "status"),
    "watch": ("mirage.commands.watch", "watch"),
    "shell": ("mirage.commands.shell", "shell"),
    "capture": ("mirage.commands.capture", "capture"),
    "example-site": ("mirage.commands.example_site", "example_site"),
    "teardown": ("mirage.commands.teardown", "teardown"),
    "provision": ("mirage.commands.provision", "provision"),
    "deprovision": ("mirage.commands.deprovision", "deprovision"),
    **{target: place for of_aspect in offers("targets", "TARGETS") for target, place in of_aspect.items()},
}
# Targets for which the inventory may have no host.
WITHOUT_HOSTS = ("provision", "deprovision")
# Targets that use one cluster of an inventory.
OF_ONE_CLUSTER = ("cluster", "status", "watch", "shell", "capture")


Targets = Mapping[str, tuple[str, str]]


def command(target: str, targets: Targets = TARGETS) -> Command:
    """The function of a target."""
    module, function = targets[target]
    target_function: Command = getattr(importlib.import_module(module), function)
    return target_function


def as_given(target: str) -> str:
    """The words that make is given for a target: study STUDY=scms for study-scms."""
    return f"study {STUDY}={target.removeprefix(STUDY_TARGET)}" if target.startswith(STUDY_TARGET) else target


def run(arguments: Sequence[str], screen: Screen, targets: Targets = TARGETS) -> Ending:
    """Run one of the targets and return how it ended. Everything that can be checked is checked before anything is written."""
    try:
        if len(arguments) != 1 or arguments[0] not in targets:
            raise WrongUse(f"target: {' '.join(arguments) or 'none'}; it may be one of: {', '.join(targets)}")
        target = arguments[0]
        run_file.apply(os.environ, target)
        knobs = resolve.resolve(os.environ, target)
        if target in run_file.WRITTEN_FOR:
            knobs = replace(knobs, texts=run_file.to_write(os.environ, knobs, target))
        inventory = BY_NAME["INVENTORY"]
        if knobs.cluster.inventory != inventory.default and target in inventory.targets and target not in WITHOUT_HOSTS:
            from mirage.experiment.hosts import of_one_cluster, with_inventory

            knobs = with_inventory(knobs, os.environ)
            if target in OF_ONE_CLUSTER:
                of_one_cluster(knobs.cluster, f"make {target}")
        for names in resolve.unused(target, os.environ):
            screen.say(f"note: {PROGRAM} {as_given(target)} ignores {names}")
        return command(target, targets)(knobs, screen)
    except WrongUse as error:
        return Ending("wrong use", resolve.user_message(error))
    except Failed as error:
        return Ending("failed", str(error))
    except (Interrupted, KeyboardInterrupt):
        return Ending("failed", "interrupted; the same command goes on")
    except Exception as error:
        if (message := out_of_space(error, [LOGS.parent, Path(tempfile.gettempdir())])) is not None:
            return Ending("failed", f"{message}, then the same command goes on")
        if isinstance(error, PermissionError) and isinstance(error.filename, str):
            return Ending("failed", _denied(Path(error.filename), error))
        return _mistake(error)


def _denied(path: Path, error: PermissionError) -> str:
    """The message for a file or folder that the caller may not use: it names the owner of what is there."""
    there = next(each for each in (path, *path.absolute().parents) if os.path.lexists(each))
    try:
        owner = pwd.getpwuid(there.lstat().st_uid).pw_name
    except (KeyError, OSError):
        return f"{path}: {error.strerror}"
    return f"{path}: {error.strerror}; {there} belongs to {owner}"


def _mistake(error: Exception) -> Ending:
    """The ending after an error in this program: the user gets one line, and the stack trace goes to a file."""
    words = one_line(" ".join(f"{type(error).__name__}: {error}".split()), 200)
    path = LOGS / "error.log"
    try:
        output_file.make_folder(LOGS)
        output_file.write(path, log_text("".join(traceback.format_exception(error))))
    except OSError as unwritten:
        return Ending("failed", f"{words} (our mistake; {path} cannot be written: {unwritten.strerror})")
    return Ending("failed", f"{words} (our mistake; details: {path})")


def main(arguments: Sequence[str], targets: Targets = TARGETS) -> int:
    """Run one of the targets, print its last line, and return the exit code."""
    screen = Screen()
    ending = run(arguments, screen, targets)
    screen.say(ending.line)
    return ending.code
