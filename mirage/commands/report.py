"""`make report`: report.html of a finished run, sweep or comparison once more, from the files beside it."""

from __future__ import annotations

from mirage.experiment import report as pages
from mirage.experiment.endings import Ending
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen


def report(knobs: Knobs, screen: Screen) -> Ending:
    """Make the report of results/RUN again."""
    folder = pages.folder_of(knobs.output.run)
    return Ending("ok", f"{pages.make(folder)}, results/{pages.name_of(folder)}/{pages.NAME}")
