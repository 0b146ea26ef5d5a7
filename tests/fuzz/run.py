"""Reads mutated files in forked processes and reports what was found.

    .venv/bin/python -m tests.fuzz.run [COUNT [SEED [READER ...]]]

reads COUNT mutated files (default 10,000) with each reader. Every file must give a result or a WrongUse of one line, within
SECONDS, and its process must stay below MEMORY. The file number n of a seed is always the same one: a finding names both.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import secrets
import signal
import sys
import time
import traceback
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from slurm_mirage.base.errors import WrongUse
from tests.fuzz.mutations import mutated
from tests.fuzz.readers import READERS, Reader

SECONDS = 5
"""Of processor time, which does not depend on what else the machine does; a file may take PATIENCE times as long in all."""
PATIENCE = 12
MEMORY = 500 << 20
"""Bytes of resident memory of a process that has read a batch of files, in the unit tests those of all readers. Python and its
libraries (some 110 MiB) are included."""
BATCH = 250


class TooSlow(BaseException):
    """A reader took longer than SECONDS. Not an Exception: no reader may catch it."""


@dataclass
class Figures:
    """Number of files and of refusals, the longest processor time (s), the largest memory (bytes), and the findings in words."""

    files: int = 0
    refused: int = 0
    slowest: float = 0.0
    largest: int = 0
    findings: list[str] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        self.files, self.refused = self.files + other.files, self.refused + other.refused
        self.slowest, self.largest = max(self.slowest, other.slowest), max(self.largest, other.largest)
        self.findings += other.findings


def content_of(reader: Reader, seed: int, number: int) -> bytes:
    """The mutated file `number` of a seed."""
    chance = random.Random(f"{seed} {reader.name} {number}")
    return mutated(chance.choice(reader.seeds), chance)


def problem(reader: Reader, path: Path) -> str | None:
    """What is wrong with how the reader takes a file; an empty text if it is refused as it should be, None if it is read."""
    try:
        reader.read(path)
    except WrongUse as error:
        return "" if len(str(error).splitlines()) == 1 and str(error).isprintable() else f"no single line: {str(error)!r}"
    except TooSlow:
        return f"took more than {SECONDS} s of processor time, or waited"
    except Exception:
        return traceback.format_exc()
    return None


def peak_memory() -> int:
    """The largest resident memory of this process so far, in bytes. ru_maxrss would include the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def read_batch(name: str, seed: int, first: int, count: int) -> Figures:
    """Reads `count` mutated files from number `first` on, in this process."""
    reader, seen = READERS[name], Figures()

    def expired(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, expired)
    signal.signal(signal.SIGPROF, expired)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "slurm.conf"
        for number in range(first, first + count):
            path.write_bytes(content_of(reader, seed, number))
            began = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.setitimer(signal.ITIMER_REAL, SECONDS * PATIENCE)
            found = problem(reader, path)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            seen.files, seen.refused = seen.files + 1, seen.refused + (found == "")
            seen.slowest = max(seen.slowest, time.process_time() - began)
            peak = peak_memory()
            if peak > MEMORY >= seen.largest:
                found = f"needs {peak >> 20} MiB of memory"
            seen.largest = max(seen.largest, peak)
            if found:
                seen.findings.append(f"reader {name}, seed {seed}, file {number}: {found}")
    return seen


def processes(count: int, batches: int | None = None) -> Executor:
    """So many processes that read files. batches: how many of them a process reads before a new one takes its place; None: all"""
    # Not forked from this process: polars' threads do not survive a fork.
    os.environ["POLARS_MAX_THREADS"] = "1"  # one for each process
    context = multiprocessing.get_context("spawn")
    # Unlike multiprocessing.Pool, which replaces workers that die without end, it raises BrokenProcessPool.
    return ProcessPoolExecutor(count, mp_context=context, max_tasks_per_child=batches)


def fuzz(name: str, seed: int, count: int, pool: Executor) -> Figures:
    """Reads `count` mutated files with a reader, in batches."""
    seen = Figures()
    batches = [(name, seed, first, min(BATCH, count - first)) for first in range(0, count, BATCH)]
    for part in pool.map(read_batch, *zip(*batches, strict=True)):
        seen.add(part)
    return seen


def main(arguments: list[str]) -> int:
    """Fuzz, print a line for each reader and the first findings of each; 1 if there are any."""
    count = int(arguments[0]) if arguments else 10_000
    seed = int(arguments[1]) if len(arguments) > 1 else secrets.randbelow(1 << 32)
    print(f"seed {seed}")
    findings: list[str] = []
    for name in arguments[2:] or READERS:
        with processes(len(os.sched_getaffinity(0)), batches=1) as pool:
            seen = fuzz(name, seed, count, pool)
        print(*seen.findings[:5], sep="\n\n")
        print(
            f"{name}: {seen.files:,} files, {seen.refused:,} refused, {len(seen.findings)} findings, "
            f"slowest {seen.slowest:.2f} s, largest {seen.largest >> 20} MiB",
            flush=True,
        )
        findings += seen.findings
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
