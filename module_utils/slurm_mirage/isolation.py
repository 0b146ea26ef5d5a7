"""What the farm asks of the kernel for itself and, by inheritance, for every daemon and job that it starts.

All of it is optional: a container or an old kernel may refuse, which costs memory or a name, and is reported.
"""

from __future__ import annotations

import ctypes
import os
import resource
import socket

CLONE_NEWUTS = 0x04000000  # unshare(2)
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
PR_SET_MEMORY_MERGE = 67  # prctl(2), since Linux 6.4
ADDR_NO_RANDOMIZE = 0x0040000  # personality(2)

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def take_hostname(name: str) -> None:
    """Give this process and its children a host name of their own (a private UTS namespace).

    With CommunicationParameters=NoInAddrAny Slurm's daemons listen on what their host name resolves to (slurm.conf(5));
    a private name makes that the loopback address, whatever the host is called.
    """
    if socket.gethostname() == name:
        return
    _checked(_libc.unshare(CLONE_NEWUTS))
    socket.sethostname(name)


def merge_memory() -> None:
    """Let ksmd merge equal pages of this process and its children."""
    _checked(_libc.prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0))


def fix_addresses() -> None:
    """Switch address space randomisation off, so that equal daemons have equal pages for ksmd to merge."""
    current = _libc.personality(0xFFFFFFFF)
    _checked(current)
    _checked(_libc.personality(current | ADDR_NO_RANDOMIZE))


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends (slurmstepd detaches itself from slurmd)."""
    _checked(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def open_all_files() -> None:
    """Raise the limit of open files to the hard limit: slurmctld keeps a connection for each node that it talks to."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
