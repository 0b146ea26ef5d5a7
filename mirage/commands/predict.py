"""`make predict`: when the jobs that wait in a site's queue start (docs/predict.md)."""

from __future__ import annotations

from mirage.campaign.prediction import Prediction
from mirage.experiment import aspects, clock_choice, managers
from mirage.experiment.courses import Courses
from mirage.experiment.endings import Ending
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse


def predict(knobs: Knobs, screen: Screen) -> Ending:
    """Check everything, run the courses that are not finished, and print the answer for all waiting jobs, or for JOB."""
    managers.check(knobs)
    aspects.check(knobs)
    if not knobs.workload.site:
        raise WrongUse(
            "nothing is given; it may be an archive of mirage-capture --now (make example-site NOW=yes makes one)", "site"
        )
    courses = Courses.of(knobs.at_speed(clock_choice.chosen(knobs, screen)))
    courses.wanted(knobs.output.job)
    return Prediction.of(courses).run(screen)
