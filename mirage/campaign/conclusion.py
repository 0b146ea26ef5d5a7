"""Compares the finished runs of a campaign: writes comparison.json, prints a table and returns the ending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import RenderableType
from rich.table import Table

from mirage.experiment import report
from mirage.experiment.endings import Ending
from mirage.metrics.registry import METRICS, main_of_comparison
from mirage.records.file_names import COMPARISON_FILE
from mirage.records.run_folder import RunFolder
from mirage.records.schedule import of_run
from mirage.statistics.comparison_text import DIFFERENT, QUESTIONS, THESE_JOBS, figures, judged, others, pair_of
from mirage.terminal.screen import Screen
from mirage.terminal.summary import trust
from mirage.terminal.table import print_all, rounded_text
from mirage.verdict.features import unused_in_all
from slurm_mirage.base.files import write_json

if TYPE_CHECKING:
    from mirage.statistics.comparison import Run

MARGIN = 5.0  # per cent
LINES = 35
"""Most lines of the end of a comparison of two configurations with the path of its page and an ending of two lines."""
_BESIDE = 17  # of these, lines beside the metrics of the table and the sentences after the answer, which may take two lines
_BESIDE_EACH_OTHER = 4  # configurations whose differences have columns in one table
_SMALL = 0.01  # per cent: less is shown as 0
_LONG = 1000  # per cent: more says only that hardly anything is known


@dataclass(frozen=True)
class Member:
    """A run of a campaign: unique label of its configuration, number of the replica, folder in results/RUN."""

    label: str
    replica: int
    folder: str


def conclude(folder: Path, members: Sequence[Member], screen: Screen, margin: float = MARGIN) -> Ending:
    """Compare the finished runs in `folder`, write comparison.json, status.json and the pages, and print the differences.

    margin: per cent of the baseline's mean within which two configurations are equivalent
    """
    content = computed(folder, members, margin)
    write_json(folder / COMPARISON_FILE, content)
    show(folder, content, screen)
    ending = _ending(folder, content)
    ending.store(folder)
    report.write(folder, screen)
    return ending


def members_of(experiment: Mapping[str, Any]) -> list[Member]:
    """The runs of a campaign, from its experiment.json."""
    return [Member(**member) for member in experiment["comparison"]]


def computed(folder: Path, members: Sequence[Member], margin: float = MARGIN) -> dict[str, Any]:
    """Content of comparison.json, from the runs' jobs.csv, experiment.json and metrics.json."""
    from mirage.campaign import growth_results
    from mirage.statistics.comparison import compare  # imports scipy, which other targets do not need

    experiment = RunFolder(folder).experiment
    if not growth_results.is_growth(experiment):
        return compare(runs_of(folder, members), margin)
    content = compare(runs_of(folder, members), margin, machines=True)
    return content | {"growth": growth_results.member(folder, experiment, content["metrics"]["wait_mean"])}


def runs_of(folder: Path, members: Sequence[Member]) -> list[Run]:
    """The finished runs of a campaign, as a comparison takes them."""
    from mirage.statistics.comparison import Run

    runs = []
    for member in members:
        run = RunFolder(folder / member.folder)
        schedule = of_run(run)
        runs.append(
            Run(
                member.label,
                member.replica,
                member.folder,
                schedule.jobs,
                run.metrics,
                schedule.suspensions,
                schedule.allocations,
                schedule.executions,
            )
        )
    return runs


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


def show(folder: Path, content: Mapping[str, Any], screen: Screen) -> None:
    """Print the verdicts, the main metrics of each configuration against the first one, and what they rest on: up to LINES lines
    with the path of the page and the ending.

    content: comparison.json of the folder
    """
    base, jobs, runs = content["baseline"], content["jobs"], _metrics_of(folder, content)
    compared = others(content)
    left_out = f", {jobs['left_out']} could not be measured in all runs" if jobs["left_out"] else ""
    parts: list[RenderableType] = ["", f"{jobs['compared']} jobs{left_out}, {len(runs)} runs (times in seconds of the trace)"]
    main = main_of_comparison(content)
    if len(compared) == 1:
        parts += _sentences(content, base, compared[0], LINES - _BESIDE - len(main))
        parts.append(_metrics_table(content, base, compared[0], main))
    else:
        parts += [_answer(content, base, other) for other in compared]
        parts.append(_differences_table(content, base, compared[:_BESIDE_EACH_OTHER], main))
        if len(compared) > _BESIDE_EACH_OTHER:
            parts.append(f"the table has the first {_BESIDE_EACH_OTHER} of {len(compared)} configurations, the page has all")
    unused = unused_in_all(runs.values(), RunFolder(folder).experiment)
    parts += [words for machine in content.get("growth", {}).get("machines", ()) for words in machine["words"]]
    print_all(screen, *parts, *trust(runs, unused), f"all metrics: make metrics RUN={folder.name}")


