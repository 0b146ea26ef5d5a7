"""`make check`: every file of a finished run, sweep or comparison computed again from the records beside it, and compared.

Nothing of it is written: what is found is told.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mirage.experiment import report, sweep
from mirage.experiment.campaign import computed, members_of
from mirage.experiment.endings import Ending
from mirage.knobs.parse import Value
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json

# Numbers of an earlier release may have been added up in another order, or of unrounded times.
_EQUAL = 1e-6
_SHOWN = 3


def check(values: Mapping[str, Value], screen: Screen) -> Ending:
    """Compute it again; failed where a file says something else."""
    folder = report.folder_of(values)
    count, different = 0, []
    for path, differences in _files(folder):
        count += 1
        name = path.relative_to(folder.parent)
        screen.say(f"{name}: {'as computed' if not differences else '; '.join(differences[:_SHOWN])}")
        if differences:
            more = len(differences) - _SHOWN
            if more > 0:
                screen.say(f"{name}: and {more} more")
            different.append(str(name))
    if different:
        told = f"{len(different)} of {count} files differ from what is computed of the records beside them: {', '.join(different)}"
        return Ending("failed", f"{told}. An earlier release may have made them")
    return Ending("ok", f"{count} files of results/{folder.name} are what is computed of the records beside them")


def _files(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each file that is computed from others, and in what it differs from what they say."""
    if (folder / "comparison.json").is_file():
        content = read_json(folder / "experiment.json")
        members = members_of(content)
        for one in members:
            yield from _of_run(folder / one.folder)
        found = json.loads(json.dumps(computed(folder, members, int(content["inputs"]["SEED"]))))
        yield folder / "comparison.json", list(_differences(read_json(folder / "comparison.json"), found))
    elif (folder / "sweep.csv").is_file():
        runs = sweep.runs_of(folder)
        for _, run, _ in runs:
            if (run / "metrics.json").is_file():
                yield from _of_run(run)
        yield folder / "sweep.csv", _same(folder / "sweep.csv", sweep.content(runs).encode())
    else:
        yield from _of_run(folder)
    for path, text in report.pages(folder)[1].items():
        yield path, _same(path, text.encode())


def _of_run(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """What the run's own records tell: those of the replay, of Slurm and of sigsleep."""
    from mirage.records.run_results import results  # polars: not for targets that need it not

    metrics = read_json(folder / "metrics.json")
    if metrics is None:
        raise WrongUse(f"{folder.name} is no finished run (metrics.json is not there)", parameter="run")
    settings, thresholds = metrics["settings"], metrics["validity"].get("thresholds", {})
    found = results(folder, settings["processors"], settings["nodes"], settings["tau"], thresholds)
    for name, content in found.files.items():
        path = folder / name
        yield path, list(_differences(metrics, found.metrics)) if name == "metrics.json" else _same(path, content)


def _same(path: Path, content: bytes) -> list[str]:
    if not path.is_file():
        return ["is not there"]
    return [] if path.read_bytes() == content else ["is another one than what is computed"]


def _differences(said: Any, found: Any, where: str = "") -> Iterator[str]:
    """In which members what a JSON file says is not what was found. Those that it does not have are of a later release."""
    if isinstance(said, dict) and isinstance(found, dict):
        for name, value in said.items():
            yield from _differences(value, found.get(name), f"{where}.{name}" if where else name)
    elif isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
        for place, (value, other) in enumerate(zip(said, found, strict=True)):
            yield from _differences(value, other, f"{where}[{place}]")
    elif not _equal(said, found):
        yield f"{where} is {_short(said)}, computed {_short(found)}"


def _equal(said: Any, found: Any) -> bool:
    if isinstance(said, (int, float)) and isinstance(found, (int, float)):
        return math.isclose(said, found, rel_tol=_EQUAL, abs_tol=_EQUAL)
    return bool(said == found)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
