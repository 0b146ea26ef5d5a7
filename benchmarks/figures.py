"""What a benchmark is: a measurement, the bounds that its figures shall keep, and where they are written.

Tables are Markdown, so that what a terminal shows can stand in docs/benchmarks.md as it is.
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

RESULTS = Path(__file__).parents[1] / "results/bench"
Figures = dict[str, Any]


class Skipped(Exception):
    """This machine, as it is now, is not one that the benchmark can run on; the message says what it needs."""


@dataclass(frozen=True)
class Check:
    """A figure and its bound. `at_least`: the bound is the lowest value that is good; otherwise it is the highest.

    Below zero nothing holds: memory that grew while nodes were started says that something else on the host gave it back.
    """

    figure: str
    measured: float
    bound: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.measured >= self.bound if self.at_least else 0 <= self.measured <= self.bound

    def row(self) -> list[str]:
        """Its row in the table of bounds."""
        words = f"at {'least' if self.at_least else 'most'} {self.bound:g}"
        measured = f"{self.measured:.2f}" if isinstance(self.measured, float) else str(int(self.measured))
        return [self.figure, measured, words, "yes" if self.holds else "NO"]


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table with aligned columns; numbers that are no text yet get two decimals, a missing one a dash."""
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
    """Measured figures beside their bounds."""
    return markdown(("figure", "measured", "bound", "holds"), [check.row() for check in checks])


def no_checks(figures: Figures) -> list[Check]:
    """Of a benchmark that only informs."""
    return []


@dataclass(frozen=True)
class Benchmark:
    """`measure` takes whole numbers (sizes); `report` is the text, and `checks` the bounds, of what it returned."""

    name: str
    title: str
    measure: Callable[..., Figures]
    report: Callable[[Figures], str]
    checks: Callable[[Figures], list[Check]] = no_checks

    @property
    def path(self) -> Path:
        """The file of its figures."""
        return RESULTS / f"{self.name}.json"

    def run(self, *sizes: int, **options: int) -> bool:
        """Measure, write results/bench/NAME.json and print the tables; whether it ran and all bounds hold."""
        print(f"\n{self.name}: {self.title}", flush=True)
        try:
            figures = self.measure(*sizes, **options)
        except Skipped as why:
            print(f"skipped: {why}", flush=True)
            return False
        checks = self.checks(figures)
        bounds = [{"figure": c.figure, "measured": c.measured, "bound": c.bound, "holds": c.holds} for c in checks]
        taken = datetime.now(timezone.utc).isoformat(timespec="seconds")
        RESULTS.mkdir(parents=True, exist_ok=True)
        write_json(self.path, {"taken": taken, "host": machine(), "figures": figures, "bounds": bounds})
        print(self.text(figures), flush=True)
        return all(check.holds for check in checks)

    def text(self, figures: Figures) -> str:
        """Its report, and its bounds if it has any."""
        checks = self.checks(figures)
        return "\n\n".join([self.report(figures), *([bounds_table(checks)] if checks else [])])

    def main(self) -> int:
        """Entry point: `python -m benchmarks.X 3600 5000 --idle=60`. 0: it ran and its bounds hold."""
        end_properly()
        try:
            sizes = [int(word) for word in sys.argv[1:] if not word.startswith("--")]
            options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
            numbers = {name: int(value) for name, value in options.items()}
        except ValueError:
            print("wrong use: whole numbers, and options such as --idle=60")
            return 2
        return 0 if self.run(*sizes, **numbers) else 1


def end_properly() -> None:
    """Let SIGTERM end this program as Ctrl-C does: by way of the teardown."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)


def machine() -> dict[str, object]:
    """The machine that the figures were taken on."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    return {
        "cores": os.cpu_count(),
        "memory_mib": memory,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "slurm": subprocess.run(["sinfo", "--version"], capture_output=True, text=True, check=False).stdout.strip(),
    }


def stored(benchmark: Benchmark) -> Figures | None:
    """The figures that a benchmark wrote last."""
    return json.loads(benchmark.path.read_text())["figures"] if benchmark.path.exists() else None
