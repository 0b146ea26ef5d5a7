"""Programs under a virtual clock: what the tests start, and what they read from the C program probe.c."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_mirage.clock.clock import Clock

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "files" / "virtual_clock"
SECOND = 10**9
PATIENCE = 120.0  # seconds until a test is given up: how long a loaded machine may take, not how long it should
VARIABLE = "SLURM_MIRAGE_CLOCK"

Line = tuple[str, dict[str, int]]


def lines(text: str) -> list[Line]:
    """NAME KEY=NUMBER... of each line."""
    found = []
    for line in text.splitlines():
        name, *pairs = line.split()
        found.append((name, {key: int(value) for key, value in (pair.split("=") for pair in pairs)}))
    return found


@dataclass(frozen=True)
class Builds:
    """What was compiled: the library with run-time checks (a wrong computation ends the process), and programs that use it."""

    library: Path
    probe: Path
    beside: Path
    fake_munge: Path
    munge_plugin: Path
    munge_host: Path
    munge_linked: Path


@dataclass(frozen=True)
class Under:
    """A virtual clock, and programs under it."""

    clock: Clock
    file: Path
    builds: Builds

    def environment(self, *beside: Path, **others: str) -> dict[str, str]:
        """For a program under this clock; the libraries `beside` are preloaded too, behind it."""
        preload = ":".join(str(library) for library in (self.builds.library, *beside))
        return {**os.environ, "LC_ALL": "C", "LD_PRELOAD": preload, VARIABLE: str(self.file), **others}

    def run(self, *command: str | Path, beside: tuple[Path, ...] = (), **others: str) -> str:
        """What a program that ends well and silently writes."""
        environment = self.environment(*beside, **others)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (done.returncode, done.stderr) == (0, ""), command
        return done.stdout

    def probe(self, *arguments: object, beside: tuple[Path, ...] = ()) -> list[Line]:
        """The probe's lines."""
        return lines(self.run(self.builds.probe, *(str(argument) for argument in arguments), beside=beside))

    def python(self, code: str) -> str:
        """What the code prints."""
        return self.run(sys.executable, "-c", code)

    def start(self, *command: str | Path, **popen: Any) -> subprocess.Popen[str]:
        """A running program."""
        return subprocess.Popen(command, env=self.environment(), text=True, **popen)


def without_clock(builds: Builds, *arguments: object) -> list[Line]:
    """The probe's lines in real time."""
    command = [str(builds.probe), *(str(argument) for argument in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return lines(done.stdout)


def exported(library: Path) -> set[str]:
    """The functions that a shared library defines, without their versions."""
    return _symbols(library, "--defined-only")


def imported(path: Path) -> set[str]:
    """The functions of the C library that a program or shared library uses (those with a version of glibc)."""
    return _symbols(path, "--undefined-only", "@GLIBC_")


def _symbols(path: Path, which: str, version: str = "") -> set[str]:
    table = subprocess.run(["nm", "-D", which, str(path)], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in table.splitlines()]
    return {re.sub("@.*", "", row[-1]) for row in rows if row[-2] in "TtWwUi" and version in row[-1]}
