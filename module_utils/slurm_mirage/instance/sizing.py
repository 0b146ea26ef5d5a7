"""Computes what emulated nodes and running jobs need of a host, and how many nodes fit. docs/scale.md explains the numbers.

Pure functions; `capacity` reads the host. Memory and disk space are in MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace

from ..base.errors import WrongUse
from ..rm.traits import Footprint

# Memory of one idle slurmd that reads a slim file: anonymous pages, page tables, kernel stack and sockets; and the same after ksmd
# has merged the pages that are equal in all slurmd.
NODE, NODE_MERGED = 1.15, 0.5
# Memory of a slurmd that reads the whole slurm.conf for each node in it. It is equal in all slurmd.
LINE, LINE_MERGED = 1.45 / 1024, 0.04 / 1024
# Memory of a running job: slurmstepd and the job program.
JOB, JOB_MERGED = 1.4, 0.55
# Memory of the farm, munged and slurmctld; memory of munged and slurmctld for each node.
BASE, BASE_NODE = 60.0, 0.03
# Memory of mariadbd and slurmdbd, and of slurmctld for accounting (docs/accuracy.md); disk space of a new
# database and of some thousand jobs.
DATABASE, DATABASE_DISK = 130.0, 250.0
DATABASE_TASKS, DATABASE_FILES, DATABASE_INODES = 60, 500, 500
# Memory for starting nodes, whose pages are not merged yet. The farm starts only as many at the same time as fit into it.
UNMERGED_AT_ONCE = 2048.0

# Processes and threads. An idle slurmd has one thread and a slurmstepd three; a message needs another thread, a step a few.
NODE_TASKS, JOB_TASKS = 5, 8
# Open files: an idle slurmd has 7, a slurmstepd 9, its job 5.
NODE_FILES, JOB_FILES = 10, 20
# Inodes and disk space: each node has a slim file, a log, a pid file, and a folder with one or two files.
NODE_INODES, NODE_DISK = 8, 0.064

MOST_JOBS = 1000
"""Upper bound of the default number of jobs that run at the same time (one on each node)."""
PID_MAX = 4_194_304
"""Maximum of kernel.pid_max on 64-bit Linux (proc(5))."""

ANONYMOUS_PAGES = 250
"""Pages of a slurmd that ksmd scans."""
PASS = 30.0
"""Target duration of ksmd's pass over all slurmd, in seconds. ksmd merges a page in the second pass that finds it unchanged."""
KSM_SLEEP = 0.02
"""Seconds between two bursts of ksmd: the kernel's default of sleep_millisecs."""
KSM_BURST = 1500
"""Most pages per burst. ksmd continues to scan merged pages at this speed, which should need no more than some 5 % of a core."""
KSM_FEW, KSM_USUAL = 100, 1000
"""Pages per burst: the kernel's default, and what is enough for some thousand slurmd. Between them one for each slurmd: a pass
takes about 12 s (0.6 thousand pages each, with those that change), and few slurmd cost little."""


@dataclass(frozen=True)
class Load:
    """The load that an instance puts on a host.

    nodes: emulated nodes on this host
    wide_steps: whether each slurmd reads the whole slurm.conf (STEPS)
    jobs: jobs that run at the same time, or None for the default
    front_ends: number of slurmd that stand for all nodes (FRONT_END), or 0 for one slurmd per node
    database: whether there is accounting
    cluster: nodes of all hosts, or None for a cluster on one host; slurmctld needs memory for each, slurmd with wide_steps too
    footprint: of the daemons of another resource manager than Slurm; wide_steps, front_ends and database are then not used
    """

    nodes: int
    wide_steps: bool = False
    jobs: int | None = None
    front_ends: int = 0
    database: bool = False
    cluster: int | None = None
    footprint: Footprint | None = None

    @property
    def known(self) -> int:
        """Number of nodes in slurm.conf."""
        return self.nodes if self.cluster is None else self.cluster

    @property
    def slurmd(self) -> int:
        """Number of slurmd."""
        return self.front_ends or self.nodes

    @property
    def at_once(self) -> int:
        """Number of jobs that run at the same time: `jobs`, or one on each node but at most MOST_JOBS."""
        return min(self.nodes, MOST_JOBS) if self.jobs is None else self.jobs


@dataclass(frozen=True)
class Needs:
    """What a load needs: memory and disk space in MiB, processes and threads (tasks), open files, inodes."""

    memory: float
    tasks: int
    files: int
    inodes: int
    disk: float


def at_rest(load: Load, merges: bool) -> float:
    """Return the MiB that the load needs when all nodes run and, with `merges`, ksmd has merged equal pages."""
    if (own := load.footprint) is not None:
        node, job = (own.node_merged, JOB_MERGED) if merges else (own.node, JOB)
        return own.base + load.nodes * (own.base_node + node) + load.at_once * job
    lines = load.known if load.wide_steps else 0
    if merges:
        daemons = load.slurmd * (NODE_MERGED + LINE_MERGED * lines) + load.at_once * JOB_MERGED
    else:
        daemons = load.slurmd * (NODE + LINE * lines) + load.at_once * JOB
    return BASE + load.known * BASE_NODE + daemons + load.database * DATABASE


