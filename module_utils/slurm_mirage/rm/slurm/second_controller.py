"""The second slurmctld of a cluster on one host, which takes over when the first one does not answer for SlurmctldTimeout.

Both have the port SlurmctldPort, each on an address of its own, and the same folder of saved state. A slurmctld knows which one it
is by its host name. That of the second one is its address, which resolves to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from ...base.errors import WrongUse
from .conf import CONTROLLER_HOST, merge
from .setting_names import named, release_of

NAME = "slurmctld2"
"""The farm's name of the daemon. Its number names its waits on the event clock."""
LOG = f"{NAME}.log"
"""Its log file."""
FILE = "slurm2.conf"
"""Name of its configuration file."""
CONF, PID_FILE, LOG_FILE = f"etc/{FILE}", f"run/{NAME}.pid", f"log/{LOG}"
"""Paths in the instance's directory."""
SINCE = (18, 8)
"""The first release with several lines SlurmctldHost."""
PARAMETER = "controllers"


def hostname(controllers: int, address: str, hosts: Sequence[str]) -> str:
    """The host name of the second slurmctld, which is its address too; empty with one controller.

    address: of the first one. The address after it has nodes only on other ports. Raises WrongUse on several `hosts`.
    """
    if controllers < 2:
        return ""
    if hosts:
        raise WrongUse("a second slurmctld needs a cluster on one host; leave it out", parameter=PARAMETER, value=str(controllers))
    return str(IPv4Address(int(IPv4Address(address)) + 1))


def with_second(settings: Mapping[str, Any], second: str, version: str) -> dict[str, Any]:
    """The settings with the second slurmctld on `second`; the same ones if that is empty. Raises WrongUse for a release that is too
    old."""
    if not second:
        return dict(settings)
    if version and release_of(version) < SINCE:
        raise WrongUse(f"a second slurmctld needs Slurm {named(SINCE)} or later, and this is {version}", PARAMETER, "2")
    first = next(value for key, value in settings.items() if key.lower() == CONTROLLER_HOST)
    return merge(settings, {"SlurmctldHost": [first, f"{second}({second})"]})


def own_settings(settings: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The settings in the slurm.conf of the second slurmctld, from those of the first.

    Slurm takes `localhost` for the name of each host (common/read_config.c, _load_slurmctld_host), and the second slurmctld would
    take itself for the first one.
    """
    first, second = settings["SlurmctldHost"]
    host, _, address = first.rstrip(")").partition("(")
    hosts = [f"{address}({address})" if host == "localhost" else first, second]
    return merge(
        settings,
        {"SlurmctldHost": hosts, "SlurmctldPidFile": f"{directory}/{PID_FILE}", "SlurmctldLogFile": f"{directory}/{LOG_FILE}"},
    )
