"""Runs programs under a virtual clock for the tests, and parses the output of the C program probe.c."""

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
    """Parse lines of the form NAME KEY=NUMBER..., as probe.c prints them."""
    parsed = []
    for line in text.splitlines():
        name, *pairs = line.split()
        parsed.append((name, {key: int(value) for key, value in (pair.split("=") for pair in pairs)}))
    return parsed


@dataclass(frozen=True)
class Builds:
    """Paths of the compiled library with run-time checks (a wrong computation ends the process), and of programs that use it."""

    library: Path
    probe: Path
    event_probe: Path
    answers: Path
    beside: Path
    fake_munge: Path
    munge_plugin: Path
    munge_host: Path
    munge_linked: Path


@dataclass(frozen=True)
class Under:
    """A virtual clock under which programs are run."""

    clock: Clock
    file: Path
    builds: Builds

    def environment(self, *beside: Path, **others: str) -> dict[str, str]:
        """Return the environment of a program under this clock. The libraries `beside` are preloaded as well, after the clock's."""
        preload = ":".join(str(library) for library in (self.builds.library, *beside))
        return {**os.environ, "LC_ALL": "C", "LD_PRELOAD": preload, VARIABLE: str(self.file), **others}

    def run(self, *command: str | Path, beside: tuple[Path, ...] = (), **others: str) -> str:
        """Run a program that must end with 0 and print nothing to standard error; returns its standard output."""
        environment = self.environment(*beside, **others)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (done.returncode, done.stderr) == (0, ""), command
        return done.stdout

    def probe(self, *arguments: object, beside: tuple[Path, ...] = ()) -> list[Line]:
        """Run the probe; returns its parsed lines."""
        return lines(self.run(self.builds.probe, *(str(argument) for argument in arguments), beside=beside))

    def python(self, code: str) -> str:
        """Run Python code; returns its standard output."""
        return self.run(sys.executable, "-c", code)

    def start(self, *command: str | Path, **popen: Any) -> subprocess.Popen[str]:
        """Start a program."""
        return subprocess.Popen(command, env=self.environment(), text=True, **popen)


def without_clock(builds: Builds, *arguments: object) -> list[Line]:
    """Run the probe in real time; returns its parsed lines."""
    command = [str(builds.probe), *(str(argument) for argument in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return lines(done.stdout)


def exported(library: Path) -> set[str]:
    """Return the functions that a shared library defines, without their versions."""
    return _symbols(library, "--defined-only")


def imported(path: Path) -> set[str]:
    """Return the functions of the C library (those with a version of glibc) that a program or shared library uses."""
    return _symbols(path, "--undefined-only", "@GLIBC_")


def _symbols(path: Path, which: str, version: str = "") -> set[str]:
    table = subprocess.run(["nm", "-D", which, str(path)], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in table.splitlines()]
    return {re.sub("@.*", "", row[-1]) for row in rows if row[-2] in "TtWwUi" and version in row[-1]}
