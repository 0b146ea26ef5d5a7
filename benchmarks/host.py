"""Reads the host's memory and processor time, and prints the progress of the benchmarks."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from benchmarks.figures import Skipped
from slurm_mirage.base.printing import say

_libc = ctypes.CDLL(None)
TICKS = os.sysconf("SC_CLK_TCK")
REST, REST_MIB = 10, 5.0  # memory is stable when so many samples, taken every two seconds, differ by at most so many MiB
PATIENCE = 300.0  # time limit for stable memory in seconds
SAID_EVERY = 10.0  # seconds between two lines of progress; the first one after half of it
SPARE_MIB = 2048  # memory in addition to the bounds: for slurmd before their pages are merged, and for the rest of the host
NODE_MIB, JOB_MIB = 0.6, 2.0  # bounds of the memory of a node and of a running job


class Progress:
    """Prints lines of progress, at most one every SAID_EVERY seconds."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.began = time.monotonic()
        self.said = self.began - SAID_EVERY / 2

    def tell(self, how_far: str) -> None:
        """Print a line, unless one was printed recently."""
        now = time.monotonic()
        if now - self.said >= SAID_EVERY:
            self.said = now
            say(f"  {self.what}: {now - self.began:.0f} s, {how_far}")


def pause(seconds: float, what: str) -> None:
    """Wait for some seconds and print the progress."""
    progress = Progress(what)
    while (left := progress.began + seconds - time.monotonic()) > 0:
        progress.tell(f"{left:.0f} s left")
        time.sleep(min(left, 1.0))


def available_mib() -> float:
    """Return MemAvailable of the host in MiB (proc(5))."""
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) / 1024


def settled_mib() -> float:
    """Wait until MemAvailable is stable, and return it in MiB: the kernel frees the pages of ended processes gradually.

    Raises Skipped.
    """
    seen = [available_mib()]
    progress = Progress("waiting for stable memory of the host")
    while len(seen) < REST or max(seen[-REST:]) - min(seen[-REST:]) > REST_MIB:
        if time.monotonic() > progress.began + PATIENCE:
            raise Skipped(f"needs an idle host, whose memory is stable: {seen[-REST:]} MiB were available within {2 * REST} s")
        time.sleep(2)
        seen.append(available_mib())
        progress.tell(f"{seen[-1]:.0f} MiB available")
    return seen[-1]


def require(nodes: int, jobs: int = 0) -> None:
    """Raise Skipped unless the host has enough memory for so many nodes and jobs within their bounds."""
    needed = nodes * NODE_MIB + jobs * JOB_MIB + SPARE_MIB
    available = available_mib()
    if available < needed:
        raise Skipped(f"{nodes} nodes: needs {needed / 1024:.1f} GiB, {available / 1024:.1f} GiB are available")


def cpu_seconds() -> float:
    """Return the CPU time of the whole host since its boot in seconds: user, nice, system, irq and softirq of /proc/stat.

    The host's CPU time includes ended processes and the kernel's own work, such as ksmd's.
    """
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:7])) / TICKS


def _own_seconds(pid: int) -> float:
    """Return the CPU time of a process in seconds, with nanosecond resolution (clock_getcpuclockid(3)). Raises OSError."""
    clock = ctypes.c_int()
    if number := _libc.clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise OSError(number, os.strerror(number))
    return time.clock_gettime(clock.value)


def _stat(pid: int) -> tuple[str, list[str]]:
    """Return the command name of a process and the fields of /proc/PID/stat from the third (state) on. Raises OSError."""
    text = Path(f"/proc/{pid}/stat").read_text()
    end = text.rindex(")")
    return text[text.index("(") + 1 : end], text[end + 2 :].split()


def ksmd_seconds() -> float:
    """Return the CPU time of the kernel thread ksmd in seconds since boot; 0 if it does not exist or is not visible."""
    for entry in os.scandir("/proc"):
        with suppress(OSError):
            if entry.name.isdigit() and Path(entry.path, "comm").read_text() == "ksmd\n":
                return _own_seconds(int(entry.name))
    return 0.0


Account = dict[tuple[int, str], tuple[str, float, float]]


def account(pids: Iterable[int]) -> Account:
    """Return the command name, the CPU seconds, and the CPU seconds of waited-for children of each process, by id and start time.

    The children's seconds are rounded down to 10 ms.
    """
    found: Account = {}
    for pid in pids:
        with suppress(OSError):
            name, fields = _stat(pid)
            found[pid, fields[19]] = (name, _own_seconds(pid), (int(fields[13]) + int(fields[14])) / TICKS)
    return found


def spent(before: Account, after: Account) -> dict[str, float]:
    """Return the CPU seconds between two accounts by command name; those of ended children are named `NAME's children`.

    The farm (python3) adopts orphans: its children are slurmstepd and jobs, because slurmd forks twice to start them.
    """
    sums: dict[str, float] = {}
    for process, (name, own, children) in after.items():
        _, own_before, children_before = before.get(process, (name, 0.0, 0.0))
        title = "farm" if name.startswith("python") else name
        for key, seconds in ((title, own - own_before), (f"{title}'s children", children - children_before)):
            sums[key] = sums.get(key, 0.0) + seconds
    return {key: round(seconds, 2) for key, seconds in sorted(sums.items()) if seconds > 0}


def numbers_of(pid: int, file: str) -> dict[str, int]:
    """Return the numbers of a /proc/PID file with lines `Name: NUMBER ...`. Raises OSError."""
    text = Path(f"/proc/{pid}/{file}").read_text()
    return {name: int(number) for name, number in re.findall(r"^(\w+):\s+(\d+)", text, re.MULTILINE)}


def mean_memory(pids: Iterable[int]) -> dict[str, float]:
    """Return the means of the proportional set size (PSS) and of the private memory over the running processes, in KiB."""
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
