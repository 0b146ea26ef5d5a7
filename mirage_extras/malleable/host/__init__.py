"""Malleable jobs on hosts: the broker, which they ask for other sizes, and what Slurm needs for that (README.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # So that Ansible ships them.
    from . import configuration, daemons, kinds, plan, program, records  # noqa: F401
