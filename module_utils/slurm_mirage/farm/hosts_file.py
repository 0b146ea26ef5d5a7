"""The /etc/hosts that the daemons of a cluster on several hosts see: the host's own, and names for the cluster's addresses.

Slurm's daemons ask for the name of the address that a message came from. Where no name server knows one, each message asks it
again over the network, and when an answer is lost slurmctld holds its locks for five seconds (resolv.conf(5), timeout). What the
host itself sees stays as it is.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from . import isolation

OF_THE_HOST = Path("/etc/hosts")


class HostsFile:
    """To be made before the host's own file is out of sight."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._own = OF_THE_HOST.read_text(errors="replace") if OF_THE_HOST.exists() else ""

    def lay_over(self, names: Mapping[str, str], user: str) -> None:
        """Have this process and what it starts see the file, which the account `user` may change. Needs CAP_SYS_ADMIN."""
        self.write(names)
        if os.getuid() == 0:
            account = pwd.getpwnam(user)
            os.chown(self.path, account.pw_uid, account.pw_gid)
        isolation.lay_over(self.path, OF_THE_HOST)

    def write(self, names: Mapping[str, str]) -> None:
        """Names by address. The file stays the same one: daemons that see it see what is new in it."""
        lines = [f"{address} {name}\n" for address, name in sorted(names.items())]
        text = f"{self._own.rstrip()}\n# The cluster's.\n{''.join(lines)}"
        if not self.path.exists() or self.path.read_text(errors="replace") != text:
            self.path.write_text(text)
