"""Unpacks the columns of a Parquet file once in another process, which has limits of time and memory.

A library that reads a binary format may end a process, or fill its memory, for a file made to do so. Then only that process ends.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from mirage import ROOT
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.farm.pacing import host_memory

RESERVED = 4 << 30
"""Bytes of address space that the libraries reserve and never use, and some to spare."""
LONGEST = 600
"""Seconds of processor time, and of real time, that it may take."""


def scanned(path: Path) -> pl.LazyFrame:
    """The table. A path is never taken for a pattern, and the names of folders say nothing about it."""
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def known_values(path: Path, columns: Sequence[str]) -> dict[str, int]:
    """The number of known values in each of the columns that the table has. Raises WrongUse if the process that unpacks them does
    not end well."""
    command = [sys.executable, "-B", "-m", __spec__.name, str(path), str(memory_of(path)), *columns]
    try:
        ended = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired as error:
        raise WrongUse(f"{path}: unpacking the Parquet file takes more than {LONGEST} s", parameter="trace") from error
    if ended.returncode:
        why = "" if ended.returncode == 1 else f", which ended the process that tried ({ended.returncode})"
        raise WrongUse(f"{path}: is a damaged Parquet file: its columns cannot be unpacked{why}", parameter="trace")
    known: dict[str, int] = json.loads(ended.stdout)
    return known


def memory_of(path: Path) -> int:
    """Bytes of address space that the process may have: the file, half of the available memory, and what is only reserved."""
    return RESERVED + path.stat().st_size + int(host_memory().available * 2**19)


def _main(path: str, memory: str, *columns: str) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        table = scanned(Path(path))
        schema = table.collect_schema()
        counts = [pl.col(name).is_not_null().sum() for name in columns if name in schema]
        counted = table.select(pl.lit(0).alias(""), *counts).collect(engine="streaming")
    except (pl.exceptions.PolarsError, OSError, MemoryError):
        return 1
    print(json.dumps(counted.drop("").row(0, named=True)))
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
