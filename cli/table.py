"""metrics.json as a table on the terminal, legible when it is piped into a file too."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console, RenderableType
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


def print_all(screen: Screen, *parts: RenderableType) -> None:
    """Print texts and tables of rich. Without a terminal rich would take 80 columns for granted."""
    width = None if screen.is_terminal else 110
    console = Console(file=screen.stream, width=width, highlight=False, markup=False)
    with console.capture() as printed:
        for part in parts:
            console.print(part)
    # Tables are padded with blanks, which are seen where the text is selected, and in files.
    screen.say("\n".join(line.rstrip() for line in printed.get().splitlines()))


def show(metrics: dict[str, Any], screen: Screen) -> None:
    """Print the jobs by their end, the metrics (for a missing one, why), and how well the run itself went."""
    jobs = ", ".join(f"{count} {state}" for state, count in metrics["jobs"].items() if count)
    parts: list[RenderableType] = [f"\njobs: {jobs or 'none'} (times in seconds of the trace)"]
    rows = definitions.table(metrics)
    if all(value is None for _, value, _, _ in rows):
        parts.append(f"no metrics: {', '.join(dict.fromkeys(why for _, _, _, why in rows))}")
    else:
        parts.append(_table([(name, value_text(value, unit), meaning) for name, value, unit, meaning in rows]))
    parts += [f"left out: {count} ({reason})" for reason, count in metrics.get("excluded", {}).items()]
    if validity := metrics.get("validity"):
        known = [(name, value_text(validity.get(name), unit), words) for name, words, unit in VALIDITY if name in validity]
        parts.append(_table(known))
    print_all(screen, *parts)
