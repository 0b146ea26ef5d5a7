"""What emulated nodes and running jobs need of a host, and the most nodes that it holds: docs/scale.md explains the numbers.

Pure functions; `capacity` looks at the host. Memory is in MiB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..base.errors import WrongUse

# Memory of one slurmd with a slim file at rest: anonymous pages, page tables, kernel stack and sockets; and what is left when
# ksmd has merged the pages that all slurmd have alike.
NODE, NODE_MERGED = 1.15, 0.5
# What a slurmd that reads the whole slurm.conf keeps of each node in it. It is the same in all of them.
LINE, LINE_MERGED = 1.45 / 1024, 0.04 / 1024
# Memory of a running job: slurmstepd and the job program.
JOB, JOB_MERGED = 1.4, 0.55
# The farm, munged and slurmctld; what the latter two keep of each node.
BASE, BASE_NODE = 60.0, 0.03
# mariadbd and slurmdbd, and what slurmctld keeps for them: docs/accounting.md has what was measured. On the disk what they begin
# with, and some thousand jobs.
DATABASE, DATABASE_DISK = 130.0, 250.0
DATABASE_TASKS, DATABASE_FILES, DATABASE_INODES = 60, 500, 500
# For nodes that start, which are not merged yet. The farm starts no more of them at once than fit: with less, a start is slow.
UNMERGED_AT_ONCE = 2048.0

# Processes and threads. At rest a slurmd is one thread and a slurmstepd three; a message takes another thread, a step a few.
NODE_TASKS, JOB_TASKS = 5, 8
# Open files: a slurmd has 7 at rest; a slurmstepd has 9, and its job 5.
NODE_FILES, JOB_FILES = 10, 20
# In the instance's directory a node has a slim file, a log, a pid file, and a folder with a file or two.
NODE_INODES, NODE_DISK = 8, 0.064

MOST_JOBS = 1000
"""Jobs at once that are reckoned with, one on each node, where nobody says a number."""
PID_MAX = 4_194_304
"""The most that 64-bit Linux lets kernel.pid_max be (proc(5))."""

ANONYMOUS_PAGES = 250
"""Pages of a slurmd that ksmd looks at."""
PASS = 30.0
"""Seconds in which ksmd shall look at all of them; it merges a page in the second pass that finds it unchanged."""
KSM_SLEEP = 0.02
"""Seconds between two of ksmd's bursts: the kernel's sleep_millisecs."""
KSM_BURST = 1500
"""The most pages of a burst: ksmd looks at pages that are merged already as fast, and that shall cost some 5 % of a core."""


@dataclass(frozen=True)
class Load:
    """What shall be there: nodes, whether slurmd read the whole slurm.conf (STEPS), how many jobs at once, if that was said, and
    whether there is accounting (database).

    With `front_ends` that many slurmd stand for all nodes (FRONT_END); with none each node has one.
    cluster: nodes of all hosts, if there are several; slurmctld keeps something of each, and so do slurmd with STEPS
    """

    nodes: int
    wide_steps: bool = False
    jobs: int | None = None
    front_ends: int = 0
    database: bool = False
    cluster: int | None = None

    @property
    def known(self) -> int:
        """Nodes that slurmctld knows."""
        return self.nodes if self.cluster is None else self.cluster

    @property
    def slurmd(self) -> int:
        """How many slurmd run."""
        return self.front_ends or self.nodes

    @property
    def at_once(self) -> int:
        """Jobs at once: as was said, or one on each node, but no more than MOST_JOBS."""
        return min(self.nodes, MOST_JOBS) if self.jobs is None else self.jobs


@dataclass(frozen=True)
class Needs:
    """What a load takes: memory and disk space in MiB, processes and threads, open files, inodes."""

    memory: float
    tasks: int
    files: int
    inodes: int
    disk: float


def at_rest(load: Load, merges: bool) -> float:
    """Memory that the load takes when all nodes run, and what can be merged is."""
    lines = load.known if load.wide_steps else 0
    if merges:
        daemons = load.slurmd * (NODE_MERGED + LINE_MERGED * lines) + load.at_once * JOB_MERGED
    else:
        daemons = load.slurmd * (NODE + LINE * lines) + load.at_once * JOB
    return BASE + load.known * BASE_NODE + daemons + load.database * DATABASE


def needs(load: Load, merges: bool) -> Needs:
    """What `load` takes on a host that merges equal pages, or does not."""
    unmerged = at_rest(load, merges=False)
    return Needs(
        memory=min(unmerged, at_rest(load, merges=True) + UNMERGED_AT_ONCE) if merges else unmerged,
        tasks=load.slurmd * NODE_TASKS + load.at_once * JOB_TASKS + load.database * DATABASE_TASKS,
        files=load.slurmd * NODE_FILES + load.at_once * JOB_FILES + load.database * DATABASE_FILES,
        inodes=load.slurmd * NODE_INODES + load.database * DATABASE_INODES,
        disk=load.slurmd * NODE_DISK + load.database * DATABASE_DISK,
    )


@dataclass(frozen=True)
class Capacity:
    """What a host has left: memory for daemons and disk space in MiB, processes and threads, open files, inodes."""

    memory: float
    tasks: int
    files: int
    inodes: int
    disk: float
    merges: bool


def lacking(load: Load, running: Load, host: Capacity) -> str | None:
    """What the host has not enough of for `load`, in words; None when it fits.

    `running` are the nodes that are there already, so that the host's memory is what is left beside them. As many of them, or
    fewer, always fit: there they are.
    """
    is_there = load.slurmd <= running.slurmd and load.nodes <= running.nodes
    if is_there and load.wide_steps <= running.wide_steps and load.database <= running.database and running.nodes:
        return None
    wanted = needs(load, host.merges)
    if (need := wanted.memory - (at_rest(running, host.merges) if running.nodes else 0)) > host.memory:
        why = "" if host.merges else " (this host merges no pages: docs/scale.md)"
        more = " more" if running.nodes else ""
        return f"needs about {_gib(need)}{more} of memory, {_gib(host.memory)} are available{why}"
    counts = (
        ("processes and threads", wanted.tasks, host.tasks),
        ("open files", wanted.files, host.files),
        ("files on the disk", wanted.inodes, host.inodes),
        ("MiB on the disk", int(wanted.disk), int(host.disk)),
    )
    for what, count, left in counts:
        if count > left:
            return f"needs about {count} {what}, {max(left, 0)} are left"
    return None


def check(load: Load, running: Load, host: Capacity) -> None:
    """Raise WrongUse when the host cannot hold `load`, with the most nodes that it can."""
    reason = lacking(load, running, host)
    if reason is None:
        return
    words = f"{reason}; the largest that fits is {largest(load, running, host)}"
    if load.cluster is not None:
        words = f"to have {load.nodes} of them this host {reason}; it has room for {largest(load, running, host)}"
    if load.wide_steps and (slim := largest(replace(load, wide_steps=False), running, host)) > 0:
        words += f" (STEPS=no allows {'it' if slim >= load.nodes else slim})"
    raise WrongUse(words, parameter="nodes", value=load.nodes if load.cluster is None else load.cluster)


def largest(load: Load, running: Load, host: Capacity) -> int:
    """The most nodes, up to those of `load`, that fit with what else it says. A load that is smaller needs less of everything."""
    return _bisect(lambda nodes: lacking(replace(load, nodes=nodes), running, host) is None, load.nodes)


def _bisect(fits: Callable[[int], bool], most: int) -> int:
    """The largest number from 0 to `most` that fits, if all below it do."""
    if fits(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _gib(mib: float) -> str:
    return f"{max(mib, 0) / 1024:.1f} GiB"


def kernel_settings(load: Load) -> dict[str, int]:
    """Least values of the kernel's settings for a load, by their names; the role kernel_tuning says what they are for.

    Twice what is needed, for a host gets the largest of the values that its instances claim, not their sum.
    """
    wanted = needs(load, merges=True)
    burst = int(load.slurmd * ANONYMOUS_PAGES * KSM_SLEEP / PASS)
    return {
        "kernel.pid_max": min(PID_MAX, max(131_072, 32_768 + 2 * wanted.tasks)),
        "kernel.threads-max": max(131_072, 32_768 + 2 * wanted.tasks),
        "fs.file-max": max(262_144, 65_536 + 2 * wanted.files),
        "vm.max_map_count": 262_144,
        "net.core.somaxconn": 16_384,
        "net.ipv4.tcp_max_syn_backlog": 16_384,
        "/sys/kernel/mm/ksm/run": 1,
        "/sys/kernel/mm/ksm/pages_to_scan": min(KSM_BURST, max(1000, burst)),
    }
