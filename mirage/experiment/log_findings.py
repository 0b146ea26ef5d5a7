"""What the rules of logs say of the jobs of a run, before it begins."""

from __future__ import annotations

from mirage.experiment.prepare import selection_of_any
from mirage.knobs.knobs import Knobs
from mirage.traces.trace import LARGEST_JOB, Trace
from mirage.workloads import log_rules
from mirage.workloads.log_rules import Log

OF_TIMES = ("hole", "thin-begin", "thin-end", "flurry", "overload", "low-load")
"""Rules over the jobs' own submission times, which SUBMISSION replaces."""
OF_SIZES = ("too-wide",)
"""Rules over sizes that the preparation refuses, leaves out or changes, by SIZES."""


def severe(knobs: Knobs, trace: Trace) -> list[str]:
    """Errors and warnings on the selected jobs of TRACE, one line each; none of a generated workload."""
    if not knobs.workload.trace:
        return []
    processors: int | None = knobs.nodes.machine.processors
    if knobs.jobs.sizes == "scale":
        processors = None if trace.machine_source() == LARGEST_JOB else trace.machine()[0]
    left_out = {*OF_SIZES, *(OF_TIMES if knobs.jobs.groups is not None else ())}
    found = log_rules.severe(Log.of(trace, selection_of_any(knobs.workload), processors))
    return [finding.line for finding in found if finding.rule not in left_out]
