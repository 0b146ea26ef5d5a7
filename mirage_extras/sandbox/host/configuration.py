"""What the configuration of Slurm needs in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import WrongUse
from ...rm.slurm.daemons import munge_socket
from ...rm.slurm.job_users import TOKEN_KEY
from ...rm.slurm.setting_names import Release, release_of

OLDEST: Release = (21, 8)
"""First release with a REST API that knows jobs of the database."""
METRICS: Release = (25, 11)
"""First release whose slurmctld serves metrics, on its own port."""


def completed(
    own: Mapping[str, Any], settings: Mapping[str, Any], partitions: Sequence[Mapping[str, Any]], version: str
) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """The settings with tokens and metrics; slurmd is root, in its user namespace. own: has `directory`. Raises WrongUse."""
    directory, release = Path(own["directory"]), release_of(version) if version else None
    if release and release < OLDEST:
        raise WrongUse(f"a sandbox needs Slurm {OLDEST[0]}.{OLDEST[1]:02} or later, not {version}", parameter="slurm_source")
    socket = f"socket={munge_socket(directory)}"
    further: dict[str, Any] = {
        "AuthInfo": socket,
        "AccountingStoragePass": socket,
        "AuthAltTypes": "auth/jwt",
        "AuthAltParameters": f"jwt_key={directory / TOKEN_KEY}",
        "SlurmdUser": "root",
    }
    if release and release >= METRICS:
        further["MetricsType"] = "metrics/openmetrics"
    return {**settings, **further}, partitions
