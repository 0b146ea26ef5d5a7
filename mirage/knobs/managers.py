"""The resource managers that RM names."""

from __future__ import annotations

from collections.abc import Mapping

from mirage.knobs.parse import Value

SLURM, OPENPBS = "slurm", "openpbs"


def values_of(knobs: Mapping[str, Value]) -> list[str]:
    """The values of RM: one, or for make compare several. Without RM it is Slurm."""
    return str(knobs.get("RM") or SLURM).split()
