"""The files and commands with which `make compare` tries the settings that a run's waits point to."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mirage import ROOT
from mirage.cluster_events.user_file import LARGEST
from mirage.experiment import run_events
from mirage.experiment.report import name_of
from mirage.knobs.knobs import text_of
from mirage.knobs.parse import is_config_name
from mirage.knobs.table import COMPARISON, TABLE
from mirage.records.file_names import EXPERIMENT_FILE
from mirage.records.run_folder import RunFolder
from mirage.text.input_file import read_input
from mirage.verdict.wait_settings import Trial
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_atomically

SITE = "site"
_OWN = ("RUN", "CONFIG", "CLUSTER", "INVENTORY", "TAU", "W2")
"""Knobs that the command has in another form, or that the comparison chooses anew."""


def command(run: RunFolder, trial: Trial) -> str:
    """The command that tries a setting on the jobs of a run. The file that it needs is written: configs/why-NAME.yml, or a file of
    events in the run's folder. Raises WrongUse for a run whose knobs or configuration are not there."""
    knobs: Mapping[str, str] | None = run.experiment.get("knobs")
    if not knobs:
        raise WrongUse(f"results/{name_of(run.path)}/{EXPERIMENT_FILE} does not say the knobs of the run", parameter="run")
    config = knobs.get("CONFIG", "")
    if not is_config_name(config):
        raise WrongUse(f"results/{name_of(run.path)}/{EXPERIMENT_FILE}: CONFIG of knobs is no name of a configuration", "run")
    left_out = {*_OWN, *(("EVENTS",) if trial.event else ())}
    # The machine is that of SLURM_CONF, or of CLASSES.
    left_out |= {"NODES", "CPUS", "CLASSES"} if knobs.get("SLURM_CONF") else {"NODES", "CPUS"} if knobs.get("CLASSES") else set()
    others = [
        f"{knob.name}={_word(value)}"
        for knob in TABLE
        if "compare" in knob.targets
        and knob.group != COMPARISON
        and knob.name not in left_out
        and (value := knobs.get(knob.name, "")) not in ("", knob.default, text_of(knob.parse(knob.default)))
    ]
    if trial.event:
        before = knobs.get("EVENTS", "")
        path = run.path / f"why-{trial.name}.csv"
        lines = _events(run, before) if before else ["instant,action,target,argument"]
        # Those that set the same limit would take it back.
        limit = trial.event.partition(",")[2].rpartition("=")[0]
        write_atomically(
            path, "".join(f"{line}\n" for line in [*lines, trial.event] if line is trial.event or f",{limit}=" not in line)
        )
        files = f"{before or 'none'} results/{name_of(run.path)}/{path.name}"
        words = [f"CONFIG={_word(config)}", f"EVENTS={_word(files)}"]
    else:
        name = f"why-{trial.name}"
        write_atomically(ROOT / f"configs/{name}.yml", _changed(run, config, trial.parameters).encode())
        words = [f"CONFIGS={_word(f'{config} {name}')}"]
    return " ".join(["make compare", *words, *others])


def _events(run: RunFolder, path: str) -> list[str]:
    """The lines of the file of a run's events, which experiment.json names: only if it has the checksum that is there.

    Raises WrongUse, which says nothing of another file.
    """
    with suppress(WrongUse):
        if run_events.digest_of(path) == run.experiment.get("inputs", {}).get("EVENTS"):
            return read_input(path, "events", LARGEST).decode("utf-8-sig").rstrip("\n").split("\n")
    why = "the file of its events was changed or is gone; put it back where the run had it"
    raise WrongUse(f"results/{name_of(run.path)}: {why}", parameter="run")


def _word(text: str) -> str:
    """A value as a user gives it to make in a shell, which runs nothing of it; in double quotes if that makes no difference. make
    does not expand it (Makefile)."""
    return f'"{text}"' if re.fullmatch(r"[\w.,:/=+@%-]+( [\w.,:/=+@%-]+)+", text, re.ASCII) else shlex.quote(text)


def _changed(run: RunFolder, config: str, changes: Mapping[str, Any]) -> str:
    """The content of a configuration with other words of SchedulerParameters."""
    import yaml

    from mirage.text import yaml_input

    path = ROOT / f"configs/{config}.yml"
    if not path.is_file():
        raise WrongUse(
            f"results/{name_of(run.path)} had the configuration {config}, and configs/{config}.yml is not there", parameter="run"
        )
    content = dict(yaml_input.load(path, "config"))
    settings = dict(content.get("settings") or {})
    given = settings.get("SchedulerParameters")
    if given is None and config == SITE:
        in_force = re.search(r"(?m)^SchedulerParameters\s*=\s*(\S+=\S*|\w+\S*)$", run.configuration)
        given = None if in_force is None or in_force[1] == "(null)" else in_force[1]
    if isinstance(given, str):
        words = (word.partition("=") for word in given.split(",") if word)
        given = {name: (int(value) if value.isdigit() else value) if sign else True for name, sign, value in words}
    settings["SchedulerParameters"] = {**(given or {}), **changes}
    heading = f"---\n# {config} with another {', '.join(changes)} (make why).\n"
    text: str = yaml.safe_dump({**content, "settings": settings}, sort_keys=False)
    return heading + text
