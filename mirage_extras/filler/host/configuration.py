"""What the configuration of Slurm needs for filler jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .filler_settings import with_fillers


def completed(
    own: Mapping[str, Any], settings: Mapping[str, Any], partitions: Sequence[Mapping[str, Any]], version: str
) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """As `with_fillers`. own: has `grace`. Raises WrongUse."""
    return with_fillers(settings, partitions, int(own["grace"]), version)
