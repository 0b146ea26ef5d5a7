"""The files and commands with which `make compare` tries the settings that a run's waits point to."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirage import ROOT
from mirage.knobs.knobs import text_of
from mirage.knobs.table import COMPARISON, TABLE
from mirage.records.file_names import EXPERIMENT_FILE
from mirage.records.run_folder import RunFolder
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
        raise WrongUse(f"results/{run.name}/{EXPERIMENT_FILE} does not say the knobs of the run", parameter="run")
    config = knobs["CONFIG"]
    others = [
        f"{knob.name}={shlex.quote(value)}"
        for knob in TABLE
        if "compare" in knob.targets
        and knob.group != COMPARISON
        and knob.name not in _OWN
        and (value := knobs.get(knob.name, "")) not in ("", knob.default, text_of(knob.parse(knob.default)))
    ]
    if trial.event:
        before = knobs.get("EVENTS", "")
        path = run.path / f"why-{trial.name}.csv"
        first = Path(before).read_text().rstrip() if before else "instant,action,target,argument"
        write_atomically(path, f"{first}\n{trial.event}\n".encode())
        others = [word for word in others if not word.startswith("EVENTS=")]
        words = [f"CONFIG={config}", f'EVENTS="{before or "none"} results/{run.name}/{path.name}"']
    else:
        name = f"why-{trial.name}"
        write_atomically(ROOT / f"configs/{name}.yml", _changed(run, config, trial.parameters).encode())
        words = [f'CONFIGS="{config} {name}"']
    return " ".join(["make compare", *words, *others])


def _changed(run: RunFolder, config: str, changes: Mapping[str, Any]) -> str:
    """The content of a configuration with other words of SchedulerParameters."""
    import yaml

    from mirage.knobs import yaml_input

    path = ROOT / f"configs/{config}.yml"
    if not path.is_file():
        raise WrongUse(f"results/{run.name} had the configuration {config}, and configs/{config}.yml is not there", parameter="run")
    content = dict(yaml_input.load(path, "config"))
    settings = dict(content.get("settings") or {})
    given = settings.get("SchedulerParameters")
    if given is None and config == SITE:
        in_force = re.search(r"(?m)^SchedulerParameters\s*=\s*(\S+=\S*|\w+\S*)$", run.configuration)
        given = None if in_force is None or in_force[1] == "(null)" else in_force[1]
    if isinstance(given, str):
        given = {name: value or True for name, _, value in (word.partition("=") for word in given.split(",") if word)}
    settings["SchedulerParameters"] = {**(given or {}), **changes}
    heading = f"---\n# {config} with another {', '.join(changes)} (make why).\n"
    text: str = yaml.safe_dump({**content, "settings": settings}, sort_keys=False)
    return heading + text
