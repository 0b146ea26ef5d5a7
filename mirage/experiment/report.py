"""report.html of a run, a sweep, a comparison or a search, made from the files beside it."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

from mirage import ROOT
from mirage.experiment import runs
from mirage.experiment.endings import Ending
from mirage.knobs.resolve import user_message
from mirage.records.file_names import COMPARISON_FILE, METRICS_FILE, PREDICTION_FILE, SEARCH_FILE, SWEEP_FILE
from mirage.records.run_folder import RunFolder
from mirage.terminal.screen import Screen
from mirage.text import output_file
from slurm_mirage.base.errors import WrongUse

NAME = "report.html"
_drawing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pages")
"""One thread that draws all pictures, one page at a time, in the order in which runs side by side end."""


def folder_of(run: str | None) -> Path:
    """The folder results/RUN. Raises WrongUse if RUN is not given or the folder does not exist."""
    if not run:
        raise WrongUse(
            "nothing is given; it may be the name of a folder of results/ with a finished run, sweep or comparison", parameter="run"
        )
    folder = runs.RESULTS / run
    if not folder.is_dir():
        raise WrongUse(f"results/{run} is not there; it may be a folder with a finished run, sweep or comparison", parameter="run")
    return folder


def name_of(folder: Path) -> str:
    """RUN of a folder of results/: its name, or cmp/fifo-1 for a run of the comparison cmp."""
    return str(folder.relative_to(runs.RESULTS)) if folder.is_relative_to(runs.RESULTS) else folder.name


def prepare() -> None:
    """Load what draws the pages, which takes a second or two, while something else goes on."""
    _drawing.submit(_load)


@cache
def _load() -> None:
    from mirage.reports import pictures, run_page  # noqa: F401

    pictures.warm_up()


def write_meanwhile(folder: Path) -> None:
    """Make the page of one run of a comparison or a sweep while the next run begins. `write` for all makes it if this fails."""
    _drawing.submit(_make_in_background, folder)


def _make_in_background(folder: Path) -> None:
    with suppress(Exception):
        make(folder)


def write(folder: Path, screen: Screen) -> None:
    """Make the page at the end of a run, a sweep or a comparison, and print its path.

    A page that cannot be made is reported. It is not a failure of the run, whose results are complete.
    """
    try:
        _drawing.submit(make, folder, again=False).result()
    except Exception as error:
        reason = user_message(error) if isinstance(error, WrongUse) else f"{type(error).__name__}: {error}"
        screen.say(f"{NAME} could not be made: {reason}")
        screen.say(f"make report RUN={folder.name} tries it again")
    else:
        _say(folder, screen)


def show(folder: Path, screen: Screen) -> None:
    """Print the path of a finished run's page. The page is made if it is missing."""
    if (folder / NAME).exists():
        _say(folder, screen)
    else:
        write(folder, screen)


def _say(folder: Path, screen: Screen) -> None:
    shown = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    screen.say(f"report: {shown / NAME}")


def make(folder: Path, *, again: bool = True) -> str:
    """Write the pages of a run, a sweep or a comparison. Returns what they describe: `100 jobs of kth`.

    again: also those of its runs that exist
    """
    description, texts = pages(folder, again=again)
    for path, text in texts.items():
        output_file.write(path, text)
    return description


def pages(folder: Path, *, again: bool = True) -> tuple[str, dict[Path, str]]:
    """Describe the folder, and make its page and those of its runs. Returns the description and the pages by path.

    again: also those of its runs that exist
    """
    if (folder / COMPARISON_FILE).is_file():
        return _comparison(folder, again)
    if (folder / SWEEP_FILE).is_file():
        return _sweep(folder, again)
    if (folder / SEARCH_FILE).is_file():
        return _search(folder, again)
    if (folder / PREDICTION_FILE).is_file():
        return _prediction(folder, again)
    return _run(folder)


def _run(folder: Path) -> tuple[str, dict[Path, str]]:
    from mirage.reports.run_data import Run
    from mirage.reports.run_page import page

    run = Run.of(RunFolder(folder))
    return f"{run.metrics['jobs']['submitted']} jobs of {folder.name}", {folder / NAME: page(run)}


def _of_runs(folders: Iterable[Path], again: bool) -> dict[Path, str]:
    """The pages of runs, by path. again: also those that exist"""
    return {path: text for run in folders if again or not (run / NAME).exists() for path, text in _run(run)[1].items()}


def _comparison(folder: Path, again: bool) -> tuple[str, dict[Path, str]]:
    """Description and pages of a comparison and its runs."""
    from mirage.reports.comparison_page import page
    from mirage.reports.run_data import Run
    from mirage.reports.run_page import page as page_of_run

    content = RunFolder(folder).comparison
    names = [name for one in content["configurations"] for name in one["runs"]]
    finished = {name: Run.of(RunFolder(folder / name)) for name in names}
    paths = {folder / name / NAME: run for name, run in finished.items()}
    of_runs = {path: page_of_run(run) for path, run in paths.items() if again or not path.exists()}
    own = page(folder.name, content, RunFolder(folder).experiment, finished)
    return f"comparison of {', '.join(one['label'] for one in content['configurations'])}", {**of_runs, folder / NAME: own}


def _search(folder: Path, again: bool) -> tuple[str, dict[Path, str]]:
    """Description and pages of a search and of those of its trials that have results."""
    from mirage.reports.search_page import page

    search, ending = RunFolder(folder), Ending.load(folder) or Ending("failed", "the search has not ended")
    measured = [run for one in search.search["trials"] if ((run := folder / one["run"]) / METRICS_FILE).is_file()]
    of_runs = _of_runs(measured, again)
    return f"search {folder.name}", {**of_runs, folder / NAME: page(search, ending.message, ending.word == "ok")}


def _sweep(folder: Path, again: bool) -> tuple[str, dict[Path, str]]:
    """Description and pages of a sweep and of those of its runs that have results."""
    from mirage.records.sweep_lines import lines_of
    from mirage.reports.sweep_page import page

    measured = [run for line in lines_of(folder) if ((run := folder.parent / line["run"]) / METRICS_FILE).is_file()]
    of_runs = _of_runs(measured, again)
    return f"sweep {folder.name}", {**of_runs, folder / NAME: page(folder)}


def _prediction(folder: Path, again: bool) -> tuple[str, dict[Path, str]]:
    """Description and pages of a prediction and of its runs."""
    from mirage.reports.prediction_page import page

    courses = [folder.parent / name for name in RunFolder(folder).prediction["courses"]]
    of_runs = _of_runs(courses, again)
    return f"prediction {folder.name}", {**of_runs, folder / NAME: page(folder)}
