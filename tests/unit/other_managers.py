"""The resource managers besides Slurm, by name: those whose extras are there."""

from __future__ import annotations

from mirage.knobs.table import BY_NAME
from slurm_mirage.rm.managers import DEFAULT, MANAGERS, traits_of

OTHERS = [name for name in MANAGERS if name != DEFAULT]
KNOWN = ", ".join(sorted(MANAGERS))
SOURCES = [name for name in BY_NAME if name.endswith("_SOURCE")]
"""Knobs that name an archive of a resource manager's source."""


def config_of(manager: str) -> str:
    """Its default configuration."""
    return traits_of(manager).default_config
