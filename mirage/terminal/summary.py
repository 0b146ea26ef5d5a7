"""The end of a run, a sweep or a comparison on the terminal: the main metrics of a run, and what the numbers rest on."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Set
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table

from mirage.metrics import metrics as definitions
from mirage.metrics.registry import METRICS, main_of
from mirage.records.run_folder import RunFolder
from mirage.terminal.parts import limits_of
from mirage.terminal.screen import Screen
from mirage.terminal.table import (
    error_text,
    figures_of,
    jobs_by_state,
    kinds_of_errors,
    only_these_jobs,
    print_all,
    rounded_text,
    value_text,
    width_of,
)
from mirage.text.words import counted, number, two_digits
from mirage.verdict.bounds import in_words
from mirage.verdict.event_clock import is_slow_elsewhere
from mirage.verdict.events import forgotten_words, outcome_words
from mirage.verdict.features import unused_rows
from mirage.verdict.verdict import INCONCLUSIVE, INVALID, VALID, WORDS, verdict_of
from slurm_mirage.rm.registry import names_of

_WIDE = 100
"""Columns of a terminal in which a metric is explained, and not only named."""
_BY = {"emulation": "emulation", "replicas": "another run"}
_SHORT = {
    "false_quiet_share": "time that passed while the host worked",
    "dispatch_gap_mean": "late starts of waiting jobs, mean",
    "dispatch_gap_of_load": "free processors not given to waiting jobs",
}
"""Figures whose words would not fit into a line."""
Content = Mapping[str, Any]


def show(run: RunFolder, screen: Screen) -> None:
    """Print the end of a run, one screen with the path of the page and the ending."""
    metrics = run.metrics
    unused = unused_rows(metrics, run.experiment)
    parts: list[RenderableType] = ["", f"jobs: {jobs_by_state(metrics)} (times in seconds of the trace)"]
    rows = [row for row in definitions.table(metrics) if METRICS[row[0]].is_main]
    if all(value is None for _, value, _, _ in rows):
        parts.append(f"no metrics: {', '.join(dict.fromkeys(reason for _, _, _, reason in rows))}")
    else:
        parts.append(_main_table(metrics, rows, is_narrow=width_of(screen) < _WIDE))
        parts += only_these_jobs(metrics)
    of_features = [name for name in main_of([metrics["metrics"]]) if not METRICS[name].is_main and name not in unused]
    if of_features:
        figures = (f"{METRICS[name].in_sentences} {value_text(metrics['metrics'][name], _unit(name))}" for name in of_features)
        parts.append(f"also: {', '.join(figures)}")
    if happened := metrics.get("events"):
        parts.append(events_line(happened))
    if left_out := [f"{count} {reason}" for reason, count in metrics["excluded"].items()]:
        parts.append(f"left out of the metrics: {', '.join(left_out)}")
    parts += [*limits_of(metrics), *_inconclusive(metrics)]
    print_all(screen, *parts, *trust({run.name: metrics}, unused), f"all metrics and figures: make metrics RUN={run.name}")


def events_line(member: Content) -> str:
    """`12 events: 11 done, 1 refused; 3 executions of jobs lost (15.3 processor hours)`."""
    words = outcome_words(member["counts"])
    if lost := sum(of_cause["executions"] for of_cause in member["lost"].values()):
        hours = sum(of_cause["processor_hours"] for of_cause in member["lost"].values())
        words += f"; {counted(lost, 'execution')} of jobs lost ({number(round(hours, 1))} processor hours)"
    return words + forgotten_words(member)


def _inconclusive(metrics: Content) -> list[str]:
    """A line for each reason for which main metrics of the run are inconclusive."""
    # Those that the emulation may have changed too much are in the reason of the ending.
    reasons = {name: why for name, why in metrics["validity"]["inconclusive_metrics"].items() if METRICS[name].is_main}
    return [
        f"{', '.join(name for name, one in reasons.items() if one == why)}: inconclusive, {why}"
        for why in dict.fromkeys(reasons.values())
    ]


def _unit(name: str) -> str:
    return "share" if METRICS[name].is_share else METRICS[name].unit


def _main_table(metrics: Content, rows: Collection[tuple[str, float | None, str, str]], *, is_narrow: bool) -> Table:
    """The metrics with their errors. rows: of `metrics.table`"""
    kinds, table = kinds_of_errors(metrics), Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("metric", no_wrap=True)
    for head in ("value", *("other jobs" if kind == "other_jobs" else f"± {kind}" for kind in kinds)):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("meaning")
    for name, value, unit, meaning in rows:
        metric, of_metric = METRICS[name], metrics["errors"].get(name, {})
        errors = [error_text(of_metric.get(kind)) for kind in kinds]
        text = metric.in_sentences if is_narrow else metric.explained or meaning
        table.add_row(name, rounded_text(value, unit, is_short=is_narrow), *errors, meaning if value is None else text)
    return table


# ---- what the numbers rest on ----


def trust(runs: Mapping[str, Content], unused: Set[str] = frozenset()) -> list[str]:
    """At most four lines: the verdict, the figure of the verdict that is closest to its bound, the largest errors, and whether the
    scheduler would be slow on another clock.

    runs: metrics.json of each run, by name. unused: names of figures that are left out, see `features.unused_rows`
    """
    shares = [(*one, run) for run, content in runs.items() for one in _shares(content["validity"], unused)]
    lines = [_verdict(runs, [share for share, _, _ in shares])]
    if shares:
        share, words, run = max(shares)
        what = "furthest beyond its bound" if share > 1 else "closest to its bound"
        lines.append(f"{what}: {words}{f' ({run})' if len(runs) > 1 else ''}")
    slow = [run for run, content in runs.items() if is_slow_elsewhere(content["validity"])]
    if slow:
        of = "" if len(slow) == len(runs) else f" ({', '.join(slow)})"
        lines.append(f"the scheduler computes for long, which the event clock does not count; CHARGE=yes counts it{of}")
    if errors := [words for kind in _BY if (words := _largest_error(runs, kind))]:
        lines.append(f"largest errors: {', '.join(errors)}")
    return lines


def _verdict(runs: Mapping[str, Content], shares: list[float]) -> str:
    verdicts = {run: verdict_of(content["validity"]) for run, content in runs.items()}
    beyond = sum(share > 1 for share in shares)
    if len(runs) > 1:
        named = {
            verdict: [run for run, run_verdict in verdicts.items() if run_verdict == verdict] for verdict in (INVALID, INCONCLUSIVE)
        }
        if not any(named.values()):
            return f"trust: {len(runs)} of {len(runs)} runs are valid"
        counts = (f"{len(of)} of {len(runs)} runs {WORDS[verdict]} ({', '.join(of)})" for verdict, of in named.items() if of)
        return f"trust: {', '.join(counts)}; differences may be caused by the emulation"
    (verdict,) = verdicts.values()
    if not shares:
        return f"trust: {WORDS[verdict]}"
    if beyond:
        return f"trust: {WORDS[verdict]}, {beyond} of {len(shares)} figures of the verdict are beyond their bounds"
    joint = ", as" if verdict == VALID else ", though"
    return f"trust: {WORDS[verdict]}{joint} all {len(shares)} figures of the verdict are within their bounds"


def _shares(validity: Content, unused: Set[str]) -> Iterator[tuple[float, str]]:
    """How much of its bound each known figure is, and the figure in words."""
    names, bounds = names_of(validity.get("manager", "")), validity["bounds"]
    for name, _, unit, value in figures_of(validity, unused):
        if name in bounds and isinstance(value, (int, float)):
            share = abs(value) / bounds[name] if bounds[name] else math.inf if value else 0.0
            words = _SHORT.get(name) or in_words(name, names).removeprefix("the ").rstrip(",")
            yield share, f"{words}, {value_text(value, unit)} of {value_text(bounds[name], unit)}"


def _largest_error(runs: Mapping[str, Content], kind: str) -> str:
    """The largest error of a kind among the main metrics, as a share of the metric; "" if none is known."""
    shares = [
        (error / abs(values[name]), error, name, run)
        for run, content in runs.items()
        for values, errors in [(content["metrics"], content["errors"])]
        for name in main_of([values])
        if METRICS[name].is_main and values.get(name) and (error := errors.get(name, {}).get(kind)) is not None
    ]
    if not shares:
        return ""
    share, error, name, run = max(shares)
    per_cent, amount = (two_digits(number) if number else "0" for number in (100 * share, error))
    what = f", {run}" if len(runs) > 1 else f" ± {amount} {METRICS[name].unit}".rstrip()
    return f"{_BY[kind]} {per_cent} % ({name}{what})"
