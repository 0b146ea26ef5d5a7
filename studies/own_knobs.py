"""The knobs of a study: its own, and those that are given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from mirage.knobs.knobs import Knobs
from mirage.knobs.resolve import with_texts
from mirage.knobs.table import BY_NAME
from slurm_mirage.base.errors import WrongUse


def chosen(knobs: Knobs, own: Mapping[str, str]) -> Knobs:
    """The knobs with the study's own, except for those that are given. RUN and JOBS are always the study's."""
    always = ("RUN", "JOBS", "NODES")
    return with_texts(knobs, {knob: text for knob, text in own.items() if knob in always or not os.environ.get(knob)})


def refuse(knobs: Knobs, name: str, own: Sequence[str]) -> None:
    """Raises WrongUse if one of its own knobs is given, which the study chooses."""
    for knob in own:
        if not knobs.is_default(knob):
            raise WrongUse(f"{name} has its own; make compare and make experiment take yours", parameter=BY_NAME[knob].parameter)


def name_of(knobs: Knobs, study: str) -> str:
    """RUN, by default the name of the study and of its size."""
    return knobs.output.run or (f"{study}-full" if knobs.campaign.is_full else study)