def show_all(folder: Path, screen: Screen) -> None:
    """Print all metrics of a finished comparison."""
    content = RunFolder(folder).comparison
    base, runs = content["baseline"], _metrics_of(folder, content)
    unused = unused_in_all(runs.values(), RunFolder(folder).experiment)
    names = [name for name in METRICS if name in content["metrics"].keys() - unused and not METRICS[name].same_as]
    print_all(screen, *(_metrics_table(content, base, other, names) for other in others(content)))


def _metrics_of(folder: Path, content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """metrics.json of each run."""
    names = [name for configuration in content["configurations"] for name in configuration["runs"]]
    return {name: RunFolder(folder / name).metrics for name in names}


def _pairs(content: Mapping[str, Any], base: str, other: str) -> dict[str, Mapping[str, Any]]:
    """The differences between two configurations by metric."""
    return {name: pair_of(metric, base, other) for name, metric in content["metrics"].items()}


def _answer(content: Mapping[str, Any], base: str, other: str) -> str:
    return f"{other} against {base}: {_pairs(content, base, other)[content['answer']]['words']}"


def _sentences(content: Mapping[str, Any], base: str, other: str, most: int) -> list[str]:
    """The answer, a line for each other main metric that differs, up to `most`, and one with the number of the rest."""
    pairs = _pairs(content, base, other)
    these = {name: pair[THESE_JOBS] for name, pair in pairs.items()}
    differ = [name for name, finding in these.items() if finding["verdict"] in DIFFERENT and not METRICS[name].same_as]
    main = main_of_comparison(content)
    lines = [f"  {these[name]['words']}" for name in differ if name in main and name != content["answer"]][:most]
    if more := len(differ) - len(lines) - (content["answer"] in differ):
        lines.append(f"  {more} other metrics differ")
    return [_answer(content, base, other), *(lines or ["  no other metric differs significantly"])]


def _metrics_table(content: Mapping[str, Any], base: str, other: str, names: Sequence[str]) -> Table:
    """Both means of each metric, their difference, and for each question its 95 % interval with the verdict."""
    table, pairs = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True), _pairs(content, base, other)
    table.add_column("metric", no_wrap=True)
    for head in (base, other, "difference", *QUESTIONS.values()):
        table.add_column(head, justify="right")
    for name in names:
        metric, pair = content["metrics"][name], pairs[name]
        means = [rounded_text(pair[mean], metric["unit"], is_short=True) for mean in ("baseline_mean", "mean")]
        answers = [_answer_cell(pair, question, metric["better"]) for question in QUESTIONS]
        table.add_row(name, *means, _difference(pair, metric["unit"]), *answers)
    return table


def _differences_table(content: Mapping[str, Any], base: str, compared: Sequence[str], names: Sequence[str]) -> Table:
    """The first configuration's mean of each metric, and the difference of each other one with the verdict on it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    differences = [_pairs(content, base, one) for one in compared]
    table.add_column("metric", no_wrap=True)
    for head in (base, *compared):
        table.add_column(head, justify="right")
    for name in names:
        metric = content["metrics"][name]
        mean = rounded_text(differences[0][name]["baseline_mean"], metric["unit"], is_short=True)
        verdicts = [judged(of[name][THESE_JOBS]["verdict"], metric["better"]) for of in differences]
        table.add_row(
            name, mean, *(f"{_difference(of[name], metric['unit'])} {word}" for of, word in zip(differences, verdicts, strict=True))
        )
    return table


def _difference(pair: Mapping[str, Any], unit: str) -> str:
    """The text of a difference: in per cent of the baseline's mean, or in the metric's unit where that mean is 0."""
    value, unit = (pair["difference"], unit) if pair["percent"] is None else (pair["percent"], "%")
    return "-" if value is None else f"{_signed(value, unit)} {unit}".strip()


def _answer_cell(pair: Mapping[str, Any], question: str, better: str) -> str:
    """The text of a difference's confidence interval and of the verdict on it, in per cent or in the metric's unit."""
    in_percent, answer = pair["percent"] is not None, pair[question]
    between, unit = answer["percent_interval" if in_percent else "interval"], "%" if in_percent else ""
    word = judged(answer["verdict"], better)
    return word if between is None else f"{_signed(between[0], unit)} to {_signed(between[1], unit)} {word}"


def _signed(value: float, unit: str) -> str:
    if unit == "%" and value > _LONG:
        return f">{_LONG}"
    if unit == "%" and abs(value) < _SMALL:
        return "0"
    return f"{'-' if value < 0 else '+'}{figures(abs(value))}" if value else "0"
