"""The kinds of jobs in the tables of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import polars as pl

from mirage.kinds.filler import records as filler
from mirage.kinds.malleable import records as malleable

if TYPE_CHECKING:
    from mirage.records.collect import Collected


class KindRecords(Protocol):
    """What a kind has in the records of a run."""

    def tables(self, collected: Collected) -> dict[str, pl.DataFrame]:
        """The tables that are written beside jobs.csv, by the names of their files; none without such jobs."""


KINDS: tuple[KindRecords, ...] = (malleable, filler)
READERS = (filler.read_tables,)
"""Functions that read those of the tables that metrics need, by the names of their files, from the folder of a run. The second
argument is the parameter that named the run. They raise WrongUse."""
