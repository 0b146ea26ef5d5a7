"""Rounding of the figures of a run."""

from __future__ import annotations

from typing import Any

import polars as pl


def rounded(value: Any) -> float | None:
    """A figure to a millionth: smaller digits are rounding errors."""
    return None if value is None else round(float(value), 6)


def quantile(values: pl.Series, share: float) -> float | None:
    """The quantile of the values that are known."""
    return rounded(values.drop_nulls().quantile(share, "linear"))
