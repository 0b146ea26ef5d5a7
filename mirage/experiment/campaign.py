"""Compares the finished runs of a campaign: writes comparison.json, prints a table and returns the ending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table

from mirage.experiment import report
from mirage.experiment.endings import Ending
from mirage.metrics.registry import METRICS, main_of_comparison
from mirage.records.schedule import read_schedule
from mirage.statistics.comparison_text import figures, judged, p_text
from mirage.terminal.screen import Screen
from mirage.terminal.table import print_all, value_text
from slurm_mirage.base.files import read_json, write_json

MARGIN = 5.0  # per cent
_LONG = 1000  # per cent: more says only that hardly anything is known


@dataclass(frozen=True)
class Member:
    """A run of a campaign: unique label of its configuration, number of the replica, folder in results/RUN."""

    label: str
    replica: int
    folder: str


def conclude(folder: Path, members: Sequence[Member], seed: int, screen: Screen, margin: float = MARGIN) -> Ending:
    """Compare the finished runs in `folder`, write comparison.json, status.json and the pages, and print the differences.

    margin: per cent of the baseline's mean within which two configurations are equivalent
    """
    content = computed(folder, members, seed, margin)
    write_json(folder / "comparison.json", content)
    show(content, screen)
    ending = _ending(folder, content)
    ending.store(folder)
    report.write(folder, screen)
    return ending


def members_of(experiment: Mapping[str, Any]) -> list[Member]:
    """The runs of a campaign, from its experiment.json."""
    return [Member(**member) for member in experiment["comparison"]]


def computed(folder: Path, members: Sequence[Member], seed: int, margin: float = MARGIN) -> dict[str, Any]:
    """Content of comparison.json, from the runs' jobs.csv, experiment.json and metrics.json."""
    from mirage.statistics.comparison import Run, compare  # imports scipy, which other targets do not need

    runs = []
    for member in members:
        run = folder / member.folder
        schedule, metrics = read_schedule(run / "jobs.csv"), read_json(run / "metrics.json")
        runs.append(
            Run(
                member.label,
                member.replica,
                member.folder,
                schedule.jobs,
                metrics,
                schedule.immediate_below,
                schedule.suspensions,
                schedule.allocations,
                schedule.executions,
            )
        )
    return compare(runs, seed, margin=margin)


def _ending(folder: Path, content: Mapping[str, Any]) -> Ending:
    for word in ("invalid", "inconclusive"):
        if named := content["validity"].get(word):
            reasons = "; ".join(f"{run}: {', '.join(why)}" for run, why in named.items())
            return Ending(word, f"{len(named)} of {_runs(content)} runs: {reasons}; results/{folder.name}/comparison.json")
    base = content["baseline"]
    pairs = _of_baseline(content["metrics"][content["answer"]], base)
    sentences = [f"{pair['configuration']} against {base}: {pair['words']}" for pair in pairs]
    return Ending("ok", f"{'. '.join(sentences)} (results/{folder.name}/comparison.json)")


def _runs(content: Mapping[str, Any]) -> int:
    return sum(len(configuration["runs"]) for configuration in content["configurations"])


def _of_baseline(metric: Mapping[str, Any], base: str) -> list[dict[str, Any]]:
    return [pair for pair in metric["pairs"] if pair["baseline"] == base]


def show(content: Mapping[str, Any], screen: Screen) -> None:
    """Print the main metrics of each configuration against the first one, and which of them differ, in words.

    All metrics, and waits by class of jobs, are on the page and in comparison.json: they would fill several screens.
    """
    base, jobs = content["baseline"], content["jobs"]
    left_out = f", {jobs['left_out']} could not be measured in all runs" if jobs["left_out"] else ""
    parts: list[RenderableType] = [f"\n{jobs['compared']} jobs{left_out} (times in seconds of the trace)"]
    others = [configuration["label"] for configuration in content["configurations"] if configuration["label"] != base]
    for place, other in enumerate(others):
        parts += [_metrics_table(content, base, other, place), *_sentences(content, base, other, place)]
    for verdict, words in (("invalid", "not valid"), ("inconclusive", "inconclusive")):
        parts += [f"{run} is {words}: {'; '.join(reasons)}" for run, reasons in content["validity"].get(verdict, {}).items()]
    if earlier := content["method"].get("without_emulation_errors"):
        parts.append(f"what the emulation adds is in no interval: {', '.join(earlier)} of an earlier release do not say it")
    print_all(screen, *parts)


def _sentences(content: Mapping[str, Any], base: str, other: str, place: int) -> list[str]:
    """A line for each main metric that differs, and one with the number of other metrics that differ."""
    pairs = {name: _of_baseline(metric, base)[place] for name, metric in content["metrics"].items() if not METRICS[name].same_as}
    differ = {name: pair["words"] for name, pair in pairs.items() if pair["verdict"] in ("lower", "higher")}
    main = main_of_comparison(content)
    lines = [words for name, words in differ.items() if name in main]
    if more := len(differ) - len(lines):
        lines.append(f"{more} other metrics differ; the report has them")
    return [f"{other} against {base}:", *(f"  {line}" for line in lines or ["nothing differs significantly"])]


def _metrics_table(content: Mapping[str, Any], base: str, other: str, place: int) -> Table:
    table = _table("metric", base, other)
    for name in main_of_comparison(content):
        metric = content["metrics"][name]
        pair = _of_baseline(metric, base)[place]
        table.add_row(name, *_cells(pair, metric["unit"]), judged(pair["verdict"], metric["better"]))
    return table


def _table(*heads: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(heads[0])
    for head in (*heads[1:], "difference", "95 % interval", "p"):
        table.add_column(head, justify="right")
    table.add_column("verdict")
    return table


def _cells(pair: Mapping[str, Any], unit: str) -> list[str]:
    """Both means, difference, interval (in per cent, or in the metric's unit where the first mean is 0) and corrected p."""
    means = [_mean(pair[name], unit) for name in ("baseline_mean", "mean")]
    if pair["percent"] is None:
        difference, between = pair["difference"], pair["interval"]
    else:
        difference, between, unit = pair["percent"], pair["percent_interval"], "%"
    return [
        *means,
        "-" if difference is None else f"{_signed(difference, unit)} {unit}".strip(),
        "-" if between is None else f"{_signed(between[0], unit)} to {_signed(between[1], unit)}",
        "-" if pair["p_corrected"] is None else p_text(pair["p_corrected"]),
    ]


def _signed(value: float, unit: str) -> str:
    if unit == "%" and value > _LONG:
        return f"over {_LONG}"
    return f"{'-' if value < 0 else '+'}{figures(abs(value))}" if value else "0"


def _mean(value: float | None, unit: str) -> str:
    return f"{value:.0f} s" if unit == "s" and value is not None and value >= 100 else value_text(value, unit)
