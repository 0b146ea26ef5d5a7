"""What the configuration of Slurm needs so that jobs can change their size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .resizing_settings import check, permit_expansion

__all__ = ["check", "completed"]


def completed(
    own: object, settings: Mapping[str, Any], partitions: Sequence[Mapping[str, Any]], version: str
) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """The settings and partitions of a cluster whose jobs can change their size, from those that it has without."""
    return permit_expansion(settings, version), partitions
