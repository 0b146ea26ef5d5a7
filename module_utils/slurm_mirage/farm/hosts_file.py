"""The /etc/hosts that the daemons of a cluster of several hosts see: the host's own with names for the cluster's addresses.

Slurm's daemons look up the name of the address that a message came from. When no name server knows a name, each message causes
another query over the network, and when an answer is lost slurmctld holds its locks for five seconds (resolv.conf(5), timeout). The
host's own /etc/hosts is not changed.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from . import isolation

ETC_HOSTS = Path("/etc/hosts")


class HostsFile:
    """The file `path` that replaces /etc/hosts for the daemons. Create it before `mount`: it reads the host's own file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._own = ETC_HOSTS.read_text(errors="replace") if ETC_HOSTS.exists() else ""

    def mount(self, names: Mapping[str, str], user: str) -> None:
        """Write the file, give it to the account `user`, and let this process and its children see it as /etc/hosts.

        Needs CAP_SYS_ADMIN. Raises OSError.
        """
        self.write(names)
        if os.getuid() == 0:
            account = pwd.getpwnam(user)
            os.chown(self.path, account.pw_uid, account.pw_gid)
        isolation.bind_mount(self.path, ETC_HOSTS)

    def write(self, names: Mapping[str, str]) -> None:
        """Write the host names `names`, by address. The file is changed in place, so that running daemons see the change."""
        lines = [f"{address} {name}\n" for address, name in sorted(names.items())]
        text = f"{self._own.rstrip()}\n# The cluster's.\n{''.join(lines)}"
        if not self.path.exists() or self.path.read_text(errors="replace") != text:
            self.path.write_text(text)
