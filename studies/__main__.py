"""`make study STUDY=NAME` runs `python -m studies NAME`: a published comparison (studies/README.md)."""

from __future__ import annotations

import sys

from mirage import aspects
from mirage.commands import main as targets
from mirage.experiment.endings import Ending
from mirage.knobs.resolve import STUDY_TARGET
from mirage.terminal.screen import Screen

STUDIES = {
    "scms": ("studies.comparisons", "study_scms"),
    "suspend": ("studies.comparisons", "study_suspend"),
    "cirrus": ("studies.cirrus", "study_cirrus"),
    "site": ("studies.site", "study_site"),
    **{name: place for of_aspect in aspects.offers("studies", "STUDIES") for name, place in of_aspect.items()},
}
"""Module and function of each study."""


def main(arguments: list[str]) -> int:
    """Run a study, print its last line, and return the exit code."""
    name = " ".join(arguments)
    if name in STUDIES:
        return targets.main([STUDY_TARGET + name], {STUDY_TARGET + one: place for one, place in STUDIES.items()})
    ending = Ending("wrong use", f"STUDY: {name or 'none'}; it may be one of: {', '.join(STUDIES)}")
    Screen().say(ending.line)
    return ending.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
