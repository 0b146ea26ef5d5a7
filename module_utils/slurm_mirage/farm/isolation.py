"""What the farm asks of the kernel for itself and, by inheritance, for every daemon and job that it starts.

All of it is optional: a container or an old kernel may refuse, which costs memory or a name, and is reported.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import socket
from pathlib import Path

CLONE_NEWUTS = 0x04000000  # unshare(2), setns(2)
PR_SET_KEEPCAPS = 8  # prctl(2)
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
PR_SET_MEMORY_MERGE = 67  # prctl(2), since Linux 6.4
ADDR_NO_RANDOMIZE = 0x0040000  # personality(2)
CAPABILITY_VERSION = 0x20080522  # capset(2): _LINUX_CAPABILITY_VERSION_3, three words of 32 bits twice
KEPT_CAPABILITIES = 1 << 18 | 1 << 21 | 1 << 23  # CAP_SYS_CHROOT, CAP_SYS_ADMIN, CAP_SYS_NICE (capabilities(7))
CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000  # unshare(2)
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE, MS_SLAVE = 2, 4, 8, 1 << 12, 1 << 14, 1 << 18, 1 << 19  # mount(2)
PRIORITY = -10  # nice value
REAL_TIME = os.sched_param(1)  # the least priority of the real-time policies (sched(7))

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


class HostNames:
    """The host names that daemons see, each a UTS namespace of its own: made when it is first entered, and kept open.

    After `take_hostname`; needs CAP_SYS_ADMIN (see `become`). A numeric address as a host name resolves to itself, without a
    line in any file: a daemon listens on that address then.
    """

    def __init__(self, own: str) -> None:
        self.own = own
        self._current = own
        self._kept: dict[str, int] = {}

    def enter(self, name: str) -> None:
        """Have this process, and what it starts from now on, see the host name `name`."""
        if name == self._current:
            return
        if not self._kept:
            self._keep(self.own)
        if name in self._kept:
            _checked(_libc.setns(self._kept[name], CLONE_NEWUTS))
        else:
            _checked(_libc.unshare(CLONE_NEWUTS))
            socket.sethostname(name)
            self._keep(name)
        self._current = name

    def _keep(self, name: str) -> None:
        self._kept[name] = os.open("/proc/self/ns/uts", os.O_RDONLY | os.O_CLOEXEC)


def become(user: str) -> None:
    """Go on as the account `user`, with the capabilities that setns(2) and `put_first` want, if this process has them.

    They are neither inheritable nor ambient: what this process executes does not have them (capabilities(7)).
    """
    account = pwd.getpwnam(user)
    _checked(_libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    words = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then the same of capabilities above 31
    _checked(_libc.capget(header, words))
    kept = words[1] & KEPT_CAPABILITIES
    _checked(_libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept)))


def enter_namespace(descriptor: int) -> None:
    """Enter an open namespace (setns(2)); a PID namespace is entered by what is started from now on."""
    _checked(_libc.setns(descriptor, 0))


def split_processes() -> None:
    """Have the next child begin a PID namespace, and see no mounts of others that come later, nor show its own."""
    _checked(_libc.unshare(CLONE_NEWPID | CLONE_NEWNS))
    _checked(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))


def mount_proc() -> None:
    """Put a /proc of the PID namespace over the one that is there."""
    _checked(_libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None))


def lay_over(source: Path, target: Path) -> None:
    """Have this process and its children see the file `source` as `target`. What the host mounts later they see, too."""
    _checked(_libc.unshare(CLONE_NEWNS))
    _checked(_libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None))
    _checked(_libc.mount(os.fsencode(source), os.fsencode(target), None, MS_BIND, None))


def try_real_time() -> None:
    """Raise OSError when this host lets nobody have a real-time priority."""
    put_first(0)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def put_first(pid: int) -> None:
    """Give process `pid`, which was just started, the processor whenever it wants it.

    munged answers all daemons, each in a tenth of a millisecond, and lets no more than 256 of them wait: it turns the others away
    when it has to share the processors with thousands. A better nice value is not enough then.
    """
    os.sched_setscheduler(pid, os.SCHED_RR, REAL_TIME)


def raise_priority() -> None:
    """Put this process and its children before those of ordinary priority.

    When thousands of slurmd want the processors at once, munged and slurmctld get their share late: munged, which answers all of
    them and lets 256 wait, turns others away, and nodes that slurmctld could not ping in time are down.
    """
    os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)


def lower_priority(group: int) -> None:
    """Give a process group that was just started the ordinary priority: all of its processes and threads (setpriority(2))."""
    os.setpriority(os.PRIO_PGRP, group, 0)


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