def needs(load: Load, merges: bool) -> Needs:
    """Return what `load` needs on a host whose ksmd merges equal pages (`merges`), or does not."""
    unmerged = at_rest(load, merges=False)
    memory = min(unmerged, at_rest(load, merges=True) + UNMERGED_AT_ONCE) if merges else unmerged
    if (own := load.footprint) is not None:
        return Needs(
            memory=memory,
            tasks=load.nodes * NODE_TASKS + load.at_once * JOB_TASKS + own.base_tasks,
            files=load.nodes * own.node_files + load.at_once * JOB_FILES + own.base_files,
            inodes=load.nodes * own.node_inodes + own.base_inodes,
            disk=load.nodes * own.node_disk + own.base_disk,
        )
    return Needs(
        memory=memory,
        tasks=load.slurmd * NODE_TASKS + load.at_once * JOB_TASKS + load.database * DATABASE_TASKS,
        files=load.slurmd * NODE_FILES + load.at_once * JOB_FILES + load.database * DATABASE_FILES,
        inodes=load.slurmd * NODE_INODES + load.database * DATABASE_INODES,
        disk=load.slurmd * NODE_DISK + load.database * DATABASE_DISK,
    )


@dataclass(frozen=True)
class Capacity:
    """What a host has left: memory for daemons and disk space in MiB, processes and threads (tasks), open files, inodes.

    merges: whether its ksmd can merge equal pages
    """

    memory: float
    tasks: int
    files: int
    inodes: int
    disk: float
    merges: bool


def lacking(load: Load, running: Load, host: Capacity) -> str | None:
    """Return the resource of which the host has too little for `load`, as text; None when the load fits.

    `running` is the part of the load that runs already; the capacity of `host` is what is left beside it. A load that is not larger
    than the running one always fits.
    """
    if _runs(load, running):
        return None
    wanted = needs(load, host.merges)
    if (need := _memory_left_to_take(wanted, running, host)) > host.memory:
        note = "" if host.merges else " (this host merges no pages: docs/scale.md)"
        more = " more" if running.nodes else ""
        return f"needs about {_gib(need)}{more} of memory, {_gib(host.memory)} are available{note}"
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


def _runs(load: Load, running: Load) -> bool:
    """Return whether `load` is not larger than the running one."""
    is_as_large = load.slurmd <= running.slurmd and load.nodes <= running.nodes and running.nodes > 0
    return is_as_large and load.wide_steps <= running.wide_steps and load.database <= running.database


def _memory_left_to_take(wanted: Needs, running: Load, host: Capacity) -> float:
    """Return the MiB that are needed beside those that the running load has already."""
    return wanted.memory - (at_rest(running, host.merges) if running.nodes else 0)


def check(load: Load, running: Load, host: Capacity) -> None:
    """Raise WrongUse when `load` does not fit on the host, with the largest number of nodes that fits; see `lacking`."""
    reason = lacking(load, running, host)
    if reason is None:
        return
    message = f"{reason}; the largest that fits is {largest(load, running, host)}"
    if load.cluster is not None:
        message = f"to have {load.nodes} of them this host {reason}; it has room for {largest(load, running, host)}"
    if load.wide_steps and (slim := largest(replace(load, wide_steps=False), running, host)) > 0:
        message += f" (STEPS=no allows {'it' if slim >= load.nodes else slim})"
    raise WrongUse(message, parameter="nodes", value=load.nodes if load.cluster is None else load.cluster)


def largest(load: Load, running: Load, host: Capacity) -> int:
    """Return the largest number of nodes, at most that of `load`, with which the load fits.

    A smaller load needs less of everything.
    """
    return _bisect(lambda nodes: lacking(replace(load, nodes=nodes), running, host) is None, load.nodes)


def instances(load: Load, running: Sequence[Load], host: Capacity, most: int) -> int:
    """Return how many instances of `load` fit on the host side by side, at most `most`.

    running: the load of each of these instances that runs already, in the order in which they are used; the others do not exist
    """
    left = [host.memory, host.tasks, host.files, host.inodes, host.disk]
    wanted = needs(load, host.merges)
    for count in range(most):
        present_load = running[count] if count < len(running) else Load(0, jobs=0)
        if not _runs(load, present_load):
            more = replace(wanted, memory=_memory_left_to_take(wanted, present_load, host))
            left = [have - need for have, need in zip(left, astuple(more))]
        if min(left) < 0:
            return count
    return most


def _bisect(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest number from 0 to `most` that fits, provided that all smaller numbers fit."""
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
    """Return the least values of kernel settings for a load, by name (see `farm.host_settings`). The role kernel_tuning explains
    them.

    The values are twice what is needed, because a host gets the maximum of the values that its instances claim, not their sum.
    """
    wanted = needs(load, merges=True)
    pages = ANONYMOUS_PAGES if load.footprint is None else load.footprint.node_pages
    burst = int(load.slurmd * pages * KSM_SLEEP / PASS)
    return {
        "kernel.pid_max": min(PID_MAX, max(131_072, 32_768 + 2 * wanted.tasks)),
        "kernel.threads-max": max(131_072, 32_768 + 2 * wanted.tasks),
        "fs.file-max": max(262_144, 65_536 + 2 * wanted.files),
        "vm.max_map_count": 262_144,
        "net.core.somaxconn": 16_384,
        "net.ipv4.tcp_max_syn_backlog": 16_384,
        "/sys/kernel/mm/ksm/run": 1,
        "/sys/kernel/mm/ksm/pages_to_scan": min(KSM_BURST, max(KSM_FEW, min(KSM_USUAL, load.slurmd), burst)),
    }
