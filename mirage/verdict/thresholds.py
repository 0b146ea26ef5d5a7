"""The bounds of a valid run; docs/validity.md gives the reasons for their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.evidence import Scheduling

KNOWN_SHARE = 0.9
"""Share of the jobs that ran of which the run-time stretch, and the time until processors were free, have to be known."""


@dataclass(frozen=True)
class Thresholds:
    """Bounds of a valid run. `_share`: a fraction from 0 to 1 of what follows "of"; `_seconds`: virtual seconds."""

    resolution_share: float = 0.05
    """What the run resolves (resolution.py), of the mean wait, of the median run time, and of the threshold of `immediate`."""
    submit_lag_share: float = 0.05
    """Mean submit lag, of the mean wait; and its 99th percentile, of that of the waits."""
    start_latency_share: float = 0.05
    """Median and mean start latency, of the mean wait; and its 99th percentile, of that of the waits."""
    start_latency_seconds: float = 4.0
    """Start latency that Slurm itself can cause: 3 s of batch_sched_delay (its default), plus 1 s of its record. Another
    manager has its own."""
    stretch_p50_share: float = 0.01
    """Median of the run-time stretch, as a share of each job's run time."""
    stretch_of_load_share: float = 0.01
    """Run-time stretch of all jobs in processor time, as a share of the processor time that they wanted."""
    stretch_class_share: float = 0.05
    """The same of the jobs of one class of size or of run time."""
    stretch_tail_share: float = 0.25
    """1st and 99th percentile of the same, of all jobs and of a class."""
    launch_cost_share: float = 0.1
    """Median of what was taken off a job's run time for its launch, as a share of the run time."""
    launch_cost_error_share: float = 0.01
    """Standard error of the launch cost, of the median run time."""
    clipped_share: float = 0.01
    """Jobs whose run time was cut to 0 because a launch takes longer, of all jobs."""
    freed_share: float = 0.05
    """Median time from the end of a job until its processors are free, of the mean wait; and its 99th percentile, of that of the
    waits."""
    interruption_share: float = 0.05
    """Time for which the replay or slurmctld stood still, of the mean wait."""
    clock_offset_share: float = 0.05
    """Difference between the clocks of two hosts, of the median run time."""
    dispatch_gap_share: float = 0.05
    """Mean time by which waiting jobs were started late, of the mean wait."""
    dispatch_gap_of_load_share: float = 0.01
    """The same of all jobs in processor time, as a share of the processor time that they wanted."""
    error_share: float = 0.05
    """What the emulation may have added to a metric (docs/emulation-error.md), of its value."""
    backfill_cycle_share: float = 0.05
    """Mean backfill cycle, of the mean wait."""
    backfill_cycle_seconds: float = 30.0
    """Slurm's default: a cycle may take as long as the pause between two cycles. `in_force` uses the setting of the run instead."""
    nodes_not_responding: int = 0
    nodes_lacking_share: float = 0.01
    """Time for which nodes took no jobs, of that of all nodes."""
    messages_share: float = 0.05
    """Error messages of slurmctld and slurmd of a known kind (daemon_log.py), of the number of jobs."""
    host_cpu_busy: float = 0.9
    """Mean busy share of the host's processors above which it is named as a cause."""
    host_cpu_full: float = 0.95
    """Busy share above which a sample counts as saturated."""
    host_cpu_saturated: float = 0.1
    """Share of saturated samples above which it is named as a cause."""
    clock_speed_share: float = 0.01
    """Difference between the clock speed in Slurm's record and the requested one, of the requested one."""
    false_quiet_share: float = 0.01
    """Time that the event clock may have let pass while the host worked, of the run's."""
    broker_wait_share: float = 0.05
    """Time for which malleable jobs waited for the broker, of the time that they ran."""
    disagreements_share: float = 0.01
    """Disagreements of the two records about times, of the number of jobs. Others are not allowed at all."""

    @classmethod
    def of(cls, changes: Mapping[str, Any]) -> Thresholds:
        """The defaults with some bounds changed. Raises WrongUse for a bound that does not exist or is below 0."""
        known = [field.name for field in fields(cls)]
        for name, value in changes.items():
            if name not in known:
                raise WrongUse(f"thresholds: {name!r} may be one of {', '.join(known)}")
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise WrongUse(f"thresholds: {name}: {value!r} may be a number, 0 or more")
        return cls(**changes)

    @classmethod
    def in_force(cls, changes: Mapping[str, Any], scheduling: Scheduling) -> Thresholds:
        """The thresholds for a run, with what its resource manager causes itself, such as a pause between two backfill cycles.

        `changes` are as in `of`; `scheduling` is that of the run.
        """
        return cls.of({**scheduling.bounds, **changes})
