"""The page of study-scms: waiting indices and figures 1 and 2 of Golovinsky, Moskovsky and Malenko (2011) beside those of the runs.

OpenPBS takes the place of Torque; both come from the same PBS.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import polars as pl
from polars import col

from mirage.reports import comparison_pictures as pictures
from mirage.reports.comparison_page import by_label, signed
from mirage.reports.page import Part, Section, Table, Verdict, report
from mirage.reports.run_data import Run
from mirage.statistics.comparison_text import OTHER_JOBS, THESE_JOBS, p_text
from mirage.text.words import counted, duration, number, percent
from mirage.verdict.verdict import VALID, WORDS, verdict_of

INDICES = ("W", "W1", "W2", "W3", "W4")
IMMEDIATE = "immediate_fraction"
TORQUE_FIFO, SLURM_BACKFILL, SLURM_FIFO = "Torque FIFO", "Slurm backfill", "Slurm FIFO"
SOURCE: Mapping[str, Mapping[str, float]] = {
    TORQUE_FIFO: {"W": 28597, "W1": 83, "W2": 351, "W3": 62, "W4": 83, IMMEDIATE: 0.1956},
    SLURM_BACKFILL: {"W": 31748, "W1": 101, "W2": 417, "W3": 74, "W4": 100, IMMEDIATE: 0.415},
    SLURM_FIFO: {"W": 33035, "W1": 105, "W2": 434, "W3": 80, "W4": 104, IMMEDIATE: 0.4105},
}
"""Tables 2 and 3 of the source: 32,567 jobs of ten months on 166 nodes of 8 cores."""
_ARMS = {
    ("openpbs", "pbs-fifo"): ("OpenPBS FIFO", TORQUE_FIFO),
    ("openpbs", "pbs-easy"): ("OpenPBS backfill", ""),
    ("slurm", "backfill"): (SLURM_BACKFILL, SLURM_BACKFILL),
    ("slurm", "fifo"): (SLURM_FIFO, SLURM_FIFO),
}
"""Name on the page and column of the source, by resource manager and configuration."""


@dataclass(frozen=True)
class Arm:
    """A configuration of the study: label in comparison.json, name on the page, column of the source ("" for none), its runs."""

    label: str
    name: str
    source: str
    runs: Sequence[Run]

    def mean(self, metric: str) -> float | None:
        """Mean of a metric over the runs; None if one does not have it."""
        values = [run.values.get(metric) for run in self.runs]
        return None if any(value is None for value in values) else fmean(value for value in values if value is not None)

    def figure(self, name: str) -> float | None:
        """Mean of a figure of the verdict over the runs that have it; None if none has."""
        values = [value for run in self.runs if (value := run.metrics["validity"].get(name)) is not None]
        return fmean(values) if values else None

    def error(self, metric: str) -> float | None:
        """What the emulation may have added to the metric, the largest of the runs'; None if it is not known."""
        known = [(run.metrics.get("errors") or {}).get(metric, {}).get("emulation") for run in self.runs]
        return None if any(value is None for value in known) else max(known)


def arms_of(content: Mapping[str, Any], runs: Mapping[str, Run]) -> list[Arm]:
    """The configurations of the comparison, the baseline first. Others than the study's keep their labels, and have no source."""
    found = []
    for label, some in by_label(content, runs).items():
        inputs = some[0].experiment["inputs"]
        name, source = _ARMS.get((inputs.get("RM", "slurm"), inputs.get("CONFIG", "")), (label, ""))
        found.append(Arm(label, name, source, some))
    return found


def page(name: str, content: Mapping[str, Any], runs: Mapping[str, Run]) -> str:
    """The page as HTML. name: folder of the comparison in results/; content: of comparison.json; runs: by name of their folder."""
    arms = arms_of(content, runs)
    return report(f"Study {name}", _summary(content, arms), _verdict(runs), _sections(content, arms))


def _summary(content: Mapping[str, Any], arms: Sequence[Arm]) -> Iterable[str]:
    first = arms[0].runs[0]
    told = ", ".join(f"{arm.name} ({counted(len(arm.runs), 'run')})" for arm in arms)
    yield (
        f"{told}: the same "
        f"{counted(content['jobs']['compared'], 'job')} on {counted(first.nodes, 'emulated node')} with "
        f"{counted(first.processors, 'processor')}, beside the figures of “Analysis of the efficiency of job distribution of a "
        "supercomputer” (Golovinsky, Moskovsky, Malenko, 2011)."
    )
    if any(arm.source == TORQUE_FIFO for arm in arms):
        yield "OpenPBS takes the place of Torque, which is no longer maintained: both descend from the same PBS."
    else:
        yield "Torque's place is empty: OpenPBS takes it with OPENPBS_SOURCE=archive."
    yield (
        "The log of the source is not public: a model with its published figures replaces it, and a small study has fewer jobs. So "
        "not the values, but the differences between the configurations can be compared with the source's."
    )


