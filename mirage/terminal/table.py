"""Prints metrics.json as tables on the terminal or into a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table

from mirage.metrics import metrics as definitions
from mirage.metrics.classes import ALL, RUNTIMES
from mirage.statistics.other_jobs import ONLY_THESE
from mirage.terminal.console import PlainConsole
from mirage.terminal.parts import parts_of
from mirage.terminal.screen import Screen
from mirage.text.words import about, three_digits, two_digits
from mirage.verdict import aspects
from mirage.verdict.features import unused_rows
from mirage.verdict.verdict import inconclusive_metrics
from slurm_mirage.rm.registry import names_of

# Figures of the run's validity: name in metrics.json, meaning with the fields of `Names` in braces, unit.
VALIDITY = (
    ("submit_lag_mean", "submissions accepted later than due, mean", "s"),
    ("submit_lag_p99", "submissions accepted later than due, 99th percentile", "s"),
    ("launch_latency_p50", "from {manager}'s start of a job to the job's own, median", "s"),
    ("launch_cost", "run time taken off each job, because a launch takes as long; mean", "s"),
    ("launch_cost_share", "the same as a share of each job's run time, median", "share"),
    ("launch_cost_error", "its standard error, the largest of all jobs'", "s"),
    ("clipped", "jobs that ran for less than their launch costs, and whose programs do not run at all", "share"),
    ("start_latency_p50", "from submission to start where nothing was in the way, median", "s"),
    ("start_latency_mean", "the same, mean", "s"),
    ("start_latency_p99", "the same, 99th percentile", "s"),
    ("dispatch_gap_mean", "by how much waiting jobs were started late, mean", "s"),
    ("dispatch_gap_p99", "the same, 99th percentile", "s"),
    ("dispatch_gap_of_load", "the same in processor time, of all jobs together", "share"),
    ("freed_p50", "from a job's end until other jobs may have its processors, median", "s"),
    ("freed_p99", "the same, 99th percentile", "s"),
    ("runtime_stretch_p50", "run time beyond the wanted one, median", "s"),
    ("runtime_stretch_p99", "run time beyond the wanted one, 99th percentile", "s"),
    ("stretch_share_p1", "run time beyond the wanted one, as a share of each job's, 1st percentile", "share"),
    ("stretch_share_p50", "run time beyond the wanted one, as a share of each job's, median", "share"),
    ("stretch_share_p99", "run time beyond the wanted one, as a share of each job's, 99th percentile", "share"),
    ("stretch_of_load", "run time beyond the wanted one in processor time, of all jobs together", "share"),
    ("backfill_cycle_mean", "{cycle}, mean over the jobs that waited for it", "s"),
    ("backfill_cycle_max", "longest {cycle}", "s"),
    ("interrupted", "for how long the replay was down", "s"),
    ("foreign_jobs", "jobs in the cluster that the run did not submit", ""),
    ("halted", "for how long {controller} started nothing, because it had died or did not answer", "s"),
    ("clock_offset_max", "by how much the clock of a host differs from the head's, at most", "s"),
    ("nodes_not_responding", "nodes not responding, at most", ""),
    ("nodes_lacking", "time for which nodes took no jobs, of that of all nodes", "share"),
    ("retries", "submissions tried again", ""),
    ("resubmitted", "jobs submitted again after a restart", ""),
    ("copies_cancelled", "second copies of jobs that the replay cancelled after a restart", ""),
    ("reruns_cancelled", "second runs of ended jobs that the replay cancelled after a restart", ""),
    ("released", "launches after which {manager} held the job", ""),
    ("requeued", "jobs that {manager} put back in the queue", ""),
    ("broken", "jobs that the emulation broke, by kind", "counts"),
    ("messages", "complaints of {controller} and {node_daemon}, by kind", "counts"),
    ("daemons_ended", "daemons that ended unexpectedly and were started again, by kind", "counts"),
    ("limits_extended", "time limits extended", ""),
    ("disagreements", "contradictions between the jobs' record and {manager}'s", ""),
    ("host_cpu", "processors of the host busy", "share"),
    ("host_cpu_saturated", "samples in which they were busy throughout", "share"),
    ("clock_speed", "speed of {manager}'s clock", ""),
    *aspects.shown_figures(),
    ("false_quiet_share", "time that the event clock may have let pass while the host worked, as a share of the run's", "share"),
)

# Figures of the event clock itself: name in `event_clock` of the validity, meaning, unit.
EVENT_CLOCK = (
    ("virtual_seconds", "how long the run took, on the cluster's clock", "s"),
    ("real_seconds", "the same, in real time", "s"),
    ("busy_real_seconds", "real time in which the host worked for it", "s"),
    ("jumps", "jumps of the clock", ""),
    ("false_quiets", "wake-ups that jumps did not foresee", ""),
    ("false_quiet_seconds", "what passed in them, at most", "s"),
    ("given_up", "waits that did not end at their instant", ""),
    ("unlisted", "waits that the clock had no room for", ""),
    ("coordinator_starts", "times that the program that keeps the clock was started again", ""),
    ("charged_seconds", "{controller}'s own processor time that counted (CHARGE)", "s"),
    ("scheduler_seconds", "{controller}'s own processor time", "s"),
    ("idle_cycles", "cycles of backfilling that could decide nothing new and were left out", ""),
    ("reader_steps", "steps of time for programs that wait by reading the clock", ""),
    ("mode", "how the clock learns which threads work", ""),
)
_MODES = {1: "BPF", 2: "looks at /proc"}


def figures_of(validity: Mapping[str, Any], unused: Set[str] = frozenset()) -> list[tuple[str, str, str, Any]]:
    """The figures of the verdict that are there: name, meaning, unit, and value or why it is not measured. Those of the event clock
    follow the others.

    unused: names that are left out, see `features.unused_rows`
    """
    names = vars(names_of(validity.get("manager", "")))
    values = {**validity, **validity.get("not_measured", {})}
    known = [(name, words.format(**names), unit, values[name]) for name, words, unit in VALIDITY if name in values.keys() - unused]
    clock = validity.get("event_clock") or {}
    own = [(name, words.format(**names), unit, clock[name]) for name, words, unit in EVENT_CLOCK if name in clock.keys() - unused]
    return known + [
        (f"event_clock: {name}", words, unit, _MODES.get(value, str(value)) if name == "mode" else value)
        for name, words, unit, value in own
    ]


def value_text(value: float | str | Mapping[str, int] | None, unit: str) -> str:
    """A figure with its unit; "-" if unknown. Counts by kind are listed without zeros."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{count} {kind}" for kind, count in value.items() if count) or "0"
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "s":
        return f"{value:.2f} s" + (f" ({about(value)})" if value >= 90 else "")
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def rounded_text(value: float | None, unit: str, *, is_short: bool = False) -> str:
    """The same, shorter: times from 100 s on have no decimals. is_short: in seconds only"""
    if unit != "s" or value is None or value < 90:
        return value_text(value, unit)
    return f"{value:.{0 if value >= 100 else 2}f} s" + ("" if is_short else f" ({about(value)})")


