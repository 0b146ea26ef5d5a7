"""Defines a benchmark: a measurement, the bounds of its figures, and the file of its results.

Tables are Markdown, so that the output can be copied to docs/accuracy.md.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from slurm_mirage.base.files import write_json
from slurm_mirage.base.printing import say

RESULTS = Path(__file__).parents[1] / "results/bench"
Figures = dict[str, Any]


class Skipped(Exception):
    """The benchmark cannot run on this machine in its current state; the message says what it needs."""


@dataclass(frozen=True)
class Check:
    """A figure and its bound: a minimum if `at_least` is set, otherwise a maximum.

    A negative figure never holds: free memory that grew while nodes were started shows that another process released memory.
    """

    figure: str
    measured: float
    bound: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.measured >= self.bound if self.at_least else 0 <= self.measured <= self.bound

    def row(self) -> list[str]:
        """Return the row of the table of bounds."""
        words = f"at {'least' if self.at_least else 'most'} {self.bound:g}"
        measured = f"{self.measured:.2f}" if isinstance(self.measured, float) else str(int(self.measured))
        return [self.figure, measured, words, "yes" if self.holds else "NO"]


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table with aligned columns. Floats get two decimals, None becomes a dash."""
    texts = [list(head), *([_cell(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in texts]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def bounds_table(checks: Iterable[Check]) -> str:
    """Return a table of the measured figures and their bounds."""
    return markdown(("figure", "measured", "bound", "holds"), [check.row() for check in checks])


def no_checks(figures: Figures) -> list[Check]:
    """Checks of a benchmark without bounds."""
    return []


@dataclass(frozen=True)
class Benchmark:
    """A benchmark. `measure` takes whole numbers (sizes) or a selection of runs; `report` and `checks` turn its figures into a
    text and into bounds."""

    name: str
    title: str
    measure: Callable[..., Figures]
    report: Callable[[Figures], str]
    checks: Callable[[Figures], list[Check]] = no_checks

    @property
    def path(self) -> Path:
        """Path of the file with the figures."""
        return RESULTS / f"{self.name}.json"

    def run(self, *sizes: Any, **options: int) -> bool:
        """Measure, write results/bench/NAME.json and print the tables. Returns whether it ran and all bounds hold."""
        say("", f"{self.name}: {self.title}")
        try:
            figures = self.measure(*sizes, **options)
        except Skipped as why:
            say(f"skipped: {why}")
            return False
        checks = self.checks(figures)
        bounds = [{"figure": c.figure, "measured": c.measured, "bound": c.bound, "holds": c.holds} for c in checks]
        taken = datetime.now(timezone.utc).isoformat(timespec="seconds")
        RESULTS.mkdir(parents=True, exist_ok=True)
        write_json(self.path, {"taken": taken, "host": machine(), "figures": figures, "bounds": bounds})
        say(*self.text(figures).splitlines())
        return all(check.holds for check in checks)

    def text(self, figures: Figures) -> str:
        """Return the report and the table of bounds, if there are any."""
        checks = self.checks(figures)
        return "\n\n".join([self.report(figures), *([bounds_table(checks)] if checks else [])])

    def main(self) -> int:
        """Entry point: `python -m benchmarks.X 3600 5000 --idle=60`. Returns 0 if it ran and its bounds hold."""
        end_properly()
        try:
            sizes = [int(word) for word in sys.argv[1:] if not word.startswith("--")]
            options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
            numbers = {name: int(value) for name, value in options.items()}
        except ValueError:
            say("wrong use: the arguments must be whole numbers, and options such as --idle=60")
            return 2
        return 0 if self.run(*sizes, **numbers) else 1

    def main_of_runs(self, select: Callable[[], object]) -> int:
        """Entry point of a benchmark of runs that are kept, so that the same command goes on after an interruption.

        select: what `measure` is given, from the arguments; a ValueError says what these may be. Returns 0 if all selected runs
        finished and the bounds hold.
        """
        end_properly()
        try:
            selection = select()
        except ValueError as error:
            say(f"wrong use: {error}")
            return 2
        try:
            return 0 if self.run(selection) else 1
        except RuntimeError as error:
            say(f"failed: {error}")
            return 1
        except KeyboardInterrupt:
            say("failed: interrupted; run the same command again to resume")
            return 1


def end_properly() -> None:
    """Let SIGTERM raise SystemExit, so that the instance is removed as after Ctrl-C."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)


def machine() -> dict[str, object]:
    """Describe the machine on which the figures were measured."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    return {
        "cores": os.cpu_count(),
        "memory_mib": memory,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "slurm": subprocess.run(["sinfo", "--version"], capture_output=True, text=True, check=False).stdout.strip(),
    }


def stored(benchmark: Benchmark) -> Figures | None:
    """Return the figures of a benchmark's last run; None if there are none."""
    return json.loads(benchmark.path.read_text())["figures"] if benchmark.path.exists() else None
