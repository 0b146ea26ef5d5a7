"""What the benchmarks read of the host: memory, processor time, and the words that they say meanwhile."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from benchmarks.figures import Skipped

_libc = ctypes.CDLL(None)
TICKS = os.sysconf("SC_CLK_TCK")
REST, REST_MIB = 10, 5.0  # samples, two seconds apart, that may differ by so many MiB: the memory is at rest
PATIENCE = 300.0  # seconds to wait for that
SAID_EVERY = 10.0  # seconds between two lines of progress; what takes less than half of it is done in silence
SPARE_MIB = 2048  # beside what the bounds allow: slurmd that are not merged yet, and the rest of the host
NODE_MIB, JOB_MIB = 0.6, 2.0  # the bounds of a node and of a running job


class Progress:
    """Lines that say how far something is, not too many of them."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.began = time.monotonic()
        self.said = self.began - SAID_EVERY / 2

    def tell(self, how_far: str) -> None:
        """Say it, if nothing was said for a while."""
        now = time.monotonic()
        if now - self.said >= SAID_EVERY:
            self.said = now
            print(f"  {self.what}: {now - self.began:.0f} s, {how_far}", flush=True)


def pause(seconds: float, what: str) -> None:
    """Wait, saying for what."""
    progress = Progress(what)
    while (left := progress.began + seconds - time.monotonic()) > 0:
        progress.tell(f"{left:.0f} s left")
        time.sleep(min(left, 1.0))


def available_mib() -> float:
    """MemAvailable of the host (proc(5))."""
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) / 1024


def settled_mib() -> float:
    """MemAvailable once it has come to rest: the kernel gives back the (merged) pages of ended processes bit by bit."""
    seen = [available_mib()]
    progress = Progress("the host's memory comes to rest")
    while len(seen) < REST or max(seen[-REST:]) - min(seen[-REST:]) > REST_MIB:
        if time.monotonic() > progress.began + PATIENCE:
            raise Skipped(f"needs a host at rest; something else runs: {seen[-REST:]} MiB available within {2 * REST} s")
        time.sleep(2)
        seen.append(available_mib())
        progress.tell(f"{seen[-1]:.0f} MiB available")
    return seen[-1]


def require(nodes: int, jobs: int = 0) -> None:
    """Raise Skipped unless the host has room for so many nodes and jobs, if they keep their bounds."""
    needed = nodes * NODE_MIB + jobs * JOB_MIB + SPARE_MIB
    available = available_mib()
    if available < needed:
        raise Skipped(f"{nodes} nodes: needs {needed / 1024:.1f} GiB, {available / 1024:.1f} GiB are available")


def cpu_seconds() -> float:
    """CPU time that the whole host has spent since its boot, in seconds: user, nice, system, irq and softirq of /proc/stat.

    Of the host, because that holds what has ended meanwhile, and the kernel's own work, ksmd's for instance.
    """
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:7])) / TICKS


def _own_seconds(pid: int) -> float:
    """CPU time of a process, to the nanosecond (clock_getcpuclockid(3)); /proc/PID/stat rounds it to 10 ms. Raises OSError."""
    clock = ctypes.c_int()
    if number := _libc.clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise OSError(number, os.strerror(number))
    return time.clock_gettime(clock.value)


def _stat(pid: int) -> tuple[str, list[str]]:
    """Command name of a process, and the fields of /proc/PID/stat from the third (state) on. Raises OSError."""
    text = Path(f"/proc/{pid}/stat").read_text()
    end = text.rindex(")")
    return text[text.index("(") + 1 : end], text[end + 2 :].split()


def ksmd_seconds() -> float:
    """CPU time of the kernel's thread that merges pages, in seconds since boot; 0 where there is none, or it is not to be seen."""
    for entry in os.scandir("/proc"):
        with suppress(OSError):
            if entry.name.isdigit() and Path(entry.path, "comm").read_text() == "ksmd\n":
                return _own_seconds(int(entry.name))
    return 0.0


Account = dict[tuple[int, str], tuple[str, float, float]]


def account(pids: Iterable[int]) -> Account:
    """Of each process, known by id and start time: its command's name, its CPU seconds, and those of children it has waited for
    (rounded down to 10 ms)."""
    found: Account = {}
    for pid in pids:
        with suppress(OSError):
            name, fields = _stat(pid)
            found[pid, fields[19]] = (name, _own_seconds(pid), (int(fields[13]) + int(fields[14])) / TICKS)
    return found


def spent(before: Account, after: Account) -> dict[str, float]:
    """CPU seconds between two accounts by the command's name; those of ended children are `NAME's children`.

    The children of the farm (python3), which adopts orphans, are slurmstepd and jobs: slurmd forks twice to start them.
    """
    sums: dict[str, float] = {}
    for process, (name, own, children) in after.items():
        _, own_before, children_before = before.get(process, (name, 0.0, 0.0))
        title = "farm" if name.startswith("python") else name
        for key, seconds in ((title, own - own_before), (f"{title}'s children", children - children_before)):
            sums[key] = sums.get(key, 0.0) + seconds
    return {key: round(seconds, 2) for key, seconds in sorted(sums.items()) if seconds > 0}


def numbers_of(pid: int, file: str) -> dict[str, int]:
    """The numbers of a /proc/PID file of lines `Name: NUMBER ...`. Raises OSError."""
    text = Path(f"/proc/{pid}/{file}").read_text()
    return {name: int(number) for name, number in re.findall(r"^(\w+):\s+(\d+)", text, re.MULTILINE)}


def mean_memory(pids: Iterable[int]) -> dict[str, float]:
    """Means over processes, in KiB: proportional set size (PSS), and what is private. One that has ended is left out."""
    seen = []
    for pid in pids:
        with suppress(OSError):
            seen.append(numbers_of(pid, "smaps_rollup"))
    seen = [one for one in seen if one]
    count = len(seen)
    return {
        "pss_kib": sum(one["Pss"] for one in seen) / count if count else 0.0,
        "private_kib": sum(one["Private_Clean"] + one["Private_Dirty"] for one in seen) / count if count else 0.0,
        "processes": count,
    }
