"""Writes, reads and prints sweep.csv, which has a line for each shrink factor of a sweep."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from mirage.experiment.endings import Ending
from mirage.knobs.parse import format_number
from mirage.metrics.registry import METRICS
from mirage.terminal.screen import Screen
from mirage.terminal.table import print_all
from mirage.traces.csv_frame import check_lines
from slurm_mirage.base.files import read_json, write_atomically

FIGURES = tuple(name for name, metric in METRICS.items() if metric.in_sweep)
JOBS = ("submitted", "completed", "failed", "cancelled", "timeout", "lost")
VALIDITY = ("submit_lag_p99", "start_latency_p50", "runtime_stretch_p99")

# Columns printed on the terminal.
SHOWN = ("shrink", "ending", "wait_mean", "response_mean", "bounded_slowdown_mean", "utilisation", "makespan")


def _rounded(value: float | None) -> float | None:
    """The value rounded to a millionth, which removes rounding errors of the conversion of times."""
    return round(value, 6) if isinstance(value, float) else value


def show(folder: Path, screen: Screen) -> None:
    """Print the main columns of sweep.csv."""
    table = Table(*SHOWN, box=box.SIMPLE_HEAD, pad_edge=False)
    with (folder / "sweep.csv").open(newline="") as stream:
        for line in csv.DictReader(stream):
            table.add_row(*(line[name] for name in SHOWN))
    print_all(screen, table)


def write(folder: Path, runs: Sequence[tuple[Decimal, Path, Ending]]) -> None:
    """Write sweep.csv. runs: shrink factor, folder and ending of the runs that have ended."""
    write_atomically(folder / "sweep.csv", content(runs))


def runs_of(folder: Path) -> list[tuple[Decimal, Path, Ending]]:
    """The runs in sweep.csv of a finished sweep: shrink factor, folder, ending."""
    check_lines(folder / "sweep.csv", "run")
    with (folder / "sweep.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    return [(Decimal(line["shrink"]), folder.parent / line["run"], Ending(line["ending"], "")) for line in lines]


def content(runs: Sequence[tuple[Decimal, Path, Ending]]) -> str:
    """The content of sweep.csv. runs: as in `write`. Unknown values are empty."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["shrink", "run", "ending", *JOBS, *FIGURES, *VALIDITY])
    for shrink, run, ending in runs:
        metrics: dict[str, Any] = read_json(run / "metrics.json") or {}
        parts = (("jobs", JOBS), ("metrics", FIGURES), ("validity", VALIDITY))
        figures = [_rounded(metrics.get(part, {}).get(name)) for part, names in parts for name in names]
        writer.writerow([format_number(shrink), run.name, ending.word, *figures])
    return stream.getvalue()
