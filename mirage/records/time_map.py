"""Instants of a run as trace seconds and back; mirage/records/collect.py explains them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from mirage.records.run_records import NS
from slurm_mirage.clock.clock import Clock


@dataclass(frozen=True)
class TimeMap:
    """Instants of a run as trace seconds and back.

    clock: its anchor is the moment at which the replay began; origin: trace seconds of the first submission
    """

    clock: Clock
    origin: float

    @property
    def second(self) -> float:
        """Trace seconds in a virtual second, which is what Slurm's own record resolves."""
        return self.clock.virtual_to_trace(1.0)

    def length(self, virtual: pl.Expr) -> pl.Expr:
        """Trace seconds of a length in virtual ns."""
        return virtual / NS * self.second

    def trace(self, virtual: pl.Expr) -> pl.Expr:
        """Trace seconds of an instant in virtual ns."""
        return self.origin + self.length(virtual - self.clock.virtual_ns)

    def virtual(self, trace: pl.Expr) -> pl.Expr:
        """Virtual ns of an instant in trace seconds."""
        return self.clock.virtual_ns + ((trace - self.origin) / self.second * NS).round().cast(pl.Int64)

    def virtual_of_real(self, real: pl.Expr) -> pl.Expr:
        """Virtual ns of an instant in real seconds."""
        since = (real * NS).round().cast(pl.Int64) - self.clock.real_ns
        return self.clock.virtual_ns + (since * self.clock.speed).round().cast(pl.Int64)

    def virtual_ns(self, real: float) -> int:
        """Virtual ns of an instant in real seconds."""
        return self.clock.virtual_at(round(real * NS))
