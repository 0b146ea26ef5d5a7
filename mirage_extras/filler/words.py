"""The words of FILLER_JOBS."""

from __future__ import annotations

import hashlib
from decimal import Decimal

from mirage_extras.filler.knobs import FillerKnobs
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.filler.words import SLOTS, Filler

_LONGEST_WORDS = 1000  # characters of FILLER_JOBS


def words_of(knobs: FillerKnobs, shrink: Decimal = Decimal(100)) -> Filler:
    """The filler jobs of FILLER_JOBS, in seconds of the cluster's time: those of the trace are shrunk as run times are. Raises
    WrongUse."""
    try:
        words = Filler.parse(knobs.words)
        if knobs.variant == SLOTS:
            words.check_slots()
    except WrongUse as error:
        raise WrongUse(error.message, "filler_jobs", error.value) from None
    return words if shrink == 100 else words.scaled(float(shrink) / 100)


def identity_of(text: str) -> str:
    """The words of FILLER_JOBS with the content of a file that they name; of long lists the checksum. Raises WrongUse."""
    try:
        words = Filler.parse(text).text()
    except WrongUse as error:
        raise WrongUse(error.message, "filler_jobs", error.value) from None
    return words if len(words) < _LONGEST_WORDS else hashlib.sha256(words.encode()).hexdigest()
