"""metrics.json as a table on the terminal, legible when it is piped into a file too."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from slurm_mirage import metrics as definitions

from .screen import Screen, about

# The run's own quality: value, how it is called here, and its unit.
VALIDITY = (
    ("submit_lag_p99", "submissions behind their time, 99th percentile", "s"),
    ("launch_latency_p50", "from Slurm's start of a job to the job's own, median", "s"),
    ("start_latency_p50", "from submission to start where nothing was in the way, median", "s"),
    ("runtime_stretch_p50", "run time beyond the wanted one, median", "s"),
    ("runtime_stretch_p99", "run time beyond the wanted one, 99th percentile", "s"),
    ("backfill_cycle_max", "longest pass of the backfill scheduler", "s"),
    ("nodes_not_responding", "nodes not responding, at most", ""),
    ("retries", "submissions tried again", ""),
    ("resubmitted", "jobs submitted again after a restart", ""),
    ("limits_extended", "time limits extended", ""),
    ("disagreements", "contradictions between the jobs' record and Slurm's", ""),
    ("host_cpu", "processors of the host busy", "share"),
    ("clock_speed", "speed of Slurm's clock", ""),
)


def value_text(value: float | None, unit: str) -> str:
    """A figure with its unit; - for one that is unknown."""
    if value is None:
        return "-"
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "s":
        return f"{value:.2f} s" + (f" ({about(value)})" if value >= 90 else "")
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _table(rows: list[tuple[str, str, str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("metric", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("meaning")
    for row in rows:
        table.add_row(*row)
    return table


def console_of(screen: Screen) -> Console:
    """What rich prints to. Without a terminal it would take 80 columns for granted."""
    return Console(file=screen.stream, width=None if screen.is_terminal else 110, highlight=False)


def show(metrics: dict[str, Any], screen: Screen) -> None:
    """Print the jobs by their end, the metrics (for a missing one, why), and how well the run itself went."""
    screen.clear()
    console = console_of(screen)
    jobs = ", ".join(f"{count} {state}" for state, count in metrics["jobs"].items() if count)
    console.print(f"\njobs: {jobs or 'none'} (times in seconds of the trace)")
    rows = definitions.table(metrics)
    console.print(_table([(name, value_text(value, unit), meaning) for name, value, unit, meaning in rows]))
    for reason, count in metrics.get("excluded", {}).items():
        console.print(f"left out: {count} ({reason})")
    if validity := metrics.get("validity"):
        known = [(name, value_text(validity.get(name), unit), words) for name, words, unit in VALIDITY if name in validity]
        console.print(_table(known))
