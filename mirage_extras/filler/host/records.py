"""The records of a run with filler jobs: those of their executions, and the journal of the feeder."""

from __future__ import annotations

from .feeder.journal import FILE
from .feeder.settings import RECORD


def files(run: str) -> list[str]:
    """Their paths in the instance's directory."""
    return [f"runs/{run}/{name}" for name in (RECORD, FILE)]
