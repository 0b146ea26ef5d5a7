"""Runs a target: the program behind the targets of the Makefile.

The last line begins with `ok:`, `invalid:`, `failed:` or `wrong use:`, and the exit code is 0, 1, 1 or 2.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from mirage import PROGRAM
from mirage.commands.logs import LOGS
from mirage.experiment.endings import Ending, Failed, Interrupted
from mirage.knobs import resolve
from mirage.knobs.knobs import Knobs
from mirage.knobs.table import BY_NAME
from mirage.terminal.screen import Screen
from slurm_mirage.base.disk import out_of_space
from slurm_mirage.base.errors import WrongUse

Command = Callable[[Knobs, Screen], Ending]
# Module of mirage.commands and its function for each target. Modules are imported when they are called, because some load polars,
# which takes longer than the other targets.
TARGETS = {
    "cluster": ("cluster", "cluster"),
    "experiment": ("experiment", "experiment"),
    "compare": ("compare", "compare"),
    "study-scms": ("studies", "study_scms"),
    "study-suspend": ("studies", "study_suspend"),
    "study-malleable": ("study_malleable", "study_malleable"),
    "study-malleable-share": ("study_malleable", "study_malleable_share"),
    "study-filler": ("study_filler", "study_filler"),
    "report": ("report", "report"),
    "check": ("check", "check"),
    "metrics": ("metrics", "metrics"),
    "workload": ("workload", "workload"),
    "workload-report": ("workload_report", "workload_report"),
    "simulate": ("simulate", "simulate"),
    "figure-load": ("figure_load", "figure_load"),
    "status": ("status", "status"),
    "watch": ("watch", "watch"),
    "shell": ("shell", "shell"),
    "teardown": ("teardown", "teardown"),
    "provision": ("provision", "provision"),
    "deprovision": ("deprovision", "deprovision"),
}
STUDY = "study-"
"""Begin of the targets that `make study` runs by the name in STUDY."""
# Targets for which the inventory may have no host.
WITHOUT_HOSTS = ("provision", "deprovision")
# Targets that use one cluster of an inventory.
OF_ONE_CLUSTER = ("cluster", "status", "watch", "shell")


def command(target: str) -> Command:
    """The function of a target."""
    module, function = TARGETS[target]
    found: Command = getattr(importlib.import_module(f"mirage.commands.{module}"), function)
    return found


def as_given(target: str) -> str:
    """The target as it is given to make: study STUDY=scms for study-scms."""
    return f"study STUDY={target.removeprefix(STUDY)}" if target.startswith(STUDY) else target


def run(arguments: Sequence[str], screen: Screen) -> Ending:
    """Run a target and return how it ended. Everything that can be checked is checked before anything is written."""
    try:
        if len(arguments) == 1 and arguments[0].startswith(STUDY) and arguments[0] not in TARGETS:
            names = ", ".join(target.removeprefix(STUDY) for target in TARGETS if target.startswith(STUDY))
            raise WrongUse(f"STUDY: {arguments[0].removeprefix(STUDY) or 'none'}; it may be one of: {names}")
        if len(arguments) != 1 or arguments[0] not in TARGETS:
            raise WrongUse(f"target: {' '.join(arguments) or 'none'}; it may be one of: {', '.join(TARGETS)}")
        target = arguments[0]
        knobs = resolve.resolve(os.environ, target)
        inventory = BY_NAME["INVENTORY"]
        if knobs.cluster.inventory != inventory.default and target in inventory.targets and target not in WITHOUT_HOSTS:
            from mirage.experiment.hosts import of_one_cluster, with_inventory

            knobs = with_inventory(knobs, os.environ)
            if target in OF_ONE_CLUSTER:
                of_one_cluster(knobs.cluster, f"make {target}")
        for name in resolve.unused(target, os.environ):
            screen.say(f"note: {PROGRAM} {as_given(target)} ignores {name}")
        return command(target)(knobs, screen)
    except WrongUse as error:
        return Ending("wrong use", resolve.user_message(error))
    except Failed as error:
        return Ending("failed", str(error))
    except (Interrupted, KeyboardInterrupt):
        return Ending("failed", "interrupted; the same command goes on")
    except Exception as error:
        if (message := out_of_space(error, [LOGS.parent, Path(tempfile.gettempdir())])) is not None:
            return Ending("failed", f"{message}, then the same command goes on")
        return _mistake(error)


def _mistake(error: Exception) -> Ending:
    """The ending after an error in this program: the user gets one line, and the stack trace goes to a file."""
    words = textwrap.shorten(f"{type(error).__name__}: {error}", 200, placeholder=" ...")
    path = LOGS / "error.log"
    try:
        LOGS.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(traceback.format_exception(error)))
    except OSError as unwritten:
        return Ending("failed", f"{words} (our mistake; {path} cannot be written: {unwritten.strerror})")
    return Ending("failed", f"{words} (our mistake; details: {path})")


def main(arguments: Sequence[str]) -> int:
    """Run a target, print its last line, and return the exit code."""
    screen = Screen()
    ending = run(arguments, screen)
    screen.say(ending.line)
    return ending.code
