"""The sections of a run's page about the kinds of jobs, each as a function that gives None for a run without such jobs."""

from __future__ import annotations

from mirage.kinds.filler import page as filler
from mirage.kinds.malleable import page as malleable

SECTIONS = (malleable.section, filler.section)
PANELS = (filler.panel,)
"""Pictures over time, each as a function that gives None for a run without such jobs."""