_ERRORS = {
    "emulation": "what the emulation may have added or taken away (docs/emulation-error.md)",
    "replicas": "by how much another run of the same jobs may differ",
    "other_jobs": "95 % interval for other jobs like these",
}
"""Kinds of errors of a metric, in the order in which they are shown. All but the last are half widths."""


def kinds_of_errors(metrics: Mapping[str, Any]) -> list[str]:
    """The kinds of errors that any metric in metrics.json has."""
    errors = metrics["errors"].values()
    return [kind for kind in _ERRORS if any(of_metric.get(kind) is not None for of_metric in errors)]


def about_errors(kinds: Sequence[str]) -> str:
    """Explains the errors in a table of metrics."""
    shown = [f"{'' if kind == 'other_jobs' else '± '}{_ERRORS[kind]}" for kind in kinds]
    return f"value {', '.join(shown)}; -: error_reasons in metrics.json has the reason"


def error_text(error: float | Sequence[float] | None) -> str:
    """A half width with two digits, or both ends of an interval with three; "-" if it is not known."""
    if error is None:
        return "-"
    return two_digits(error) if isinstance(error, (int, float)) else " to ".join(map(three_digits, error))


def only_these_jobs(metrics: Mapping[str, Any]) -> list[str]:
    """A line that says why the mean wait has no interval for other jobs, if they have too few cycles for it."""
    reasons = metrics["error_reasons"].get("wait_mean", "").split("; ")
    return [reason.removeprefix("other_jobs: ") for reason in reasons if ONLY_THESE in reason]


def errors_text(metrics: Mapping[str, Any], name: str, kinds: Sequence[str]) -> str:
    """A metric's errors, in its unit, with two digits: " ± 9.1 ± 61 (230 to 410)"; "" if it has none."""
    errors = {kind: metrics["errors"].get(name, {}).get(kind) for kind in kinds}
    if all(error is None for error in errors.values()):
        return ""
    shown = {kind: error_text(error) for kind, error in errors.items()}
    return "".join(f" ({text})" if kind == "other_jobs" else f" ± {text}" for kind, text in shown.items())


