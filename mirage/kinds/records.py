"""The kinds of jobs in the tables of a run."""

from __future__ import annotations

from typing import Protocol

import polars as pl

from mirage.kinds.filler import records as filler
from mirage.kinds.malleable import records as malleable
from mirage.records.collect import Collected


class KindRecords(Protocol):
    """What a kind has in the records of a run."""

    def tables(self, collected: Collected) -> dict[str, pl.DataFrame]:
        """The tables that are written beside jobs.csv, by the names of their files; none without such jobs."""


KINDS: tuple[KindRecords, ...] = (malleable, filler)
