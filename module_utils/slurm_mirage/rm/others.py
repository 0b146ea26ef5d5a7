"""The resource managers besides Slurm: those whose extras (mirage_extras) are there."""

from __future__ import annotations

from ..extras import if_there
from .rows import Other

OTHERS: list[Other] = []
# Statements, because Ansible ships only what a module imports that way; not at the top level, so that it does without one.
with if_there():
    from ..extras.openpbs.other import OTHER

    OTHERS.append(OTHER)
