"""Writes, reads and prints sweep.csv, which has a line for each shrink factor of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from rich import box
from rich.table import Table

from mirage.experiment.endings import Ending
from mirage.knobs.parse import format_number
from mirage.metrics.registry import METRICS
from mirage.records.file_names import SWEEP_FILE
from mirage.records.run_folder import RunFolder
from mirage.records.sweep_lines import lines_of
from mirage.terminal.screen import Screen
from mirage.terminal.summary import trust
from mirage.terminal.table import print_all, rounded_text
from mirage.verdict.features import unused_in_all
from slurm_mirage.base import csv_text
from slurm_mirage.base.files import write_atomically

FIGURES = tuple(name for name, metric in METRICS.items() if metric.in_sweep)
JOBS = ("submitted", "completed", "failed", "cancelled", "timeout", "lost")
VALIDITY = ("submit_lag_p99", "start_latency_p50", "runtime_stretch_p99")

SHOWN = tuple(name for name in FIGURES if METRICS[name].in_sweep == "shown")
# Most lines of that table; of more runs the first and the last ones are printed.
LINES = 20


def _rounded(value: float | None) -> float | None:
    """The value rounded to a millionth, which removes rounding errors of the conversion of times."""
    return round(value, 6) if isinstance(value, float) else value


def show(folder: Path, screen: Screen) -> None:
    """Print the main columns of sweep.csv, and what the numbers rest on."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("shrink", "ending", *SHOWN):
        table.add_column(name, justify="left" if name == "ending" else "right", no_wrap=True)
    lines = lines_of(folder)
    for line in lines if len(lines) <= LINES else [*lines[: LINES // 2], *lines[-LINES // 2 :]]:
        table.add_row(line["shrink"], line["ending"], *(_text(name, line.get(name)) for name in SHOWN))
    rest = [f"{len(lines) - LINES} runs between them are in sweep.csv"] if len(lines) > LINES else []
    metrics = {line["run"]: RunFolder(folder.parent / line["run"]).metrics for line in lines}
    known = {run: content for run, content in metrics.items() if content}
    unused = unused_in_all(known.values(), RunFolder(folder).experiment)
    print_all(screen, table, *rest, *(trust(known, unused) if known else []))


def _text(name: str, value: str | None) -> str:
    return rounded_text(float(value), METRICS[name].unit, is_short=True) if value else "-"


def write(folder: Path, runs: Sequence[tuple[Decimal, Path, Ending]]) -> None:
    """Write sweep.csv. runs: shrink factor, folder and ending of the runs that have ended."""
    write_atomically(folder / SWEEP_FILE, content(runs))


def runs_of(folder: Path) -> list[tuple[Decimal, Path, Ending]]:
    """The runs in sweep.csv of a finished sweep: shrink factor, folder, ending."""
    return [(Decimal(line["shrink"]), folder.parent / line["run"], Ending(line["ending"], "")) for line in lines_of(folder)]


def content(runs: Sequence[tuple[Decimal, Path, Ending]]) -> str:
    """The content of sweep.csv. runs: as in `write`. Unknown values are empty."""
    rows: list[Sequence[object]] = [["shrink", "run", "ending", *JOBS, *FIGURES, *VALIDITY]]
    for shrink, run, ending in runs:
        metrics = RunFolder(run).metrics
        parts = (("jobs", JOBS), ("metrics", FIGURES), ("validity", VALIDITY))
        figures = [_rounded(metrics.get(part, {}).get(name)) for part, names in parts for name in names]
        rows.append([format_number(shrink), run.name, ending.word, *figures])
    return csv_text.text(rows)
