"""The second slurmctld of a cluster, which takes over when the first one does not answer for SlurmctldTimeout.

Both have the port SlurmctldPort, each on an address of its own, and the same folder of saved state. A slurmctld knows which one it
is by its host name. On one host that of the second one is its address, which resolves to itself. In a cluster of several hosts the
second one runs on another host, which has the folder with the saved state in common with the head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Second:
    """Host name and address of the second slurmctld."""

    hostname: str
    address: str

    def runs_on(self, address: str, is_one_host: bool) -> bool:
        """Return whether the second slurmctld runs on a host. address: of the host; is_one_host: the cluster has one host only, so
        the answer is yes."""
        return is_one_host or self.address == address


def second_of(options: Mapping[str, Any]) -> Second | None:
    """The second slurmctld by the options of library/slurm_config.py; None with one controller.

    On one host it has the address after that of the first one, where nodes have other ports only. Raises WrongUse on several hosts
    without an address for it.
    """
    if options["controllers"] < 2:
        return None
    if not options["hosts"]:
        address = str(IPv4Address(int(IPv4Address(options["address"])) + 1))
        return Second(address, address)
    if not (options["second_name"] and options["second_address"]):
        raise WrongUse("on several hosts a second slurmctld needs second_name and second_address", PARAMETER, "2")
    return Second(options["second_name"], options["second_address"])


def with_second(settings: Mapping[str, Any], second: Second | None, version: str) -> dict[str, Any]:
    """The settings with the second slurmctld; the same ones without one. Raises WrongUse for a release that is too old."""
    if second is None:
        return dict(settings)
    if version and release_of(version) < SINCE:
        raise WrongUse(f"a second slurmctld needs Slurm {named(SINCE)} or later, and this is {version}", PARAMETER, "2")
    first = next(value for key, value in settings.items() if key.lower() == CONTROLLER_HOST)
    return merge(settings, {"SlurmctldHost": [first, f"{second.hostname}({second.address})"]})


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
