"""The figures of the verdict about filler jobs. The module imports nothing, because each call of make reads the names."""

from __future__ import annotations

FIGURES: tuple[tuple[str, str, str], ...] = (
    ("filler_faults", "kinds of contradictions in the records of filler jobs", ""),
    ("fillers_failed", "executions of filler jobs that failed", ""),
)
"""Figures of the verdict that are shown: name, meaning, unit."""
