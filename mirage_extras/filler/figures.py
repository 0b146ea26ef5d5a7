"""The figures of the verdict about filler jobs, and their table. It imports nothing, because each call of make reads it."""

from __future__ import annotations

FILLERS_FILE = "fillers.csv"
"""Exists if the run had fillers."""
FILES = (FILLERS_FILE,)
"""Tables beside jobs.csv that metrics are computed from."""
FIGURES: tuple[tuple[str, str, str], ...] = (
    ("filler_faults", "kinds of contradictions in the records of filler jobs", ""),
    ("fillers_failed", "executions of filler jobs that failed", ""),
)
"""Figures of the verdict that are shown: name, meaning, unit."""
