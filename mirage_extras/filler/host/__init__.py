"""Filler jobs on hosts: the feeder, which submits them beside a replay, and what Slurm needs for that (README.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # So that Ansible ships them.
    from . import configuration, records, replay, run_json  # noqa: F401
