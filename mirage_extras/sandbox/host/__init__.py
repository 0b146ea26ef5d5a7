"""A sandbox on its host: users with names, who have shells and jobs of their own, and slurmrestd (docs/sandbox.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # So that Ansible ships them.
    from . import configuration, daemons  # noqa: F401
    from .programs import login  # noqa: F401