def _with_bound(words: str, bound: float | None, unit: str) -> str:
    """The meaning of a figure, with its bound for this run if it has one."""
    return words if bound is None else f"{words}; allowed: {value_text(bound, unit)}"


def _table(rows: list[tuple[str, str, str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("metric", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("meaning")
    for row in rows:
        table.add_row(*row)
    return table


def width_of(screen: Screen) -> int:
    """Columns of the terminal. Without a terminal they are 110; the default of rich is 80."""
    return PlainConsole(screen.stream).width if screen.is_terminal else 110


def print_all(screen: Screen, *parts: RenderableType) -> None:
    """Print texts, each of one line, and tables of rich."""
    console = PlainConsole(screen.stream, width=width_of(screen), force_terminal=False)
    with console.capture() as printed:
        for part in parts:
            console.print(part)
    # Remove the padding of tables, which would be part of copied text and of files.
    screen.say(*(line.rstrip() for line in printed.get().splitlines()))


# Short column headings for the classes of run time (classes.RUNTIMES).
_SHORT = ("to 1 min", "to 10 min", "to 1 h", "to 6 h", "to 1 d", "over 1 d")


def classes_table(classes: list[dict[str, Any]]) -> Table:
    """Bounded slowdown by processors and run time, the mean of each class; and the jobs of each size and of each run time."""
    rows = {(row["size"], row["runtime"]): row for row in classes}
    sizes, runtimes = ([*dict.fromkeys(row[by] for row in classes if row[by] != ALL), ALL] for by in ("size", "runtime"))
    runtimes = [name for name in (*RUNTIMES, ALL) if name in runtimes]
    headings = dict(zip(RUNTIMES, _SHORT, strict=True))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("processors", no_wrap=True)
    for name in [*(headings.get(name, name) for name in runtimes), "jobs"]:
        table.add_column(name, justify="right", no_wrap=True)
    for size in sizes:
        means = [rows.get((size, runtime), {}).get("bounded_slowdown_mean") for runtime in runtimes]
        table.add_row(
            size, *("" if mean is None else value_text(mean, "") for mean in means), str(rows.get((size, ALL), {}).get("jobs", ""))
        )
    table.add_row("jobs", *(str(rows.get((ALL, runtime), {}).get("jobs", "")) for runtime in runtimes), "")
    return table


def jobs_by_state(metrics: Mapping[str, Any]) -> str:
    """Counts of the jobs by how they ended, without zeros."""
    return ", ".join(f"{count} {state}" for state, count in metrics["jobs"].items() if count) or "none"


def show(metrics: dict[str, Any], screen: Screen, experiment: Mapping[str, Any] | None = None) -> None:
    """Print the jobs by state, the metrics (or the reason why one is missing), and the figures of the run's validity.

    experiment: experiment.json of a run. Rows of features that were not used are left out.
    """
    unused = unused_rows(metrics, experiment)
    parts: list[RenderableType] = ["", f"jobs: {jobs_by_state(metrics)} (times in seconds of the trace)"]
    rows = [row for row in definitions.table(metrics) if row[0] not in unused]
    if all(value is None for _, value, _, _ in rows):
        parts.append(f"no metrics: {', '.join(dict.fromkeys(reason for _, _, _, reason in rows))}")
    else:
        kinds = kinds_of_errors(metrics)
        parts.append(
            _table(
                [(name, value_text(value, unit) + errors_text(metrics, name, kinds), words) for name, value, unit, words in rows]
            )
        )
        if kinds:
            parts.append(about_errors(kinds))
        parts += only_these_jobs(metrics)
    parts += parts_of(metrics)
    parts += [f"left out: {count} ({reason})" for reason, count in metrics["excluded"].items()]
    classes = metrics["classes"]
    if len({(row["size"], row["runtime"]) for row in classes if ALL not in (row["size"], row["runtime"])}) > 1:
        parts += ["", "bounded slowdown, mean by processors and run time:", classes_table(classes)]
    if validity := metrics.get("validity"):
        bounds = validity["bounds"]
        known = [
            (name, value_text(value, unit), _with_bound(words, bounds.get(name), unit))
            for name, words, unit, value in figures_of(validity, unused)
        ]
        parts.append(_table(known))
        parts += [f"{name} is inconclusive: {reason}" for name, reason in inconclusive_metrics(validity).items()]
    print_all(screen, *parts)
