"""The files and commands with which `make compare` tries the settings that a run's waits point to."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from mirage import ROOT
from mirage.cluster_events import user_file
from mirage.cluster_events.planned import number_word
from mirage.experiment.report import name_of
from mirage.knobs.knob import COMPARISON
from mirage.knobs.knobs import text_of
from mirage.knobs.parse import is_config_name
from mirage.knobs.table import TABLE
from mirage.records.file_names import EVENTS_FILE, EXPERIMENT_FILE
from mirage.records.run_folder import RunFolder
from mirage.text import output_file
from mirage.verdict.wait_settings import Trial
from slurm_mirage.base import csv_text
from slurm_mirage.base.errors import WrongUse

SITE = "site"
_OWN = ("RUN", "CONFIG", "CLUSTER", "INVENTORY", "TAU", "W2")
"""Knobs that the command has in another form, or that the comparison chooses anew."""


def command(run: RunFolder, trial: Trial) -> str:
    """The command that tries a setting on the jobs of a run. The file that it needs is written: configs/why-NAME.yml, or a file of
    events in the run's folder. If it cannot be, a sentence that says so. Raises WrongUse for a run whose knobs or configuration are
    not there."""
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
        path, content = run.path / f"why-{trial.name}.csv", _with_event(run, trial.event)
        files = f"{knobs.get('EVENTS') or 'none'} results/{name_of(run.path)}/{path.name}"
        words = [f"CONFIG={_word(config)}", f"EVENTS={_word(files)}"]
    else:
        path, content = ROOT / f"configs/why-{trial.name}.yml", _changed(run, config, trial.parameters)
        words = [f"CONFIGS={_word(f'{config} {path.stem}')}"]
    try:
        output_file.write(path, content)
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}"
    return " ".join(["make compare", *words, *others])


def _with_event(run: RunFolder, event: str) -> str:
    """A file of the user's events of a run and another one, without those that set the same limit, which would take it back."""
    limit = event.partition(",")[2].rpartition("=")[0]
    own = user_file.read(str(run.path / EVENTS_FILE)).lines if run.has(EVENTS_FILE) else []
    rows = [(number_word(line.instant), line.action, line.target, line.argument) for line in own if not line.generated_by]
    kept = [row for row in rows if not ",".join(row[1:]).startswith(f"{limit}=")]
    return f"{csv_text.text([user_file.HEADING, *kept])}{event}\n"


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