def _verdict(runs: Mapping[str, Run]) -> Verdict:
    found = {name: run.metrics["validity"] for name, run in runs.items()}
    bad = {name: validity for name, validity in found.items() if verdict_of(validity) != VALID}
    if not bad:
        return Verdict(True, f"All {len(runs)} runs are valid.")
    answer = f"{len(bad)} of {len(runs)} runs are not valid or inconclusive: differences may be caused by the emulation."
    reasons = [f"{name} ({WORDS[verdict_of(one)]}): {'; '.join(one['reasons'])}" for name, one in bad.items()]
    return Verdict(False, answer, reasons)


def _sections(content: Mapping[str, Any], arms: Sequence[Arm]) -> Iterable[Section]:
    yield Section("Waiting indices", [Part(_WORDS, table=_values(arms), is_wide=True)])
    yield Section("Differences", [Part(_INTERVALS, table=_differences(content, arms), is_wide=True)])
    known = {arm.name: [run.metrics["distribution"] for run in arm.runs if run.metrics.get("distribution")] for arm in arms}
    if len(arms) > 1 and all(known.values()):
        drawn = pictures.busy_nodes(known, arms[0].runs[0].nodes, arms[0].name)
        titles = ("Figure 1 of the source is F of its Torque FIFO. ", "Figure 2 of the source is the same difference. ")
        parts = [Part(title + picture.description, picture) for title, picture in zip(titles, drawn, strict=True)]
        yield Section("Distribution of busy nodes (figures 1 and 2)", parts)
    else:
        yield Section("Distribution of busy nodes (figures 1 and 2)", lacks=["The distribution of busy nodes is not known."])
    yield Section("What the managers did", [Part(_EVIDENCE, table=_evidence(arms), points=list(_sentences(arms)), is_wide=True)])
    link = Table("Comparison", ("comparison", "page"), [("all metrics and runs", "report.html")], links=["report.html"])
    yield Section("All metrics", [Part("It has the pages of all runs, and every metric with its errors.", table=link)])


_WORDS = (
    "docs/metrics.md defines the indices. A value here is the mean of the runs, ± what the emulation may have added or taken away. "
    "W is in seconds."
)
_INTERVALS = (
    "Differences of the means in per cent of the first configuration, with 95 % intervals over replicas, jobs and what the "
    "emulation may have added, and the corrected p where there are several runs; beside them the source's differences from its "
    "Torque FIFO."
)
_EVIDENCE = (
    "Out of order: share of the jobs that started before a job that came earlier, by more than what the run resolves, and than its "
    "longest scheduling cycle and a launch. Nodes: nodes of all jobs, beyond the fewest that "
    "can hold them. Start latency: wait of jobs for which processors were idle. All times are in seconds of the trace."
)


def _shown(metric: str, value: float | None) -> str:
    if value is None:
        return "-"
    return percent(value) if metric == IMMEDIATE else number(round(value, 0 if value >= 100 else 2))


def _with_error(metric: str, arm: Arm) -> str:
    value, error = arm.mean(metric), arm.error(metric)
    if error and metric != IMMEDIATE:
        error = max(error, 0.01)  # the last digit that is shown, so that a small error is not shown as 0
    return _shown(metric, value) + ("" if value is None or error is None else f" ± {_shown(metric, error)}")


def _values(arms: Sequence[Arm]) -> Table:
    headings = ["index"]
    for arm in arms:
        headings += [arm.name, *([f"source: {arm.source}"] if arm.source else [])]
    rows = []
    for metric in (*INDICES, IMMEDIATE):
        row = ["started at once" if metric == IMMEDIATE else metric]
        for arm in arms:
            row += [_with_error(metric, arm), *([_shown(metric, SOURCE[arm.source][metric])] if arm.source else [])]
        rows.append(tuple(row))
    return Table("Indices here and in the source", tuple(headings), rows)


def _differences(content: Mapping[str, Any], arms: Sequence[Arm]) -> Table:
    base = arms[0]
    rows = []
    for arm in arms[1:]:
        for metric in (*INDICES, IMMEDIATE):
            pairs = content["metrics"].get(metric, {}).get("pairs", [])
            pair = next((one for one in pairs if (one["baseline"], one["configuration"]) == (base.label, arm.label)), None)
            rows.append((arm.name, "started at once" if metric == IMMEDIATE else metric, *_of_pair(pair), _of_source(metric, arm)))
    heads = ("configuration", "index", f"against {base.name}", "95 % interval", "p", "source, against Torque FIFO")
    return Table("Differences", heads, rows)


