"""`make report`: report.html of a run, a sweep or a comparison, from the files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirage import ROOT
from mirage.experiment import runs
from mirage.experiment.endings import Ending
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_atomically

NAME = "report.html"


def report(values: Mapping[str, Any], screen: Screen) -> Ending:
    """Make the page of results/RUN anew."""
    folder = folder_of(values)
    return Ending("ok", f"{_made(folder)}, results/{folder.name}/{NAME}")


def folder_of(values: Mapping[str, Any]) -> Path:
    """results/RUN. Raises WrongUse where nothing is."""
    if not values["RUN"]:
        raise WrongUse("RUN: nothing is given; it may be the name of a folder of results/ with a finished run, sweep or comparison")
    folder = runs.RESULTS / str(values["RUN"])
    if not folder.is_dir():
        raise WrongUse(f"RUN: results/{folder.name} is not there; it may be a folder with a finished run, sweep or comparison")
    return folder


def write(folder: Path, screen: Screen) -> None:
    """Make the page at the end of a run, a sweep or a comparison, and say where it is.

    The results are there whatever comes of it: a page that cannot be made is told, and is no failure of the run.
    """
    try:
        _made(folder)
    except Exception as error:
        told = str(error) if isinstance(error, WrongUse) else f"{type(error).__name__}: {error}"
        screen.say(f"{NAME} could not be made: {told}")
        screen.say(f"make report RUN={folder.name} tries it again")
    else:
        _say(folder, screen)


def show(folder: Path, screen: Screen) -> None:
    """Say where the page of a finished run is; one of an earlier release, or that was killed just before, gets it now."""
    if (folder / NAME).exists():
        _say(folder, screen)
    else:
        write(folder, screen)


def _say(folder: Path, screen: Screen) -> None:
    shown = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    screen.say(f"report: {shown / NAME}")


def _made(folder: Path) -> str:
    """Write the pages; what they are about."""
    told, found = pages(folder)
    for path, text in found.items():
        write_atomically(path, text)
    return told


def pages(folder: Path) -> tuple[str, dict[Path, str]]:
    """What the folder is about, and its page and those of its runs, by the files that they belong into."""
    if (folder / "comparison.json").is_file():
        return _comparison(folder)
    if (folder / "sweep.csv").is_file():
        return _sweep(folder)
    return _run(folder)


def _run(folder: Path) -> tuple[str, dict[Path, str]]:
    from mirage.reports.run_data import Run
    from mirage.reports.run_page import page

    run = Run.of(folder)
    return f"{run.metrics['jobs']['submitted']} jobs of {folder.name}", {folder / NAME: page(run)}


def _comparison(folder: Path) -> tuple[str, dict[Path, str]]:
    """The page of a comparison, and those of its runs."""
    from mirage.reports.comparison_page import page
    from mirage.reports.run_data import Run
    from mirage.reports.run_page import page as page_of_run

    content = read_json(folder / "comparison.json")
    names = [name for one in content["configurations"] for name in one["runs"]]
    found = {name: Run.of(folder / name) for name in names}
    of_runs = {folder / name / NAME: page_of_run(run) for name, run in found.items()}
    own = page(folder.name, content, read_json(folder / "experiment.json") or {}, found)
    return f"comparison of {', '.join(one['label'] for one in content['configurations'])}", {**of_runs, folder / NAME: own}


def _sweep(folder: Path) -> tuple[str, dict[Path, str]]:
    """The page of a sweep, and those of its runs that are there."""
    from mirage.reports.sweep_page import lines_of, page

    there = [run for line in lines_of(folder) if ((run := folder.parent / line["run"]) / "metrics.json").is_file()]
    of_runs = {path: text for run in there for path, text in _run(run)[1].items()}
    return f"sweep {folder.name}", {**of_runs, folder / NAME: page(folder)}
