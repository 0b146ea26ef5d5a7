"""The folder with slurmctld's saved state and its record of ended jobs: the instance's directory, or one that hosts share."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

RECORD = "log/jobcomp.log"
"""Path of the record of ended jobs (JobCompLoc) in the folder."""
_LOCATION = re.compile(rf"^JobCompLoc=(/\S+)/{re.escape(RECORD)}$", re.MULTILINE)


def saved_in(instance: Path) -> Path:
    """The folder, by JobCompLoc in the instance's slurm.conf, which belongs to root; `instance` if that does not name another."""
    with suppress(OSError):
        if (match := _LOCATION.search((instance / "etc/slurm.conf").read_text())) is not None:
            return Path(match[1])
    return instance
