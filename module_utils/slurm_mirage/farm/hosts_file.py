"""The /etc/hosts that the daemons of a cluster of several hosts see: the host's own with names for the cluster's addresses.

Slurm's daemons look up the name of the address that a message came from. When no name server knows a name, each message causes
another query over the network, and when an answer is lost slurmctld holds its locks for five seconds (resolv.conf(5), timeout). The
host's own /etc/hosts is not changed.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from pathlib import Path

from ..base import user_folders
from ..base.errors import WrongUse
from . import isolation

ETC_HOSTS = Path("/etc/hosts")
FILE, ROOTS_FILE = "state/hosts", "etc/hosts"
LARGEST = 16 << 20  # bytes
_ADDRESS, _NAMES = re.compile(r"[0-9a-fA-F.:]+"), re.compile(r"[A-Za-z0-9._-]+( [A-Za-z0-9._-]+)*")


def _line(address: str, names: str) -> str:
    """A line of hosts(5): an address, and names with a blank between them, as the head's own and slurmctld's. Raises WrongUse."""
    if not (_ADDRESS.fullmatch(address) and _NAMES.fullmatch(names)):
        raise WrongUse(f"addresses: {address[:40]!r} with the host name {names[:40]!r}: may have an IP address and names")
    return f"{address} {names}\n"


class HostsFile:
    """The file FILE of an instance, which replaces /etc/hosts for the daemons; or ROOTS_FILE, with `is_roots`.

    Create this before `mount`: it reads the host's own file. FILE belongs to the instance's user, who could send daemons of root to
    addresses of his own: ROOTS_FILE is for these, and belongs to root. `mount` is called by root.
    """

    def __init__(self, directory: Path, *, is_roots: bool = False) -> None:
        self._directory = directory
        self.is_roots = is_roots
        self._own = ETC_HOSTS.read_text(errors="replace") if ETC_HOSTS.exists() else ""

    def mount(self, names: Mapping[str, str], user: str) -> None:
        """Write the file, give it to the account `user`, and let this process and its children see it as /etc/hosts.

        Needs CAP_SYS_ADMIN. Raises OSError, also if the file is not a regular one.
        """
        owner = None
        if os.getuid() == 0 and not self.is_roots:
            account = pwd.getpwnam(user)
            owner = account.pw_uid, account.pw_gid
        isolation.unshare_mounts()
        try:
            descriptor = self._open(owner)
            try:
                self._write(descriptor, names)
                isolation.bind_mount(descriptor, ETC_HOSTS)
            finally:
                os.close(descriptor)
        except WrongUse as error:
            raise OSError(str(error)) from error

    def write(self, names: Mapping[str, str]) -> None:
        """Write the host names `names`, by address. The file is changed in place, so that running daemons see the change."""
        descriptor = self._open(None)
        try:
            self._write(descriptor, names)
        finally:
            os.close(descriptor)

    def _open(self, owner: tuple[int, int] | None) -> int:
        return user_folders.open_file(self._directory, ROOTS_FILE if self.is_roots else FILE, os.O_RDWR | os.O_CREAT, 0o644, owner)

    def _write(self, descriptor: int, names: Mapping[str, str]) -> None:
        lines = [_line(address, name) for address, name in sorted(names.items())]
        content = f"{self._own.rstrip()}\n# The cluster's.\n{''.join(lines)}".encode()
        if os.pread(descriptor, LARGEST, 0) != content:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, content, 0)
