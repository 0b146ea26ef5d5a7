"""Kernel features that the farm enables for itself and, by inheritance, for every daemon and job that it starts.

All of them are optional: a container or an old kernel may refuse them. The functions then raise OSError; the farm reports it and
runs with more memory, or without the feature.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import pwd
import resource
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CLONE_NEWUTS = 0x04000000  # unshare(2), setns(2)
PR_SET_KEEPCAPS = 8  # prctl(2)
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
PR_SET_MEMORY_MERGE = 67  # prctl(2), since Linux 6.4
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, PR_CAP_AMBIENT_CLEAR_ALL = 47, 2, 4  # prctl(2)
ADDR_NO_RANDOMIZE = 0x0040000  # personality(2)
CAPABILITY_VERSION = 0x20080522  # capset(2): _LINUX_CAPABILITY_VERSION_3, three words of 32 bits twice
CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SETPCAP, CAP_NET_BIND_SERVICE = 5, 6, 7, 8, 10  # capabilities(7)
CAP_SYS_CHROOT, CAP_SYS_ADMIN, CAP_SYS_NICE, CAP_PERFMON, CAP_BPF = 18, 21, 23, 38, 39
COUNTING_CAPABILITIES = (CAP_PERFMON, CAP_BPF)
"""What counting runnable threads by BPF needs (`with_capabilities`)."""
KEPT_CAPABILITIES = (CAP_SYS_CHROOT, CAP_SYS_ADMIN, CAP_SYS_NICE, *COUNTING_CAPABILITIES)
ACCOUNT_CAPABILITIES = (CAP_SETGID, CAP_SETUID, CAP_SETPCAP, CAP_NET_BIND_SERVICE)
"""What starting a daemon as another account needs (`with_capabilities`)."""
CLONE_NEWUSER = 0x10000000  # unshare(2)
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x08000000, 0x20000000, 0x40000000  # unshare(2)
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, IFF_UP = 0x8913, 0x8914, 0x8916, 0x891C, 1  # netdevice(7)
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE, MS_SLAVE = 2, 4, 8, 1 << 12, 1 << 14, 1 << 18, 1 << 19  # mount(2)
PRIORITY = -10  # nice value
REAL_TIME = os.sched_param(1)  # the lowest priority of the real-time policies (sched(7))

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def take_hostname(name: str) -> None:
    """Give this process and its children the host name `name` in a private UTS namespace.

    With CommunicationParameters=NoInAddrAny Slurm's daemons listen on the address that their host name resolves to (slurm.conf(5)).
    With a private host name this is the loopback address on every host.
    """
    if socket.gethostname() == name:
        return
    _checked(_libc.unshare(CLONE_NEWUTS))
    socket.sethostname(name)


class HostNames:
    """UTS namespaces with the host names that daemons see. Each is created when it is first entered, and kept open.

    `own` is the name given by `take_hostname`, which must have been called before. Needs CAP_SYS_ADMIN (see `become_user`). A host
    name that is a numeric address resolves to itself without an entry in any file, so that a daemon listens on that address.
    """

    def __init__(self, own: str) -> None:
        self.own = own
        self._current = own
        self._kept: dict[str, int] = {}

    def enter(self, name: str) -> None:
        """Let this process, and what it starts from now on, see the host name `name`. Raises OSError."""
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


def take_network(address: str, mask: str, ports: tuple[int, int]) -> None:
    """Enter a new network namespace, in which all addresses of the network of `address` and `mask` are local and which is connected
    to nothing, and a new IPC namespace. Outgoing connections use the ports from the first to the last of `ports`, and ports of
    connections that have ended are free at once. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN.

    An address of the loopback device makes its whole network local, as 127.0.0.1 with its mask does.
    """
    # PostgreSQL has a segment of System V memory, which in the host's namespace would stay there when it is killed.
    _checked(_libc.unshare(CLONE_NEWNET | CLONE_NEWIPC))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        flags = struct.unpack("16xh", fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))[:18])[0]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
        for request, value in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, mask)):
            fcntl.ioctl(control, request, struct.pack("16sHxx4s8x", b"lo:1", socket.AF_INET, socket.inet_aton(value)))
    settings = Path("/proc/sys/net/ipv4")
    (settings / "ip_local_port_range").write_text("{} {}".format(*ports))
    # A command of the resource manager may use one of 512 reserved ports, which otherwise is not free again for 60 s.
    (settings / "tcp_max_tw_buckets").write_text("1")


def keep_ports(address: str, ports: Iterable[int]) -> list[socket.socket]:
    """Return sockets that keep these ports from programs that ask for them on all addresses, as long as they are open.

    Programs may have them on other addresses than `address`. Ports that are taken already are left out.
    """
    kept = []
    for port in ports:
        one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            one.bind((address, port))
        except OSError:
            one.close()
        else:
            kept.append(one)
    return kept


def reserve_ports(first_free: int) -> None:
    """Let only programs with CAP_NET_BIND_SERVICE listen on ports below `first_free`, in this process's network namespace.

    Otherwise the instance's user could take the port of a daemon of root while the daemon is restarted.
    """
    Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text(str(first_free))


def become_user(user: str, further: Iterable[int] = ()) -> None:
    """Continue as the account `user`, but keep those of KEPT_CAPABILITIES and of `further` that this process has: setns(2) and
    `set_real_time` need them, or a program started with `with_capabilities`.

    The capabilities are neither inheritable nor ambient, so that executed programs do not have them (capabilities(7)).
    """
    account = pwd.getpwnam(user)
    _checked(_libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    kept = _permitted() & _set_of((*KEPT_CAPABILITIES, *further))
    _set_capabilities(kept, inheritable=0)


def make_user_namespace(user: str, first: int, count: int) -> int:
    """Make a user namespace whose root is the account `user`, and return its descriptor. For root.

    `count` user and group ids from `first` on, and the account's group, are the same in it as outside. The account owns it: its
    processes outside may enter it, and end processes in it.
    """
    account = pwd.getpwnam(user)
    (made, child_made), (child_mapped, mapped) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            become_user(user)
            _checked(_libc.unshare(CLONE_NEWUSER))
            os.write(child_made, b"+")
            os.close(mapped)
            os.read(child_mapped, 1)  # until the parent has its descriptor
        finally:
            os._exit(0)
    os.close(child_made)
    os.close(child_mapped)
    try:
        if not os.read(made, 1):
            raise PermissionError(errno.EPERM, "no user namespace")
        same = f"{first} {first} {count}\n"
        Path(f"/proc/{child}/uid_map").write_text(f"0 {account.pw_uid} 1\n{same}")
        Path(f"/proc/{child}/gid_map").write_text(f"{account.pw_gid} {account.pw_gid} 1\n{same}")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(made)
        os.close(mapped)
        os.waitpid(child, 0)


@contextmanager
def with_capabilities(capabilities: Iterable[int]) -> Iterator[None]:
    """Let the programs that are executed in this context have these capabilities, of those that `become_user` kept. Raises OSError
    where the kernel, or the lack of one of them, does not allow it."""
    permitted = _permitted()
    _set_capabilities(permitted, inheritable=_set_of(capabilities))
    try:
        for capability in capabilities:
            _checked(_libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0))
        yield
    finally:
        _checked(_libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
        _set_capabilities(permitted, inheritable=0)


def _set_of(capabilities: Iterable[int]) -> int:
    return sum(1 << capability for capability in capabilities)


def _permitted() -> int:
    """The permitted capabilities of this process, one bit each."""
    words = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable of capabilities 0 to 31, then of those above 31
    _checked(_libc.capget((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), words))
    return words[1] | words[4] << 32


def _set_capabilities(permitted: int, inheritable: int) -> None:
    """Set the permitted capabilities, all of them effective, and the inheritable ones."""
    words = [part >> shift & 0xFFFFFFFF for shift in (0, 32) for part in (permitted, permitted, inheritable)]
    _checked(_libc.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)(*words)))


def enter_namespace(descriptor: int) -> None:
    """Enter the namespace of an open file descriptor (setns(2)). A PID namespace is entered only by children started later."""
    _checked(_libc.setns(descriptor, 0))


def unshare_processes() -> None:
    """Let the next child be the first process of a new PID namespace, in a private mount namespace."""
    _checked(_libc.unshare(CLONE_NEWPID | CLONE_NEWNS))
    _checked(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))


def mount_proc() -> None:
    """Mount a /proc for the current PID namespace."""
    _checked(_libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None))


def unshare_mounts() -> None:
    """Let what this process mounts be seen by itself and its children only. They still see what the host mounts later."""
    _checked(_libc.unshare(CLONE_NEWNS))
    _checked(_libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None))


def bind_mount(descriptor: int, target: Path) -> None:
    """Mount an open file over `target`. It must have been opened after `unshare_mounts`."""
    _checked(_libc.mount(f"/proc/self/fd/{descriptor}".encode(), os.fsencode(target), None, MS_BIND, None))


def try_real_time() -> None:
    """Raise OSError when this host does not permit real-time priorities."""
    os.sched_setscheduler(0, os.SCHED_RR, REAL_TIME)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def set_real_time(pid: int) -> None:
    """Give all threads of process `pid`, which was just started, a real-time priority (sched(7)). Later ones inherit it.

    munged answers each request in 0.1 ms but queues at most 256 connections. When it shares the processors with thousands of
    daemons it refuses connections; a better nice value does not prevent that. The coordinator of an event clock has it because all
    other processes wait for it, slurmctld on such a clock because its threads then run in one order (`DaemonKind`).
    """
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setscheduler(int(thread.name), os.SCHED_RR, REAL_TIME)


def raise_priority() -> None:
    """Raise the priority of this process and its future children above the default.

    When thousands of slurmd need the processors at the same time, munged and slurmctld would run too late: munged would refuse
    connections (it queues at most 256), and slurmctld would set nodes DOWN that it could not ping in time.
    """
    os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)


def lower_priority(group: int) -> None:
    """Give all processes and threads of a process group that was just started the default priority (setpriority(2))."""
    os.setpriority(os.PRIO_PGRP, group, 0)


def merge_memory() -> None:
    """Let ksmd merge equal memory pages of this process and its children."""
    _checked(_libc.prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0))


def fix_addresses() -> None:
    """Disable address space randomisation, so that equal daemons have equal pages that ksmd can merge."""
    current = _libc.personality(0xFFFFFFFF)
    _checked(current)
    _checked(_libc.personality(current | ADDR_NO_RANDOMIZE))


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends (slurmstepd detaches from slurmd)."""
    _checked(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def open_all_files() -> None:
    """Raise the soft limit of open files to the hard limit: slurmctld needs one connection for each node that it contacts."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
