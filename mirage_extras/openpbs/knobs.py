"""The knob of OpenPBS, OPENPBS_SOURCE."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.knobs.knob import OF_MANAGED, SCHEDULER, Knob
from mirage.knobs.parse import archive, optional
from mirage_extras.openpbs.source import FORM, OpenPbsSource, read


@dataclass(frozen=True)
class OpenPbsKnobs:
    """OpenPBS."""

    source: OpenPbsSource | None


Part = OpenPbsKnobs
OF_MANAGER = (
    Knob(
        "OPENPBS_SOURCE",
        "openpbs.source",
        "",
        optional(archive(read)),
        FORM,
        "archive of OpenPBS's source (mirage_extras/openpbs/README.md says which), to build and use with RM=openpbs",
        OF_MANAGED,
        shown="none",
        is_input=True,
        group=SCHEDULER,
    ),
)