def _of_pair(pair: Mapping[str, Any] | None) -> tuple[str, str, str]:
    if pair is None or pair["percent"] is None:
        return "-", "-", "-"
    found = pair[THESE_JOBS if pair[OTHER_JOBS]["percent_interval"] is None else OTHER_JOBS]
    between = found["percent_interval"]
    return (
        f"{signed(pair['percent'])} %",
        "-" if between is None else f"{signed(between[0])} to {signed(between[1])} %",
        "-" if found["p_corrected"] is None else p_text(found["p_corrected"]),
    )


def _of_source(metric: str, arm: Arm) -> str:
    if not arm.source or arm.source == TORQUE_FIFO:
        return "-"
    torque = SOURCE[TORQUE_FIFO][metric]
    return f"{signed(100 * (SOURCE[arm.source][metric] / torque - 1))} %"


# ---- evidence ----


def out_of_order(jobs: pl.DataFrame, within: float = 0.0) -> float | None:
    """Share of the started jobs that started before a job that was submitted earlier; None without any. Of jobs that were submitted
    at the same instant the one with the smaller number came earlier. within: trace seconds by which starts of one scheduling cycle
    may be recorded in another order."""
    started = jobs.drop_nulls("start").sort("submit", "id")
    if started.is_empty():
        return None
    return float(started.select((col("start") < col("start").cum_max() - within).mean()).item())


def _out_of_order(run: Run) -> float | None:
    """`out_of_order` of a run, within what the run resolves, and its longest scheduling cycle and a launch.

    OpenPBS records a start when the job's first node has answered, which takes longer for a job on more nodes.
    """
    validity = run.metrics["validity"]
    resolution = validity.get("resolution") or {}
    within_a_cycle = sum(validity.get(name) or 0.0 for name in ("backfill_cycle_max", "launch_cost"))
    known = (resolution.get("record"), resolution.get("floor"), within_a_cycle)
    return out_of_order(run.schedule.jobs, max(value for value in known if value is not None))


def spread(jobs: pl.DataFrame, cpus: int) -> float | None:
    """Nodes of all jobs beyond the fewest of `cpus` processors that can hold them, as a share of these; None if unknown."""
    known = jobs.drop_nulls(["start", "nodes", "processors"])
    if known.is_empty():
        return None
    fewest = (col("processors") + (cpus - 1)) // cpus
    return float(known.select(col("nodes").sum() / fewest.sum() - 1).item())


def _evidence(arms: Sequence[Arm]) -> Table:
    rows = []
    for arm in arms:
        jobs = [run.schedule.jobs for run in arm.runs]
        cpus = max(1, arm.runs[0].processors // arm.runs[0].nodes)
        order = [one for run in arm.runs if (one := _out_of_order(run)) is not None]
        nodes = [one for frame in jobs if (one := spread(frame, cpus)) is not None]
        rows.append(
            (
                arm.name,
                percent(fmean(order)) if order else "-",
                f"{signed(100 * fmean(nodes))} %" if nodes else "-",
                *(_seconds(arm.figure(name)) for name in ("start_latency_p50", "start_latency_p99", "launch_cost")),
                _seconds(arm.figure("backfill_cycle_max")),
            )
        )
    heads = ("configuration", "out of order", "nodes", "start latency, median", "its p99", "launch cost", "longest cycle")
    return Table("Behaviour of the managers in these runs", heads, rows)


def _seconds(value: float | None) -> str:
    return "-" if value is None else duration(max(0.0, value))


def _sentences(arms: Sequence[Arm]) -> Iterable[str]:
    """Sentences on the measured order of starts, and on the rules of the managers that explain it."""
    for arm in arms:
        shares = [one for run in arm.runs if (one := _out_of_order(run)) is not None]
        if not shares:
            continue
        if arm.name.endswith("FIFO"):
            kept = (
                "kept the order of submission" if max(shares) == 0 else f"started {percent(fmean(shares))} of the jobs out of order"
            )
            yield f"{arm.name} {kept}."
        else:
            yield f"{arm.name} started {percent(fmean(shares))} of the jobs before one that came earlier."
    if any(arm.name.startswith("OpenPBS") for arm in arms):
        yield (
            "OpenPBS begins a scheduling cycle at each submission and at each end of a job, goes through the waiting jobs in "
            "order, and plans for the first one that does not fit (backfill_depth 1; 0 for FIFO, which stops there: "
            "strict_ordering)."
        )
    yield (
        "Slurm starts the first waiting jobs at each submission and each end; with backfill a second scheduler looks at all "
        "waiting jobs every few seconds (bf_interval), and plans for each of them, not for the first only."
    )
