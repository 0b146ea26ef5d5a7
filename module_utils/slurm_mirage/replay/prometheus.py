"""metrics.prom: a run's progress in Prometheus' text exposition format (version 0.0.4), for node_exporter's textfile collector
or any other scraper.

All of it follows from progress.json: the head and the control machine, which has a copy of that file, write the same. The metrics
of the scheduler are those of the resource manager (`Records.diagnostic_metrics`). docs/live.md lists all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.files import write_atomically
from ..rm.api import DiagnosticMetric
from .real_left import real_left

NAME = "metrics.prom"
EVERY = 5
"""Real seconds between two writings."""
PREFIX = "slurm_mirage_"
PHASES = ("waiting", "submitting", "draining", "finished", "failed", "stopped")
ALWAYS = {
    "states": ("pending", "running", "suspended", "completing", "configuring", "other"),
    "ended": ("completed", "cancelled", "failed", "timeout"),
}


@dataclass(frozen=True)
class Metric:
    """A metric family: its name without PREFIX, and where its value stands in progress.json (`outer.inner`)."""

    name: str
    kind: str
    help: str
    place: str
    unit: float = 1.0
    """Factor by which the value is multiplied, for the base unit in the metric's name."""


REPLAY_METRICS = (
    Metric("workload_jobs", "gauge", "Jobs of the workload, those that are yet to be submitted included.", "jobs"),
    Metric("jobs_submitted_total", "counter", "Jobs that Slurm has accepted.", "submitted"),
    Metric("jobs_resubmitted_total", "counter", "Jobs submitted again: a killed slurmctld had forgotten them.", "resubmitted"),
    Metric("submit_retries_total", "counter", "Submissions that were tried again.", "retries"),
    Metric("submit_lag_seconds", "gauge", "By how much the last job was accepted later than due, in real time.", "lag"),
    Metric("processors", "gauge", "Processors of all emulated nodes.", "processors"),
    Metric("processors_busy", "gauge", "Processors of jobs that run, suspended ones excluded.", "processors_busy"),
    Metric("nodes_not_responding", "gauge", "Nodes that do not respond to slurmctld.", "nodes_not_responding"),
)
CLOCK_AND_HOST_METRICS = (
    Metric("virtual_time_seconds", "gauge", "Time on the cluster's clock, since the Unix epoch.", "virtual"),
    Metric("clock_speed_ratio", "gauge", "How many times faster than real time the cluster's clock runs (SPEED).", "speed"),
    Metric("run_elapsed_seconds", "gauge", "Real time since the start of the replay.", "elapsed"),
    Metric("run_left_least_seconds", "gauge", "Real time until the end of the run, at least.", "time_left_least"),
    Metric("run_left_most_seconds", "gauge", "Real time until the end of the run, at most as far as is known.", "time_left_most"),
    Metric("host_cpu_busy_ratio", "gauge", "Busy part of the head host's processors, from 0 to 1.", "cpu_busy"),
    Metric("host_memory_available_bytes", "gauge", "Available memory of the head host.", "memory_available_bytes"),
    Metric("last_update_timestamp_seconds", "gauge", "Real time at which this was written, since the Unix epoch.", "real"),
)
BY_STATE = (
    Metric("jobs", "gauge", "Jobs in Slurm that have not ended, by state.", "states"),
    Metric("jobs_ended_total", "counter", "Jobs that have ended, by the state that Slurm recorded.", "ended"),
    Metric("nodes", "gauge", "Emulated nodes, by state.", "nodes"),
)
PHASE = Metric("run_phase", "gauge", "1 for the phase that the replay is in, 0 for the others.", "phase")


def write(path: Path, progress: Mapping[str, Any], diagnostics: Sequence[DiagnosticMetric]) -> None:
    """Replace the file `path` by the metrics of `progress`, the content of progress.json. Raises OSError."""
    write_atomically(path, render(progress, diagnostics), durable=False)


def render(progress: Mapping[str, Any], diagnostics: Sequence[DiagnosticMetric]) -> str:
    """The text. Metrics whose values are missing in `progress` are left out."""
    labels = {"cluster": str(progress.get("cluster", "")), "run": str(progress.get("run", ""))}
    scheduler = [Metric(one.name, "gauge", one.help, f"scheduler.{one.key}", one.unit) for one in diagnostics]
    if pace := progress.get("pace"):
        # On an event clock lengths in progress.json are virtual.
        least, most = real_left(progress) or (None, None)
        real = {"elapsed": (progress.get("elapsed") or 0.0) / pace, "time_left_least": least, "time_left_most": most}
        progress = {**progress, **real, "speed": pace}
    return "".join(_families((*REPLAY_METRICS, *scheduler, *CLOCK_AND_HOST_METRICS), progress, labels))


def _families(metrics: Iterable[Metric], progress: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[str]:
    for metric in metrics:
        value = _value(progress, metric.place)
        if value is not None:
            yield _head(metric) + _sample(metric, labels, value * metric.unit)
    for metric in BY_STATE:
        if counts := _by_state(metric, progress):
            states = (_sample(metric, {**labels, "state": state}, count) for state, count in sorted(counts.items()))
            yield _head(metric) + "".join(states)
    phases = (_sample(PHASE, {**labels, "phase": phase}, float(progress.get("phase") == phase)) for phase in PHASES)
    yield _head(PHASE) + "".join(phases)


def _by_state(metric: Metric, progress: Mapping[str, Any]) -> dict[str, int]:
    """Numbers by state. The states of ALWAYS are there even if no job is in them."""
    counts: Mapping[str, int] | None = progress.get(metric.place)
    return {} if counts is None else {**dict.fromkeys(ALWAYS.get(metric.place, ()), 0), **counts}


def _value(progress: Mapping[str, Any], place: str) -> float | None:
    value: Any = progress
    for key in place.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else float(value)


def _head(metric: Metric) -> str:
    return f"# HELP {PREFIX}{metric.name} {metric.help}\n# TYPE {PREFIX}{metric.name} {metric.kind}\n"


def _sample(metric: Metric, labels: Mapping[str, str], value: float) -> str:
    words = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
    return f"{PREFIX}{metric.name}{{{words}}} {value:.12g}\n"


def _escaped(text: str) -> str:
    """A label's value as the format wants it. What UTF-8 cannot have, of a host's answer, becomes an escape."""
    encoded = text.encode(errors="backslashreplace").decode()
    return encoded.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
